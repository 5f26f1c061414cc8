"""The brokers: their addresses, replicas, settings and log directories."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kcli.client.client import Node
from kcli.console.answers import Outcome, Rows
from kcli.console.calls import Action, Call, bad_request
from kcli.console.pages.settings import (
    change_command,
    changes_summary,
    config_changes,
    settings_of,
)
from kcli.console.pages.storage import Storage, cached_storage
from kcli.console.pages.topology import Topology, cached_topology
from kcli.console.routes import Change, Read
from kcli.model.configs import ConfigResource, ConfigResourceType, ConfigSource
from kcli.model.java_text import parse_int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRow:
    """A broker in the list. The sizes are None if the user may not see them. `host` is empty if the address is not
    known. A fenced broker sends no heartbeats."""

    id: int
    host: str
    port: int
    rack: str | None
    is_controller: bool
    is_fenced: bool
    leaders: int
    preferred_leaders: int
    replicas: int
    out_of_sync: int
    size_bytes: int | None
    total_bytes: int | None
    usable_bytes: int | None
    error: str | None


async def list_brokers(call: Call) -> Rows:
    """GET /brokers: the brokers, with the partitions that they lead and the bytes that they store."""
    topology = await cached_topology(call)
    storage = (await cached_storage(call)).value
    rows = [_row(node, topology.value, storage) for node in topology.value.brokers]
    return call.listing().rows(
        rows,
        text=lambda row: (
            f"{row.id} {row.host}:{row.port} {row.rack or ''} {'fenced' if row.is_fenced else ''}"
        ),
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
    topology = await cached_topology(call)
    node = _node(topology.value, call.part("id"))
    storage = (await cached_storage(call)).value
    return {
        "broker": _row(node, topology.value, storage),
        "directories": storage.directories(node.id),
    }


async def list_settings(call: Call) -> Rows:
    """GET /brokers/{id}/configs: the settings of a broker, with their sources."""
    resource = ConfigResource(ConfigResourceType.BROKER, str(_number(call.part("id"))))
    return await settings_of(call, resource, ConfigSource.DYNAMIC_BROKER_CONFIG)


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
        command=change_command(action, ("--entity-type", "brokers", "--entity-name", broker), changes),
        summary=changes_summary(f"broker {broker}", changes, is_preview=action.is_preview),
    )


def _row(node: Node, topology: Topology, storage: Storage) -> BrokerRow:
    known = storage.directories(node.id)
    return BrokerRow(
        id=node.id,
        host=node.host,
        port=node.port,
        rack=node.rack,
        is_controller=node.id == topology.controller_id,
        is_fenced=node.is_fenced,
        leaders=topology.leaders[node.id],
        preferred_leaders=topology.preferred[node.id],
        replicas=topology.replicas[node.id],
        out_of_sync=topology.out_of_sync[node.id],
        size_bytes=sum(directory.size_bytes for directory in known) if known else None,
        total_bytes=_sum(directory.total_bytes for directory in known),
        usable_bytes=_sum(directory.usable_bytes for directory in known),
        error=storage.error(node.id),
    )


def _sum(values: Iterable[int | None]) -> int | None:
    """The sum of the known values, or None if no value is known."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _node(topology: Topology, text: str) -> Node:
    number = _number(text)
    node = next((node for node in topology.brokers if node.id == number), None)
    if node is None:
        raise bad_request(f"broker {number} is not in the cluster")
    return node


def _number(text: str) -> int:
    try:
        return parse_int(text)
    except ValueError:
        raise bad_request(f"{text[:20]!r} is not the id of a broker") from None


ROUTES = (
    Read("/brokers", list_brokers),
    Read("/brokers/{id}", show_broker),
    Read("/brokers/{id}/configs", list_settings),
    Change("/brokers/{id}/configs", "change broker settings", change_settings),
)
