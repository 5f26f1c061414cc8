"""The metadata and the assignments that workers put into JoinGroup and SyncGroup as bytes.

Their form is `int16 version | fields`. Version 0 belongs to the protocol `default` (eager rebalances), version 1 to
`compatible` (incremental rebalances, KIP-415), and version 2 to `sessioned` (signed requests, KIP-507). Versions 1 and
2 have the same fields. The metadata of an incremental protocol contains the current assignment of the member.

Any client may join the group, so its bytes may be anything. All code that reads them uses this module.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeVar

from kcli.connect.model import CONNECTOR, TaskId
from kcli.errors import CorruptRecordError
from kcli.protocol.fields import Int16, Int32, Int64, since
from kcli.protocol.records.schema import NEVER_FLEXIBLE, decode, encode, record, schema_of

PROTOCOL_TYPE = "connect"

EAGER = "default"
COMPATIBLE = "compatible"
SESSIONED = "sessioned"

VERSIONS: Mapping[str, int] = {EAGER: 0, COMPATIBLE: 1, SESSIONED: 2}
"""The version of the bytes in each protocol."""

OFFERS: Mapping[str, Sequence[str]] = {
    "eager": (EAGER,),
    "compatible": (COMPATIBLE, EAGER),
    "sessioned": (SESSIONED, COMPATIBLE, EAGER),
}
"""The protocols that a worker offers for each value of `connect.protocol`, the preferred protocol first."""

NO_ERROR = 0
CONFIG_MISMATCH = 1
"""The leader could not read the configurations that another member has read. All members must read and join again."""

EMBEDDED_MAX_BYTES = 4 << 20
"""The most bytes that are decoded. By default, a coordinator stores at most 1 MB for a whole group, because it writes
the group as one record (message.max.bytes)."""

T = TypeVar("T")

_INT16 = struct.Struct(">h")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtendedAssignment:
    """The assignment of one member. The task number -1 stands for the connector itself.

    From a leader, `assigned` of an incremental protocol has only the new work. `delay_ms` is the time after which the
    member must join again, or 0.
    """

    version: int
    error: int = NO_ERROR
    leader: str
    leader_url: str
    config_offset: int
    assigned: Sequence[TaskId] = ()
    revoked: Sequence[TaskId] = ()
    delay_ms: int = 0

    @property
    def has_failed(self) -> bool:
        return self.error != NO_ERROR

    @property
    def connectors(self) -> tuple[str, ...]:
        return connectors_of(self.assigned)

    @property
    def tasks(self) -> tuple[TaskId, ...]:
        return tasks_of(self.assigned)


@dataclass(frozen=True, slots=True)
class WorkerState:
    """The metadata of one member. `assignment` is None in eager rebalances, and before the first assignment."""

    url: str
    config_offset: int
    assignment: ExtendedAssignment | None = None


def connectors_of(work: Iterable[TaskId]) -> tuple[str, ...]:
    return tuple(id.connector for id in work if id.task == CONNECTOR)


def tasks_of(work: Iterable[TaskId]) -> tuple[TaskId, ...]:
    return tuple(id for id in work if id.task != CONNECTOR)


def encode_metadata(state: WorkerState, version: int) -> bytes:
    """Encodes metadata. The assignment in it is encoded in the same version. Version 0 has no assignment."""
    allocation = None
    if version > 0 and state.assignment is not None:
        allocation = encode_assignment(state.assignment, version)
    fields = _Metadata(url=state.url, config_offset=state.config_offset, allocation=allocation)
    return _INT16.pack(version) + encode(fields, version)


def decode_metadata(embedded: bytes) -> WorkerState:
    """Decodes the metadata of a member. Raises CorruptRecordError for invalid bytes."""
    fields, _ = _decode(_Metadata, embedded)
    assignment = None if fields.allocation is None else decode_assignment(fields.allocation)
    return WorkerState(fields.url, fields.config_offset, assignment)


def encode_assignment(assignment: ExtendedAssignment, version: int) -> bytes:
    """Encodes an assignment. Version 0 cannot express revoked work and a delay, and leaves them out."""
    fields = _Assignment(
        error=assignment.error,
        leader=assignment.leader,
        leader_url=assignment.leader_url,
        config_offset=assignment.config_offset,
        assigned=_by_connector(assignment.assigned),
        revoked=_by_connector(assignment.revoked),
        delay_ms=assignment.delay_ms,
    )
    return _INT16.pack(version) + encode(fields, version)


def decode_assignment(embedded: bytes) -> ExtendedAssignment:
    """Decodes the assignment of a member. Raises CorruptRecordError for invalid bytes."""
    fields, version = _decode(_Assignment, embedded)
    return ExtendedAssignment(
        version=version,
        error=fields.error,
        leader=fields.leader,
        leader_url=fields.leader_url,
        config_offset=fields.config_offset,
        assigned=_flat(fields.assigned),
        revoked=_flat(fields.revoked),
        delay_ms=fields.delay_ms,
    )


@record(flexible_since=NEVER_FLEXIBLE)
class _ConnectorTasks:
    connector: str = ""
    tasks: tuple[Int32, ...] = ()


@record(versions=(0, 2), flexible_since=NEVER_FLEXIBLE)
class _Metadata:
    url: str = ""
    config_offset: Int64 = -1
    allocation: Annotated[bytes | None, since(1)] = None


@record(versions=(0, 2), flexible_since=NEVER_FLEXIBLE)
class _Assignment:
    error: Int16 = NO_ERROR
    leader: str = ""
    leader_url: str = ""
    config_offset: Int64 = -1
    assigned: tuple[_ConnectorTasks, ...] | None = None
    revoked: Annotated[tuple[_ConnectorTasks, ...] | None, since(1, ignorable=True)] = None
    delay_ms: Annotated[Int32, since(1, ignorable=True)] = 0


def _decode(cls: type[T], embedded: bytes) -> tuple[T, int]:
    """Decodes the fields. As in Java, a newer version is read as the newest known version, and bytes after the fields
    are ignored, because new fields are only added at the end."""
    if not _INT16.size <= len(embedded) <= EMBEDDED_MAX_BYTES:
        raise CorruptRecordError(f"{len(embedded)} bytes of a worker: at most {EMBEDDED_MAX_BYTES} are read")
    version: int = _INT16.unpack_from(embedded)[0]
    if version < 0:
        raise CorruptRecordError(f"bytes of a worker have version {version}")
    version = min(version, schema_of(cls).max_version)
    return decode(cls, version, embedded, _INT16.size, exact=False), version


def _by_connector(work: Iterable[TaskId]) -> tuple[_ConnectorTasks, ...]:
    """Groups work by connector, in the order in which the connectors appear."""
    numbers: dict[str, list[int]] = {}
    for connector, task in work:
        numbers.setdefault(connector, []).append(task)
    return tuple(_ConnectorTasks(connector=name, tasks=tuple(tasks)) for name, tasks in numbers.items())


def _flat(connectors: tuple[_ConnectorTasks, ...] | None) -> tuple[TaskId, ...]:
    return tuple(TaskId(entry.connector, number) for entry in connectors or () for number in entry.tasks)
