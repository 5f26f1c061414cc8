"""The advice for well-known errors of connectors, by the text of their traces."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kcli.client.diagnosis.connect.state import ConnectorState

DEAD_LETTERS = "errors.deadletterqueue.topic.name"

_CAUSE = "Caused by: "
_PUT_FAILED = "Exiting WorkerSinkTask due to unrecoverable exception"
_NOT_TOLERATED = "Tolerance exceeded in error handler"
_UNKNOWN_CLASS = re.compile(
    r"Failed to find any class that implements \w+ and which name matches (?P<name>[^,\s]+)", re.ASCII
)
_LISTED_CLASS = re.compile(r"PluginDesc\{klass=class ([^,]+)")
_NEAR = 0.6
"""The similarity of names from which a name is probably a mistyped one."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A FAILED connector or task. `plugins` are the names of the classes that the worker has."""

    connector: ConnectorState
    trace: str
    plugins: Sequence[str]
    url: str

    @property
    def text(self) -> str:
        """The first line of the trace, and its last cause, because the first line of many traces says very little."""
        lines = self.trace.splitlines() or ["the worker reports no trace"]
        causes = [line.removeprefix(_CAUSE) for line in lines if line.startswith(_CAUSE)]
        return lines[0] if not causes else f"{lines[0]}; cause: {causes[-1]}"

    def command(self, action: str, *options: str) -> str:
        """A command line of `kcli connect` for this connector."""
        words = ["kcli", "connect", action, self.connector.name, *options, "--url", self.url]
        return shlex.join(words)

    @property
    def restart(self) -> str:
        return self.command("restart", "--failed")


def hint(failure: Failure) -> str:
    """Returns the change that solves the failure, or the command after the change, if the error is not known."""
    for pattern, advice in _HINTS:
        if (match := pattern.search(failure.trace)) is not None:
            return advice(failure, match)
    return f"correct the cause, then: {failure.restart}"


def short_message(message: str) -> str:
    """The message of a refused request. Kafka lists all plugins if a class is unknown: only the nearest one is left."""
    unknown = _UNKNOWN_CLASS.search(message)
    if unknown is None:
        return message
    near = _nearest(unknown["name"], _LISTED_CLASS.findall(message))
    meant = f" Did you mean {near}?" if near else ""
    return f"The worker has no class {unknown['name']}.{meant} `kcli connect plugins` lists its classes."


def _nearest(name: str, plugins: Sequence[str]) -> str | None:
    simple = {plugin.rpartition(".")[2]: plugin for plugin in plugins}
    near = difflib.get_close_matches(name.rpartition(".")[2], list(simple), 1, _NEAR)
    return simple[near[0]] if near else None


def _unknown_class(failure: Failure, match: re.Match[str]) -> str:
    name = match.group("name")
    near = _nearest(name, failure.plugins)
    meant = f"did you mean {near}? If not, " if near else ""
    return f"{meant}install the plugin of {name} on every worker (plugin.path), and restart the workers"


def _too_large(failure: Failure, _: re.Match[str]) -> str:
    key = "producer.override.max.request.size"
    if "max.request.size" in failure.connector.config and key not in failure.connector.config:
        return (
            f"max.request.size without a prefix has no effect in a connector: set {key}, and max.message.bytes of the "
            "topic if the broker refuses the record too"
        )
    return f"set {key} of the connector, and max.message.bytes of the topic"


def _no_schema(failure: Failure, _: re.Match[str]) -> str:
    config = failure.connector.config
    own = (
        ""
        if "value.converter" in config
        else ", and value.converter=org.apache.kafka.connect.json.JsonConverter, because a connector without its own "
        "converter ignores the settings of one"
    )
    return (
        f"the records are JSON without schemas: set value.converter.schemas.enable=false{own}. "
        "If the keys are JSON too, do the same with key.converter"
    )


def _needs_struct(_: Failure, __: re.Match[str]) -> str:
    return (
        "the connector or the transformation needs values with fields and a schema: use the converter that the "
        "producer used, with schemas, or a transformation such as HoistField"
    )


def _not_json(failure: Failure, _: re.Match[str]) -> str:
    return f"use the converter that the producer used (key.converter, value.converter). {_leave_out(failure)}"


def _leave_out(failure: Failure) -> str:
    if failure.connector.type != "sink":
        report = " and errors.log.enable=true"
    elif DEAD_LETTERS in failure.connector.config:
        report = ""
    else:
        report = f" and {DEAD_LETTERS}=TOPIC"
    return f"To leave out single bad records, set errors.tolerance=all{report}"


def _out_of_range(failure: Failure, _: re.Match[str]) -> str:
    return (
        "the broker has deleted the records at the committed offsets: set "
        f"consumer.override.auto.offset.reset=earliest, or {failure.command('stop')} and "
        f"{failure.command('offsets', '--reset')} and {failure.command('resume')}"
    )


def _put_error(failure: Failure, _: re.Match[str]) -> str:
    topic = failure.connector.config.get(DEAD_LETTERS)
    missing = f"so {topic} has no record of it" if topic else "so a dead-letter topic would not help"
    return (
        "put() of the connector raised this error. errors.tolerance covers only converters and transformations, "
        f"{missing}. Correct the record or the target, then: {failure.restart}"
    )


def _not_allowed(failure: Failure, _: re.Match[str]) -> str:
    group = (
        f", and for the group connect-{failure.connector.name}" if failure.connector.type == "sink" else ""
    )
    return f"add the ACLs of the worker's user for the topics of the connector{group} (kcli acls --add)"


def _text(text: str) -> Callable[[Failure, re.Match[str]], str]:
    return lambda failure, _: f"{text}, then: {failure.restart}"


_HINTS: Sequence[tuple[re.Pattern[str], Callable[[Failure, re.Match[str]], str]]] = tuple(
    (re.compile(pattern), advice)
    for pattern, advice in (
        (_UNKNOWN_CLASS.pattern, _unknown_class),
        (r"Class (?P<name>[^,\s]+) could not be found", _unknown_class),
        (r"RecordTooLargeException", _too_large),
        (r"JsonConverter with schemas\.enable requires", _no_schema),
        (
            r"Only (?:Struct|Map) objects supported|(?:non-null|required) Struct\b|Struct schema",
            _needs_struct,
        ),
        (r"Converting byte\[\] to Kafka Connect data failed|Unknown magic byte", _not_json),
        (
            r"OffsetOutOfRange|Offsets out of range|NoOffsetForPartition|Undefined offset with no reset",
            _out_of_range,
        ),
        (
            r"InvalidReplicationFactorException",
            _text(
                "set the replication factor to at most the number of brokers "
                "(errors.deadletterqueue.topic.replication.factor, topic.creation.default.replication.factor)"
            ),
        ),
        (r"(?:Topic|Group|Cluster|TransactionalId)AuthorizationException", _not_allowed),
        (
            r"TooManyTasksException",
            _text("raise tasks.max, or report the bug to the author of the connector"),
        ),
        (
            r"\bUNKNOWN_TOPIC_OR_PARTITION\b|not present in metadata",
            _text("create the topic of the connector"),
        ),
        (
            r"has ended unexpectedly: signal",
            _text("look at the log of the worker, and at the memory of its machine"),
        ),
        (
            r"\bMemoryError\b|OutOfMemoryError",
            _text("give the task more memory (kcli.task.memory.max.bytes of the worker) or smaller batches"),
        ),
        (_NOT_TOLERATED, lambda failure, _: _leave_out(failure)),
        (_PUT_FAILED, _put_error),
    )
)
"""The pattern of a trace, and its advice. The first pattern that fits counts."""
