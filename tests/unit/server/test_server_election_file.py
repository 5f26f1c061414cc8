"""The quorum-state file: Kafka's bytes for both of its versions, and what is refused."""

from __future__ import annotations

import uuid

import pytest

from kcli.errors import CorruptRecordError
from kcli.raft.election_state import ElectionState
from kcli.raft.voters import ReplicaKey
from kcli.runtime.disk import read_file
from kcli.server.quorum.election_file import read_election_state, write_election_state
from simulation.runtime.disk import SimDisk


def disk_with(content: bytes) -> SimDisk:
    disk = SimDisk()
    disk.open("/f", create=True).write_at(0, content)
    return disk


VERSION_1 = (
    b'{"leaderId":7,"leaderEpoch":1,"votedId":-1,'
    b'"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
)
VERSION_1_VOTED = (
    b'{"leaderId":-1,"leaderEpoch":4,"votedId":2,'
    b'"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAACQ","data_version":1}'
)
VERSION_0 = (
    b'{"clusterId":"","leaderId":-1,"leaderEpoch":3,"votedId":2,"appliedOffset":0,'
    b'"currentVoters":[{"voterId":1},{"voterId":2}],"data_version":0}'
)


@pytest.mark.parametrize(
    ("content", "state"),
    [
        (VERSION_1, ElectionState(epoch=1, leader_id=7)),
        (VERSION_1_VOTED, ElectionState(epoch=4, voted=ReplicaKey(2, uuid.UUID(int=9)))),
        (VERSION_0, ElectionState(epoch=3, voted=ReplicaKey(2), static_voters=(1, 2))),
    ],
)
def test_each_version_is_read_and_written_again_as_the_same_bytes(
    content: bytes, state: ElectionState
) -> None:
    assert read_election_state(disk_with(content), "/f") == state
    disk = SimDisk()
    write_election_state(disk, "/f", state)
    assert read_file(disk, "/f") == content


def test_a_version_0_file_may_name_no_voters() -> None:
    content = b'{"leaderId":-1,"leaderEpoch":3,"votedId":-1,"currentVoters":null,"data_version":0}'
    assert read_election_state(disk_with(content), "/f") == ElectionState(epoch=3, static_voters=())


def test_an_absent_file_is_no_state() -> None:
    assert read_election_state(SimDisk(), "/f") is None


@pytest.mark.parametrize("content", [b"", b"{}", b'{"data_version":0,"leaderId":"x"}'])
def test_content_that_is_no_quorum_state_is_refused(content: bytes) -> None:
    with pytest.raises(CorruptRecordError, match="not a quorum state"):
        read_election_state(disk_with(content), "/f")


def test_an_unknown_version_is_refused() -> None:
    content = b'{"leaderId":7,"leaderEpoch":1,"votedId":-1,"data_version":9}'
    with pytest.raises(CorruptRecordError, match="data_version 9"):
        read_election_state(disk_with(content), "/f")
