"""The brokers: their addresses, replicas, settings and log directories."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kcli.client.admin.configs import AlterConfig, ConfigEntry
from kcli.client.admin.offsets import LogDirDescription
from kcli.client.client import Node
from kcli.console.answers import Outcome, Rows
from kcli.console.cache import Aged
from kcli.console.calls import Action, Call, bad_request
from kcli.console.pages.topology import Topology, kept_log_dirs, kept_topology
from kcli.console.routes import Change, Read
from kcli.errors import KafkaError
from kcli.model.configs import ConfigOperation, ConfigResource, ConfigResourceType, ConfigSource


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRow:
    """A broker in the list. The sizes are None if the user may not see them."""

    id: int
    host: str
    port: int
    rack: str | None
    is_controller: bool
    leaders: int
    preferred_leaders: int
    replicas: int
    out_of_sync: int
    size_bytes: int | None
    total_bytes: int | None
    usable_bytes: int | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryRow:
    """A log directory of a broker."""

    path: str
    error: str | None
    replicas: int
    size_bytes: int
    total_bytes: int | None
    usable_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingRow:
    """A setting, and the value that it would have without its own value."""

    name: str
    value: str | None
    source: str
    is_sensitive: bool
    is_read_only: bool
    is_changed: bool
    default: str | None


async def list_brokers(call: Call) -> Rows:
    """GET /brokers: the brokers with what they lead and store."""
    topology = await kept_topology(call)
    dirs = await kept_log_dirs(call)
    rows = [_row(node, topology.value, dirs.value.get(node.id, ())) for node in topology.value.brokers]
    return call.listing().rows(
        Aged(rows, topology.age_ms),
        text=lambda row: f"{row.id} {row.host}:{row.port} {row.rack or ''}",
        columns={
            "id": lambda row: row.id,
            "host": lambda row: row.host,
            "rack": lambda row: row.rack,
            "leaders": lambda row: row.leaders,
            "replicas": lambda row: row.replicas,
            "out_of_sync": lambda row: row.out_of_sync,
            "size_bytes": lambda row: row.size_bytes,
            "usable_bytes": lambda row: row.usable_bytes,
        },
    )


async def show_broker(call: Call) -> dict[str, object]:
    """GET /brokers/{id}: one broker with its log directories."""
    topology = await kept_topology(call)
    node = _node(topology.value, call.part("id"))
    found = (await kept_log_dirs(call)).value.get(node.id, ())
    return {
        "age_ms": topology.age_ms,
        "broker": _row(node, topology.value, found),
        "directories": [] if isinstance(found, KafkaError) else [_directory(each) for each in found],
    }


async def list_settings(call: Call) -> Rows:
    """GET /brokers/{id}/configs: the settings of a broker, with their sources."""
    resource = ConfigResource(ConfigResourceType.BROKER, str(_number(call.part("id"))))

    async def load() -> list[SettingRow]:
        found = (await call.admin.describe_configs([resource], synonyms=True))[resource]
        if isinstance(found, KafkaError):
            raise found
        return setting_rows(found, ConfigSource.DYNAMIC_BROKER_CONFIG)

    only_changed = call.query("changed") == "1"
    kept = await call.kept(("broker-configs", resource.name), load)
    rows = [row for row in kept.value if row.is_changed or not only_changed]
    return call.listing().rows(
        Aged(rows, kept.age_ms),
        text=lambda row: f"{row.name} {row.value or ''} {row.source}",
        columns={"name": lambda row: row.name, "source": lambda row: row.source},
    )


async def change_settings(action: Action) -> Outcome:
    """POST /brokers/{id}/configs {"settings": {name: value, or null for the default}}: changes dynamic settings."""
    broker = str(_number(action.part("id")))
    action.target = f"broker {broker}"
    changes = config_changes(action)
    resource = ConfigResource(ConfigResourceType.BROKER, broker)
    result = await action.admin.incremental_alter_configs(
        {resource: changes}, validate_only=action.is_preview
    )
    if (error := result[resource]) is not None:
        raise error
    return Outcome(
        command=action.command(
            "configs",
            "--alter",
            "--entity-type",
            "brokers",
            "--entity-name",
            broker,
            *config_arguments(changes),
        ),
        summary=changes_summary(f"broker {broker}", changes, is_preview=action.is_preview),
    )


def setting_rows(entries: Iterable[ConfigEntry], *own: ConfigSource) -> list[SettingRow]:
    """The rows of settings. A setting is changed if its value has one of the sources `own`."""
    return [
        SettingRow(
            name=entry.name,
            value=entry.value,
            source=entry.source.name,
            is_sensitive=entry.is_sensitive,
            is_read_only=entry.is_read_only,
            is_changed=entry.source in own,
            default=next((each.value for each in entry.synonyms if each.source not in own), None),
        )
        for entry in entries
    ]


def config_changes(action: Action) -> list[AlterConfig]:
    """The changes in the body of an action. Raises HttpError if there are none."""
    settings = action.settings_of("settings")
    if not settings:
        raise bad_request("settings: expected at least one setting")
    return [
        AlterConfig(
            name=name, value=value, op=ConfigOperation.DELETE if value is None else ConfigOperation.SET
        )
        for name, value in settings.items()
    ]


def config_arguments(changes: Iterable[AlterConfig]) -> list[str]:
    """The options of `kcli configs` for these changes. A value with a comma is in brackets."""
    changes = list(changes)
    added = [
        f"{each.name}={_in_brackets(each.value or '')}" for each in changes if each.op is ConfigOperation.SET
    ]
    deleted = [each.name for each in changes if each.op is ConfigOperation.DELETE]
    return [
        *(["--add-config", ",".join(added)] if added else []),
        *(["--delete-config", ",".join(deleted)] if deleted else []),
    ]


def changes_summary(target: str, changes: Iterable[AlterConfig], *, is_preview: bool) -> str:
    """One sentence about changed settings."""
    names = ", ".join(each.name for each in changes)
    return (
        f"The cluster accepts the change of {names} of {target}."
        if is_preview
        else f"Changed {names} of {target}."
    )


def _in_brackets(value: str) -> str:
    return f"[{value}]" if "," in value else value


def _row(node: Node, topology: Topology, dirs: tuple[LogDirDescription, ...] | KafkaError) -> BrokerRow:
    known = () if isinstance(dirs, KafkaError) else dirs
    return BrokerRow(
        id=node.id,
        host=node.host,
        port=node.port,
        rack=node.rack,
        is_controller=node.id == topology.controller_id,
        leaders=topology.leaders[node.id],
        preferred_leaders=topology.preferred[node.id],
        replicas=topology.replicas[node.id],
        out_of_sync=topology.out_of_sync[node.id],
        size_bytes=sum(each.size_bytes for found in known for each in found.replicas) if known else None,
        total_bytes=_sum(each.total_bytes for each in known),
        usable_bytes=_sum(each.usable_bytes for each in known),
        error=dirs.message if isinstance(dirs, KafkaError) else None,
    )


def _directory(found: LogDirDescription) -> DirectoryRow:
    return DirectoryRow(
        path=found.path,
        error=None if found.error is None else found.error.message,
        replicas=len(found.replicas),
        size_bytes=sum(each.size_bytes for each in found.replicas),
        total_bytes=found.total_bytes,
        usable_bytes=found.usable_bytes,
    )


def _sum(values: Iterable[int | None]) -> int | None:
    """The sum of the known values, or None if no value is known."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _node(topology: Topology, text: str) -> Node:
    number = _number(text)
    found = next((node for node in topology.brokers if node.id == number), None)
    if found is None:
        raise bad_request(f"broker {number} is not in the cluster")
    return found


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > 10:
        raise bad_request(f"{text[:20]!r} is not the id of a broker")
    return int(text)


ROUTES = (
    Read("/brokers", list_brokers),
    Read("/brokers/{id}", show_broker),
    Read("/brokers/{id}/configs", list_settings),
    Change("/brokers/{id}/configs", "change broker settings", change_settings),
)
