"""The quorum of one: where it starts from, what it must write before it leads, when its records count.

tests/scenario/raft_*.txt tell the same rules as stories; here are the values and the edges.
"""

from __future__ import annotations

import uuid

import pytest

from kcli.errors import NotControllerException, StorageError
from kcli.model.addresses import Address
from kcli.protocol.batches.control import KRaftVersionRecord, LeaderChangeMessage, VotersRecord
from kcli.protocol.batches.control import Voter as VoterId
from kcli.raft.election_state import ElectionState
from kcli.raft.messages import Append, DataBatch, Flushed, Ready, Resign, Start, Tick, VotersAt
from kcli.raft.node import QuorumError, RaftNode
from kcli.raft.settings import RaftSettings
from kcli.raft.states.candidate import Candidate
from kcli.raft.states.leader import Leader, Progress
from kcli.raft.states.resigned import Resigned
from kcli.raft.states.votes import Votes
from kcli.raft.voters import NO_VOTERS, ReplicaKey, Voter, VoterSet, voter_set

DIRECTORY = uuid.UUID(int=4000)
KEY = ReplicaKey(1, DIRECTORY)
ALONE = VoterSet((Voter(KEY, {"CONTROLLER": Address("h", 9093)}),))
STATIC = VoterSet((Voter(ReplicaKey(1), {"CONTROLLER": Address("h", 9093)}),))
THREE = VoterSet(tuple(Voter(ReplicaKey(number), {}) for number in (1, 2, 3)))
NOW = 0.0


def start(
    stored: ElectionState | None = None,
    *,
    end: int = 0,
    epoch: int = 0,
    voters: VoterSet = ALONE,
    kraft: int = 1,
    in_log: bool = False,
) -> tuple[RaftNode, Ready]:
    node = RaftNode(KEY, RaftSettings(), lambda: 0.0)
    ready = node.step(
        Start(
            stored=stored,
            log_start=0,
            log_end_offset=end,
            epochs=((epoch, 0),) if epoch else (),
            voters=voters,
            kraft_version=kraft,
            voter_history=(VotersAt(0, kraft, voters),) if in_log else (),
        ),
        NOW,
    )
    return node, ready


def test_a_new_voter_elects_itself_and_puts_the_voters_into_the_log() -> None:
    node, ready = start()
    assert ready.persist == (ElectionState(1, voted=KEY), ElectionState(1, leader_id=1))
    (batch,) = ready.append
    change, version, voters = batch.records
    assert change == LeaderChangeMessage(
        leader_id=1, voters=(VoterId(voter_id=1),), granting_voters=(VoterId(voter_id=1),)
    )
    assert version == KRaftVersionRecord(k_raft_version=1)
    assert isinstance(voters, VotersRecord) and voter_set(voters) == ALONE
    assert ready.flush and node.leader_id == 1 and node.epoch == batch.epoch == 1


def test_voters_that_are_in_the_log_are_not_written_again() -> None:
    _, ready = start(ElectionState(3, leader_id=1), end=50, epoch=3, in_log=True)
    (batch,) = ready.append
    assert [type(record) for record in batch.records] == [LeaderChangeMessage]
    assert [state.epoch for state in ready.persist] == [4, 4]


def test_static_voters_stay_in_the_file_and_out_of_the_log() -> None:
    _, ready = start(voters=STATIC, kraft=0)
    (batch,) = ready.append
    assert [type(record) for record in batch.records] == [LeaderChangeMessage]
    assert [state.static_voters for state in ready.persist] == [(1,), (1,)]


@pytest.mark.parametrize(
    ("stored", "log_epoch", "epoch"),
    [
        (None, 0, 1),
        (None, 6, 7),
        (ElectionState(3, leader_id=1), 3, 4),
        (ElectionState(3, voted=KEY), 2, 4),
        (ElectionState(5), 2, 6),
        (ElectionState(3, leader_id=1), 8, 9),
    ],
)
def test_every_start_begins_an_epoch_above_all_it_has_seen(
    stored: ElectionState | None, log_epoch: int, epoch: int
) -> None:
    node, ready = start(stored, end=10, epoch=log_epoch, in_log=True)
    assert node.epoch == epoch == ready.persist[-1].epoch


def test_an_append_asks_for_a_batch_of_the_present_epoch_and_a_flush() -> None:
    node, _ = start(ElectionState(3, leader_id=1), end=50, epoch=3, in_log=True)
    ready = node.step(Append((b"a", b"b")), NOW)
    assert ready == Ready(append=(DataBatch(4, (b"a", b"b")),), flush=True)


