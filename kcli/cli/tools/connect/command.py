"""connect: shows and changes the connectors of Kafka Connect by the REST API of a worker."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import quote

from kcli.cli.confirm import confirm
from kcli.cli.output import Output
from kcli.cli.syntax.options import Command, CommandError, Family, Subcommand, flag
from kcli.cli.tools.connect.rest_calls import ConnectOptions, ConnectRestError, Worker, connector_path
from kcli.command.examples import Example

if TYPE_CHECKING:
    from kcli.connect.connector_files import ConnectorFile

Json = Mapping[str, object]

NOT_FOUND = 404
FILE_SUFFIXES = (".json", ".properties")


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartOptions(ConnectOptions):
    failed: bool = flag("Restart only what has failed.")
    connector_only: bool = flag("Restart only the connector, and not its tasks.")


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsOptions(ConnectOptions):
    reset: bool = flag("Delete the offsets of a stopped connector, so that it begins again.")
    yes: bool = flag("Do not ask before offsets are deleted.")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOptions(ConnectOptions):
    yes: bool = flag("Do not ask.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyOptions(ConnectOptions):
    dry_run: bool = flag("Show what would change, and change nothing.")


@dataclass(frozen=True, slots=True)
class ConnectorRow:
    """A connector, its state, and the states of its tasks."""

    name: str
    type: str
    state: str
    worker: str
    tasks: int
    running: int
    failed: int


@dataclass(frozen=True, slots=True)
class PartRow:
    """A connector or one of its tasks. The first line of a trace is its error."""

    part: str
    state: str
    worker: str
    error: str
    trace: str


@dataclass(frozen=True, slots=True)
class OffsetRow:
    partition: Json
    offset: Json | None


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """An invalid key of a configuration."""

    key: str
    value: str | None
    error: str


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """A file, and what it changes: created, changed or unchanged. `keys` are the keys with another value."""

    name: str
    change: str
    keys: Sequence[str]


@dataclass(frozen=True, slots=True)
class LineRow:
    worker: str
    line: str


def list_connectors(options: ConnectOptions, output: Output) -> None:
    connectors: Mapping[str, Json] = Worker.of(options).get("/connectors?expand=status", dict)
    rows = [_connector_row(name, cast(Json, one["status"])) for name, one in sorted(connectors.items())]
    if not rows and output.is_text:
        output.say("There are no connectors.")
    width = max((len(row.name) for row in rows), default=0)
    output.rows(rows, lambda row: f"{row.name:{width}}  {_summary(row)}")


def _connector_row(name: str, status: Json) -> ConnectorRow:
    connector, tasks = cast(Json, status["connector"]), cast(Sequence[Json], status["tasks"])
    states = [task["state"] for task in tasks]
    return ConnectorRow(
        name,
        str(status.get("type", "unknown")),
        str(connector["state"]),
        str(connector["worker_id"]),
        len(states),
        states.count("RUNNING"),
        states.count("FAILED"),
    )


def _summary(row: ConnectorRow) -> str:
    failed = f", {row.failed} FAILED" if row.failed else ""
    return f"{row.type:7}  {row.state:10}  {row.running} of {row.tasks} tasks run{failed}  {row.worker}"


def status(options: ConnectOptions, output: Output) -> None:
    worker, name = Worker.of(options), _one_name(options, "status")
    state: Json = worker.get(connector_path(name, "/status"), dict)
    parts = [("connector", cast(Json, state["connector"]))]
    parts += [(f"task {task['id']}", task) for task in cast(Sequence[Json], state["tasks"])]
    output.rows([_part_row(part, one) for part, one in parts], _part_text)
    if output.is_text and any(one["state"] == "UNASSIGNED" for _, one in parts):
        output.say(f"UNASSIGNED: a worker has gone. The others take over its work {_takeover(worker)}.")


def _takeover(worker: Worker) -> str:
    try:
        delay_ms = cast(int, worker.get("/rebalance", dict)["delay_ms"])
    except ConnectRestError as error:
        if error.status != NOT_FOUND:
            raise
        return "after scheduled.rebalance.max.delay.ms, which is 5 minutes by default"  # a worker of Java
    return f"in {delay_ms / 1000:.0f} s" if delay_ms else "with the next rebalance"


def _part_row(part: str, state: Json) -> PartRow:
    trace = str(state.get("trace") or "")
    return PartRow(part, str(state["state"]), str(state["worker_id"]), trace.partition("\n")[0], trace)


def _part_text(row: PartRow) -> str:
    trace = "".join(f"\n    {line}" for line in row.trace.splitlines())
    return f"{row.part:9}  {row.state:10}  {row.worker}{trace}"


def logs(options: ConnectOptions, output: Output) -> None:
    worker, name = Worker.of(options), _one_name(options, "logs")
    state: Json = worker.get(connector_path(name, "/status"), dict)
    parts = [cast(Json, state["connector"]), *cast(Sequence[Json], state["tasks"])]
    for worker_id in dict.fromkeys(str(part["worker_id"]) for part in parts):
        try:
            lines: Sequence[str] = worker.at(worker_id).get(connector_path(name, "/logs"), list)
        except ConnectRestError as error:
            if error.status != NOT_FOUND:
                raise
            raise CommandError(
                f"the worker {worker_id} does not offer its log: it is not a worker of kcli"
            ) from None
        output.rows([LineRow(worker_id, line) for line in lines], lambda row: row.line)


def restart(options: RestartOptions, output: Output) -> None:
    name = _one_name(options, "restart")
    query = f"?includeTasks={_word(not options.connector_only)}&onlyFailed={_word(options.failed)}"
    Worker.of(options).call("POST", connector_path(name, f"/restart{query}"))
    output.say(f"{name} restarts.")


def _word(value: bool) -> str:
    return str(value).lower()


def _changes_state(action: str, done: str) -> Callable[[ConnectOptions, Output], None]:
    def run(options: ConnectOptions, output: Output) -> None:
        name = _one_name(options, action)
        Worker.of(options).call("PUT", connector_path(name, f"/{action}"))
        output.say(f"{name} {done}.")

    return run


def delete(options: DeleteOptions, output: Output) -> None:
    worker, name = Worker.of(options), _one_name(options, "delete")
    confirm(f"The connector {name} will be deleted. Its offsets stay.", yes=options.yes)
    worker.call("DELETE", connector_path(name))
    output.say(f"{name} is deleted.")


def offsets(options: OffsetsOptions, output: Output) -> None:
    worker, name = Worker.of(options), _one_name(options, "offsets")
    path = connector_path(name, "/offsets")
    if options.reset:
        confirm(f"The offsets of {name} will be deleted, so that it begins again.", yes=options.yes)
        answer = cast(Json, worker.call("DELETE", path))
        output.say(str(answer["message"]))
        return
    stored = cast(Sequence[Json], worker.get(path, dict)["offsets"])
    rows = [OffsetRow(cast(Json, one["partition"]), cast("Json | None", one["offset"])) for one in stored]
    if not rows and output.is_text:
        output.say(f"{name} has no offsets yet. The worker stores them every offset.flush.interval.ms.")
    output.rows(rows, lambda row: f"{_compact(row.partition)} {_compact(row.offset)}")


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def plugins(options: ConnectOptions, output: Output) -> None:
    listed: Sequence[Json] = Worker.of(options).get("/connector-plugins?connectorsOnly=false", list)
    rows = [PluginRow(str(one["class"]), str(one["type"]), str(one.get("version"))) for one in listed]
    output.rows(rows, lambda row: f"{row.type:16}  {row.version:8}  {row.plugin_class}")


@dataclass(frozen=True, slots=True)
class PluginRow:
    plugin_class: str
    type: str
    version: str


def validate(options: ConnectOptions, output: Output) -> int:
    worker = Worker.of(options)
    file = _read(Path(_one_name(options, "validate")))
    plugin = file.config.get("connector.class")
    if not plugin:
        raise CommandError(f"{file.name} has no connector.class")
    path = f"/connector-plugins/{quote(plugin, safe='')}/config/validate"
    infos = cast(Json, worker.call("PUT", path, {"name": file.name, **file.config}))
    rows = [
        ErrorRow(str(value["name"]), cast("str | None", value.get("value")), str(error))
        for value in (cast(Json, one["value"]) for one in cast(Sequence[Json], infos["configs"]))
        for error in cast(Sequence[object], value["errors"])
    ]
    output.rows(rows, lambda row: f"{row.key}: {row.error}")
    if not rows:
        output.say(f"{file.name} is valid.")
    return 1 if rows else 0


def apply(options: ApplyOptions, output: Output) -> None:
    """Creates or changes the connectors of files, so that they are as the files say."""
    worker, place = Worker.of(options), Path(_one_name(options, "apply"))
    files = (
        sorted(one for one in place.iterdir() if one.suffix in FILE_SUFFIXES) if place.is_dir() else [place]
    )
    if not files:
        raise CommandError(f"{place} has no file that ends with {' or '.join(FILE_SUFFIXES)}")
    by_name: dict[str, Path] = {}
    connectors = [(path, _read(path)) for path in files]  # all of them, before anything is changed
    for path, file in connectors:
        if other := by_name.get(file.name):
            raise CommandError(f"{path} and {other} have the same name: {file.name}")
        by_name[file.name] = path
    for _, file in connectors:
        row = _change(worker, file.name, file.config)
        if not options.dry_run and row.change != "unchanged":
            _send(worker, file, is_new=row.change == "created")
        output.row(row, _change_text)
    if options.dry_run:
        output.say("Nothing was changed, because of --dry-run.")


def _send(worker: Worker, file: ConnectorFile, *, is_new: bool) -> None:
    """Creates or changes a connector. Only a new one gets the state that its file names."""
    if is_new and file.target is not None:
        state = {"STARTED": "RUNNING"}.get(file.target, str(file.target))
        body = {"name": file.name, "config": file.config, "initial_state": state}
        worker.call("POST", "/connectors", body)
    else:
        worker.call("PUT", connector_path(file.name, "/config"), file.config)


def _change(worker: Worker, name: str, config: Mapping[str, object]) -> ChangeRow:
    try:
        present: Json = worker.get(connector_path(name, "/config"), dict)
    except ConnectRestError as error:
        if error.status != NOT_FOUND:
            raise
        return ChangeRow(name, "created", sorted(config))
    wanted = {"name": name, **config}
    keys = sorted(key for key in {*present, *wanted} if present.get(key) != wanted.get(key))
    return ChangeRow(name, "changed" if keys else "unchanged", keys)


def _change_text(row: ChangeRow) -> str:
    return f"{row.name}: {row.change}" + (f" ({', '.join(row.keys)})" if row.change == "changed" else "")


def _read(path: Path) -> ConnectorFile:
    """Reads the file of a connector. Raises CommandError."""
    from kcli.connect.connector_files import read_connector_file
    from kcli.formats.connect.errors import ConnectException

    try:
        return read_connector_file(str(path))
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror}") from None
    except ConnectException as error:
        raise CommandError(str(error)) from None


def _one_name(options: ConnectOptions, action: str) -> str:
    if len(options.arguments) != 1:
        raise CommandError(f"kcli connect {action}: expected one argument after the options")
    return options.arguments[0]


command = Command(
    name="connect",
    description="This tool shows and changes the connectors of Kafka Connect by the REST API of a worker. It works "
    "with the workers of Apache Kafka too.",
    family=Family.ARGPARSE4J,
    prog="kcli connect",
    help_exit=0,
    subcommands=(
        Subcommand(
            name="list",
            help="List the connectors and their states.",
            options=ConnectOptions,
            run=list_connectors,
        ),
        Subcommand(
            name="status",
            help="Show the state of a connector and its tasks, with the traces of errors.",
            options=ConnectOptions,
            run=status,
            positional="NAME",
        ),
        Subcommand(
            name="logs",
            help="Show the last log lines of a connector and its tasks.",
            options=ConnectOptions,
            run=logs,
            positional="NAME",
        ),
        Subcommand(
            name="restart",
            help="Restart a connector and its tasks.",
            options=RestartOptions,
            run=restart,
            positional="NAME",
        ),
        Subcommand(
            name="pause",
            help="Pause a connector and its tasks.",
            options=ConnectOptions,
            run=_changes_state("pause", "is paused"),
            positional="NAME",
        ),
        Subcommand(
            name="resume",
            help="Resume a connector that is paused or stopped.",
            options=ConnectOptions,
            run=_changes_state("resume", "goes on"),
            positional="NAME",
        ),
        Subcommand(
            name="stop",
            help="Stop a connector, so that it has no tasks.",
            options=ConnectOptions,
            run=_changes_state("stop", "is stopped"),
            positional="NAME",
        ),
        Subcommand(
            name="delete", help="Delete a connector.", options=DeleteOptions, run=delete, positional="NAME"
        ),
        Subcommand(
            name="offsets",
            help="Show or reset the offsets of a connector.",
            options=OffsetsOptions,
            run=offsets,
            positional="NAME",
        ),
        Subcommand(
            name="validate",
            help="Check the configuration of a connector in a file.",
            options=ConnectOptions,
            run=validate,
            positional="FILE",
        ),
        Subcommand(
            name="apply",
            help="Create or change the connectors of a file, or of all files of a directory.",
            options=ApplyOptions,
            run=apply,
            positional="DIR",
        ),
        Subcommand(name="plugins", help="List the plugins of a worker.", options=ConnectOptions, run=plugins),
    ),
    examples=(
        Example("List the connectors of a worker on this machine:", "kcli connect list"),
        Example("Restart what has failed:", "kcli connect restart orders --failed"),
        Example(
            "Show what a directory of configurations would change:",
            "kcli connect apply connectors/ --dry-run",
        ),
    ),
    exit_status=(
        (0, "The command succeeded."),
        (1, "The worker refused the request or does not answer, or a configuration is invalid."),
    ),
)
