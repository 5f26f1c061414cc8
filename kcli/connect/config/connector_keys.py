"""The configuration keys that every connector has, and those of its transformations and predicates.

Some defaults depend on the worker: the classes of converters, and the versions of plugins. So a definition is made for
each configuration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kcli.config.definition import (
    ConfigDef,
    ConfigKey,
    ConfigType,
    Importance,
    NonEmpty,
    OneOf,
    Range,
    TopicPattern,
    Width,
)
from kcli.config.values import Values
from kcli.connect.config.key_checks import (
    Choices,
    ClassOf,
    Name,
    OptionalInterval,
    UniqueNames,
    VersionsOf,
    VersionSpec,
)
from kcli.connect.config.plugin import Plugin, Plugins, PluginType
from kcli.connect.config.worker import CONVERTERS

BOOLEAN, CLASS, INT, LIST = ConfigType.BOOLEAN, ConfigType.CLASS, ConfigType.INT, ConfigType.LIST
LONG, SHORT, STRING = ConfigType.LONG, ConfigType.SHORT, ConfigType.STRING
HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW

COMMON = "Common"
ERRORS = "Error Handling"
EXACTLY_ONCE = "Exactly Once Support"

NAME = "name"
CONNECTOR_CLASS = "connector.class"
CONNECTOR_VERSION = "connector.plugin.version"
TASKS_MAX = "tasks.max"
TRANSFORMS = "transforms"
PREDICATES = "predicates"
TOPICS = "topics"
TOPICS_REGEX = "topics.regex"
DLQ_TOPIC = "errors.deadletterqueue.topic.name"
EXACTLY_ONCE_SUPPORT = "exactly.once.support"
TRANSACTION_BOUNDARY = "transaction.boundary"
OFFSETS_TOPIC = "offsets.storage.topic"
RESTART_BACKOFF_MS = "kcli.restart.backoff.ms"
RESTART_BACKOFF_MAX_MS = "kcli.restart.backoff.max.ms"
TOPIC_CREATION_GROUPS = "topic.creation.groups"


@dataclass(frozen=True, slots=True)
class ConverterDefault:
    """The defaults of a converter key. `plugin` is the converter that a configuration leads to, if there is one."""

    class_name: str | None = None
    plugin: Plugin | None = None


def connector_keys(
    kind: PluginType | None,
    plugins: Plugins,
    *,
    connector_version: str | None,
    converters: Mapping[str, ConverterDefault] | None = None,
) -> ConfigDef:
    """The keys of every source connector, of every sink connector, or with None of every connector.

    Without `converters`, the keys of converters have no defaults and no recommended values, as in the answer about a
    plugin alone.
    """
    common = (
        *_identity(connector_version),
        *_converter_keys(plugins, converters or {}),
        *_chains(),
        *_error_keys(),
    )
    return ConfigDef((*common, *(_OF_KIND[kind] if kind else ())))


def parsed_connector(name: str, config: Mapping[str, str], plugin: Plugin, plugins: Plugins) -> Values:
    """The values of the keys that every connector has. Raises ConfigError for the first invalid key."""
    keys = connector_keys(plugin.kind, plugins, connector_version=plugin.version)
    return Values(keys.parse({NAME: name, **config}))


@dataclass(frozen=True, slots=True)
class RestartBackoff:
    """The times before the first restart of failed work, and before every later one at most."""

    first_ms: int
    max_ms: int


def restart_backoff(config: Mapping[str, str | None]) -> RestartBackoff | None:
    """None if the connector and its tasks stay failed, as in Java. Raises ConfigError."""
    texts = {key: text for key in OWN_KEYS if (text := config.get(key)) is not None}
    values = Values(OWN_KEYS.parse(texts))
    first_ms = values.integer(RESTART_BACKOFF_MS)
    return RestartBackoff(first_ms, values.integer(RESTART_BACKOFF_MAX_MS)) if first_ms else None


def _identity(version: str | None) -> Iterator[ConfigKey]:
    yield ConfigKey(
        NAME, STRING, None, Name(), HIGH, "Name of the connector, which is unique in the group of workers.",
        required=True, group=COMMON, order=1, width=Width.MEDIUM, display_name="Connector name",
    )  # fmt: skip
    yield ConfigKey(
        CONNECTOR_CLASS, STRING, None, None, HIGH, "Class or alias of the connector.",
        required=True, group=COMMON, order=2, width=Width.LONG, display_name="Connector class",
    )  # fmt: skip
    yield ConfigKey(
        CONNECTOR_VERSION, STRING, version, VersionSpec(), MEDIUM,
        "Version of the connector, or a range of versions such as [1.0,2.0).",
        group=COMMON, order=3, width=Width.MEDIUM, display_name="Connector version",
        recommender=Choices([version] if version else []),
    )  # fmt: skip
    yield ConfigKey(
        TASKS_MAX, INT, "1", Range(1), HIGH, "Most tasks of the connector.",
        group=COMMON, order=4, width=Width.SHORT, display_name="Tasks max",
    )  # fmt: skip
    yield ConfigKey(
        "tasks.max.enforce", BOOLEAN, "true", None, LOW, "Fail a connector that makes more tasks than tasks.max.",
        group=COMMON, order=5, width=Width.SHORT, display_name="Enforce tasks max",
    )  # fmt: skip


def _converter_keys(plugins: Plugins, defaults: Mapping[str, ConverterDefault]) -> Iterator[ConfigKey]:
    order = 6
    for key in CONVERTERS:
        what = key.partition(".")[0]
        kind = PluginType.HEADER_CONVERTER if what == "header" else PluginType.CONVERTER
        default = defaults.get(key, ConverterDefault())
        version = default.plugin.version if default.plugin else None
        yield ConfigKey(
            key, CLASS, default.class_name, ClassOf(plugins, kind), LOW,
            f"Class or alias of the {what} converter. By default, the connector has the worker's converter.",
            group=COMMON, order=order, width=Width.SHORT, display_name=f"{what.capitalize()} converter class",
            recommender=Choices([plugin.class_name for plugin in plugins.all(kind)] if defaults else []),
            find_class=plugins.class_named,
        )  # fmt: skip
        yield ConfigKey(
            f"{key}.plugin.version", STRING, version, VersionSpec(), LOW,
            f"Version of the {what} converter, or a range of versions.",
            group=COMMON, order=order + 1, width=Width.SHORT, display_name=f"{what.capitalize()} converter version",
            recommender=VersionsOf(key, [version] if version else []),
        )  # fmt: skip
        order += 2


def _chains() -> Iterator[ConfigKey]:
    yield ConfigKey(
        TRANSFORMS, LIST, "", UniqueNames("transformation aliases"), LOW,
        "Names of transformations, in the order in which they are applied.",
        group="Transforms", order=12, width=Width.LONG, display_name="Transforms",
    )  # fmt: skip
    yield ConfigKey(
        PREDICATES, LIST, "", UniqueNames("predicate aliases"), LOW,
        "Names of predicates, which limit transformations.",
        group="Predicates", order=13, width=Width.LONG, display_name="Predicates",
    )  # fmt: skip
    yield ConfigKey(
        "config.action.reload", STRING, "restart", OneOf(("none", "restart")), LOW,
        "What happens when a secret of the configuration changes.",
        group=COMMON, order=14, width=Width.MEDIUM, display_name="Reload Action",
    )  # fmt: skip


def _error_keys() -> Iterator[ConfigKey]:
    yield ConfigKey(
        "errors.retry.timeout", LONG, "0", None, MEDIUM,
        "Time in which a failed operation is tried again, in milliseconds. -1 means for ever.",
        group=ERRORS, order=1, width=Width.MEDIUM, display_name="Retry Timeout for Errors",
    )  # fmt: skip
    yield ConfigKey(
        "errors.retry.delay.max.ms", LONG, "60000", None, MEDIUM, "Longest pause between two tries.",
        group=ERRORS, order=2, width=Width.MEDIUM, display_name="Maximum Delay Between Retries for Errors",
    )  # fmt: skip
    yield ConfigKey(
        "errors.tolerance", STRING, "none", OneOf(("none", "all")), MEDIUM,
        "With none, an invalid record fails the task. With all, the record is left out.",
        group=ERRORS, order=3, width=Width.SHORT, display_name="Error Tolerance",
    )  # fmt: skip
    yield ConfigKey(
        "errors.log.enable", BOOLEAN, "false", None, MEDIUM, "Log each error of a record.",
        group=ERRORS, order=4, width=Width.SHORT, display_name="Log Errors",
    )  # fmt: skip
    yield ConfigKey(
        "errors.log.include.messages", BOOLEAN, "false", None, MEDIUM,
        "Log also where the record of the error is.",
        group=ERRORS, order=5, width=Width.SHORT, display_name="Log Error Details",
    )  # fmt: skip


_SOURCE = (
    ConfigKey(
        TOPIC_CREATION_GROUPS, LIST, "", UniqueNames("topic creation groups"), LOW,
        "Names of groups of settings for topics that the worker creates.",
        group="Topic Creation", order=1, width=Width.LONG, display_name="Topic Creation Groups",
    ),
    ConfigKey(
        EXACTLY_ONCE_SUPPORT, STRING, "requested", OneOf(("REQUIRED", "REQUESTED"), ignore_case=True), MEDIUM,
        "With required, the connector is refused unless it can be exactly once.",
        group=EXACTLY_ONCE, order=2, width=Width.SHORT, display_name="Exactly once support",
    ),
    ConfigKey(
        TRANSACTION_BOUNDARY, STRING, "poll", OneOf(("INTERVAL", "POLL", "CONNECTOR"), ignore_case=True), MEDIUM,
        "When a transaction ends: after each poll, after an interval, or when the connector says so.",
        group=EXACTLY_ONCE, order=3, width=Width.SHORT, display_name="Transaction Boundary",
    ),
    ConfigKey(
        "transaction.boundary.interval.ms", LONG, None, OptionalInterval(), LOW,
        "Time between two transactions. By default, the worker's offset.flush.interval.ms.",
        group=EXACTLY_ONCE, order=4, width=Width.SHORT, display_name="Transaction boundary interval",
    ),
    ConfigKey(
        OFFSETS_TOPIC, STRING, None, NonEmpty(), LOW,
        "Topic for the offsets of this connector, beside the worker's topic.",
        group="offsets.topic", order=1, width=Width.LONG, display_name="Offsets topic",
    ),
)  # fmt: skip

_SINK = (
    ConfigKey(
        TOPICS, LIST, "", None, HIGH, "Topics that the connector reads.",
        group=COMMON, order=4, width=Width.LONG, display_name="Topics",
    ),
    ConfigKey(
        TOPICS_REGEX, STRING, "", TopicPattern(), HIGH, "Regular expression of the topics that the connector reads.",
        group=COMMON, order=4, width=Width.LONG, display_name="Topics regex",
    ),
    ConfigKey(
        DLQ_TOPIC, STRING, "", None, MEDIUM, "Topic for records with an error. An empty text means no topic.",
        group=ERRORS, order=6, width=Width.MEDIUM, display_name="Dead Letter Queue Topic Name",
    ),
    ConfigKey(
        "errors.deadletterqueue.topic.replication.factor", SHORT, "3", None, MEDIUM,
        "Replication factor of that topic, if the worker creates it.",
        group=ERRORS, order=7, width=Width.MEDIUM, display_name="Dead Letter Queue Topic Replication Factor",
    ),
    ConfigKey(
        "errors.deadletterqueue.context.headers.enable", BOOLEAN, "false", None, MEDIUM,
        "Add headers that describe the error to each record of that topic.",
        group=ERRORS, order=8, width=Width.MEDIUM, display_name="Enable Error Context Headers",
    ),
)  # fmt: skip

_OF_KIND = {PluginType.SOURCE: _SOURCE, PluginType.SINK: _SINK}

OWN_KEYS = ConfigDef(
    (
        ConfigKey(
            RESTART_BACKOFF_MS, LONG, "0", Range(0), LOW,
            "Time before the restart of a failed connector or task. It doubles with each restart. 0 leaves it failed.",
            group=ERRORS, order=9, width=Width.MEDIUM, display_name="Backoff of Restarts",
        ),
        ConfigKey(
            RESTART_BACKOFF_MAX_MS, LONG, "300000", Range(1), LOW, "Longest time before such a restart.",
            group=ERRORS, order=10, width=Width.MEDIUM, display_name="Longest Backoff of Restarts",
        ),
    )
)  # fmt: skip
"""Keys of kcli. A validation answers only with those that are set, so that it stays equal to Java's."""