def test_nothing_is_committed_before_a_record_of_the_own_epoch_is() -> None:
    node, _ = start(ElectionState(3, leader_id=1), end=50, epoch=3, in_log=True)
    assert node.high_watermark == -1
    assert node.step(Flushed(50), NOW) == Ready()
    assert node.step(Flushed(51), NOW) == Ready(apply=51)
    assert node.step(Flushed(51), NOW) == Ready()
    assert node.step(Flushed(40), NOW) == Ready(), "the high watermark never goes back"
    assert node.high_watermark == 51


def test_a_node_that_resigned_takes_no_records_and_counts_none() -> None:
    node, _ = start()
    assert node.step(Resign(), NOW) == Ready()
    assert (node.leader_id, node.epoch, type(node.state)) == (-1, 1, Resigned)
    assert node.step(Flushed(5), NOW) == Ready()
    with pytest.raises(NotControllerException):
        node.step(Append((b"a",)), NOW)
    assert node.step(Resign(), NOW) == Ready()


def test_a_node_without_voters_and_bootstrap_servers_says_why() -> None:
    with pytest.raises(QuorumError, match="--standalone"):
        start(voters=NO_VOTERS)


def test_a_node_takes_no_message_before_its_start() -> None:
    with pytest.raises(AssertionError, match="before Start"):
        RaftNode(KEY, RaftSettings(), lambda: 0.0).step(Tick(), NOW)


def test_a_quorum_of_others_is_no_broken_disk() -> None:
    assert not issubclass(QuorumError, StorageError)


def test_states_move_only_as_the_table_allows() -> None:
    node, _ = start()
    candidate = Candidate(epoch=2, deadline=1.0, votes=Votes(ALONE, (1,)), voted=KEY)
    with pytest.raises(AssertionError, match="cannot become"):
        node._member._move(candidate)
    node.step(Resign(), NOW)
    with pytest.raises(AssertionError, match="cannot become"):
        node._member._move(leader_of(1, 0))


def test_an_epoch_never_goes_back() -> None:
    node, _ = start(ElectionState(3, leader_id=1), epoch=3)
    with pytest.raises(AssertionError, match="never goes back"):
        node._member._move(Resigned(epoch=3, deadline=1.0, leader_id=1))


def test_an_unknown_directory_matches_any() -> None:
    assert ReplicaKey(1).matches(KEY) and KEY.matches(ReplicaKey(1))
    assert not KEY.matches(ReplicaKey(1, uuid.UUID(int=9)))
    assert not KEY.matches(ReplicaKey(2))
    assert ALONE.ids == (1,) and ALONE.voter(KEY) is not None


@pytest.mark.parametrize(
    ("voters", "least"), [(ALONE, 1), (VoterSet(THREE.voters[:2]), 2), (THREE, 2)], ids=["1", "2", "3"]
)
def test_a_majority_is_more_than_half_of_the_voters(voters: VoterSet, least: int) -> None:
    assert voters.is_majority(least) and not voters.is_majority(least - 1)


@pytest.mark.parametrize(
    ("ends", "offset"),
    [({}, -1), ({1: 9}, -1), ({1: 9, 2: 4}, 4), ({1: 9, 2: 4, 3: 7}, 7), ({1: 9, 2: 4, 4: 8}, 4)],
)
def test_a_majority_of_three_holds_what_two_voters_hold(ends: dict[int, int], offset: int) -> None:
    assert THREE.majority_offset(ends) == offset


def leader_of(epoch: int, epoch_start_offset: int) -> Leader:
    return Leader(
        epoch=epoch,
        leader_id=1,
        epoch_start_offset=epoch_start_offset,
        check_deadline=9.0,
        begin_deadline=1.0,
    )


def flushed_by(leader: Leader, voter_id: int, end_offset: int) -> Leader:
    progress = Progress(end_offset=end_offset)
    return leader.with_progress(ReplicaKey(voter_id), progress, THREE, NOW).counted(THREE)


def test_a_leader_of_three_commits_what_two_have_on_disk() -> None:
    leader = flushed_by(leader_of(2, 10), 1, 12)
    assert leader.high_watermark == -1
    assert flushed_by(leader, 2, 10).high_watermark == -1, "only records of older epochs"
    leader = flushed_by(leader, 2, 11)
    assert leader.high_watermark == 11
    assert flushed_by(leader, 2, 5).high_watermark == 11, "a voter with a new disk takes nothing back"
    assert flushed_by(leader, 3, 20).high_watermark == 12
