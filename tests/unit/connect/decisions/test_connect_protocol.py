"""The bytes that workers put into JoinGroup and SyncGroup."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.connect.decisions import protocol
from kcli.connect.decisions.protocol import ExtendedAssignment, WorkerState
from kcli.connect.model import CONNECTOR, TaskId
from kcli.errors import CorruptRecordError

ASSIGNMENT = ExtendedAssignment(
    version=1,
    leader="m1",
    leader_url="http://a:8083/",
    config_offset=7,
    assigned=(TaskId("a", CONNECTOR), TaskId("a", 0), TaskId("b", 2)),
    revoked=(TaskId("c", CONNECTOR),),
    delay_ms=500,
)


def test_metadata_contains_the_assignment_since_version_1() -> None:
    state = WorkerState("http://a:8083/", 7, ASSIGNMENT)
    assert protocol.decode_metadata(protocol.encode_metadata(state, 1)) == state
    alone = protocol.decode_metadata(protocol.encode_metadata(state, 0))
    assert alone == WorkerState("http://a:8083/", 7)
    of_version_2 = protocol.decode_metadata(protocol.encode_metadata(state, 2)).assignment
    assert of_version_2 == dataclasses.replace(ASSIGNMENT, version=2)


def test_an_eager_assignment_has_no_revoked_work() -> None:
    eager = protocol.decode_assignment(protocol.encode_assignment(ASSIGNMENT, 0))
    assert eager == dataclasses.replace(ASSIGNMENT, version=0, revoked=(), delay_ms=0)


def test_connectors_and_tasks_are_listed_separately() -> None:
    assert ASSIGNMENT.connectors == ("a",)
    assert ASSIGNMENT.tasks == (TaskId("a", 0), TaskId("b", 2))


def test_a_newer_version_with_more_fields_is_read() -> None:
    newer = b"\0\x09" + protocol.encode_assignment(ASSIGNMENT, 2)[2:] + b"more"
    assert protocol.decode_assignment(newer) == dataclasses.replace(ASSIGNMENT, version=2)


@pytest.mark.parametrize(
    "embedded", [b"", b"\0", b"\xff\xff", b"\0\1", bytes(protocol.EMBEDDED_MAX_BYTES + 1)]
)
def test_invalid_bytes_are_refused(embedded: bytes) -> None:
    with pytest.raises(CorruptRecordError):
        protocol.decode_metadata(embedded)
    with pytest.raises(CorruptRecordError):
        protocol.decode_assignment(embedded)


@given(st.binary(max_size=80), st.integers(0, 2))
def test_any_bytes_are_read_or_refused(embedded: bytes, version: int) -> None:
    for decode in (protocol.decode_metadata, protocol.decode_assignment):
        try:
            decode(bytes([0, version]) + embedded)
        except CorruptRecordError:
            continue


def test_a_count_that_the_bytes_cannot_hold_is_refused() -> None:
    raw = protocol.encode_assignment(dataclasses.replace(ASSIGNMENT, assigned=(), revoked=()), 1)
    assert raw.count(bytes(8)) >= 1
    with pytest.raises(CorruptRecordError):
        protocol.decode_assignment(raw.replace(bytes(8), b"\x7f\xff\xff\xff" + bytes(4)))
