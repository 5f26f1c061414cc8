"""The quorum of one: where it starts from, what it must write before it leads, when its records count."""

from __future__ import annotations

import uuid

import pytest

from kcli.protocol.batches.control import KRaftVersionRecord, LeaderChangeMessage, VotersRecord
from kcli.protocol.batches.control import Voter as VoterId
from kcli.raft.node import Flushed, QuorumError, RaftNode, Ready, Resign, Start
from kcli.raft.states import Candidate, Leader, Resigned, Unattached
from kcli.raft.voters import NO_VOTERS, ReplicaKey, Voter, VoterSet, voter_set
from kcli.storage.checkpoint import QuorumState

DIRECTORY = uuid.UUID(int=4000)
KEY = ReplicaKey(1, DIRECTORY)
ALONE = VoterSet((Voter(KEY, {"CONTROLLER": ("h", 9093)}),))
STATIC = VoterSet((Voter(ReplicaKey(1), {"CONTROLLER": ("h", 9093)}),))


def start(stored=None, *, end=0, epoch=0, voters=ALONE, kraft=1, in_log=False):
    node = RaftNode(KEY)
    ready = node.step(
        Start(
            stored=stored,
            log_end_offset=end,
            log_epoch=epoch,
            voters=voters,
            kraft_version=kraft,
            voters_in_log=in_log,
        )
    )
    return node, ready


def test_a_new_voter_elects_itself_and_puts_the_voters_into_the_log():
    node, ready = start()
    assert [(state.leader_id, state.leader_epoch, state.voted_id) for state in ready.persist] == [
        (-1, 1, 1),
        (1, 1, -1),
    ]
    assert ready.persist[0].voted_directory_id == DIRECTORY
    change, version, voters = ready.append
    assert change == LeaderChangeMessage(
        leader_id=1, voters=(VoterId(voter_id=1),), granting_voters=(VoterId(voter_id=1),)
    )
    assert version == KRaftVersionRecord(k_raft_version=1)
    assert isinstance(voters, VotersRecord) and voter_set(voters) == ALONE
    assert ready.flush and node.leader_id == 1 and node.epoch == 1


def test_voters_that_are_in_the_log_are_not_written_again():
    _, ready = start(QuorumState(leader_id=1, leader_epoch=3), end=50, epoch=3, in_log=True)
    assert [type(record) for record in ready.append] == [LeaderChangeMessage]
    assert [state.leader_epoch for state in ready.persist] == [4, 4]


def test_static_voters_keep_the_old_file_and_stay_out_of_the_log():
    _, ready = start(voters=STATIC, kraft=0)
    assert [type(record) for record in ready.append] == [LeaderChangeMessage]
    assert {(state.version, state.voters) for state in ready.persist} == {(0, (1,))}


@pytest.mark.parametrize(
    ("stored", "log_epoch", "epoch"),
    [
        (None, 0, 1),
        (None, 6, 7),
        (QuorumState(leader_id=1, leader_epoch=3), 3, 4),
        (QuorumState(leader_epoch=3, voted_id=1, voted_directory_id=DIRECTORY), 2, 4),
        (QuorumState(leader_epoch=5), 2, 6),
        (QuorumState(leader_id=1, leader_epoch=3), 8, 9),
    ],
)
def test_every_start_begins_an_epoch_above_all_it_has_seen(stored, log_epoch, epoch):
    node, ready = start(stored, end=10, epoch=log_epoch, in_log=True)
    assert node.epoch == epoch == ready.persist[-1].leader_epoch


def test_nothing_is_committed_before_a_record_of_the_own_epoch_is():
    node, _ = start(QuorumState(leader_id=1, leader_epoch=3), end=50, epoch=3, in_log=True)
    assert node.high_watermark == -1
    assert node.step(Flushed(50)) == Ready()
    assert node.step(Flushed(51)).high_watermark == 51
    assert node.step(Flushed(51)) == Ready()
    assert node.step(Flushed(40)) == Ready(), "the high watermark never goes back"
    assert node.high_watermark == 51


def test_resigning_ends_the_lead_but_not_the_epoch():
    node, _ = start()
    assert node.step(Resign()) == Ready()
    assert (node.leader_id, node.epoch, type(node.state)) == (-1, 1, Resigned)
    assert node.step(Flushed(5)) == Ready()


@pytest.mark.parametrize(
    ("voters", "hint"),
    [
        (NO_VOTERS, "--standalone"),
        (VoterSet((Voter(ReplicaKey(1, uuid.UUID(int=9)), {}),)), "is not a voter"),
        (VoterSet((*ALONE.voters, Voter(ReplicaKey(2), {}))), "shares its quorum with voters 2"),
    ],
)
def test_a_node_that_is_not_its_whole_quorum_says_why(voters, hint):
    with pytest.raises(QuorumError, match=hint):
        start(voters=voters)


def test_states_move_only_as_the_table_says():
    node, _ = start()
    for state in (Unattached(2), Candidate(2)):
        with pytest.raises(AssertionError):
            node._move(state)
    node.step(Resign())
    with pytest.raises(AssertionError):
        node._move(Leader(1, 0))


def test_an_unknown_directory_matches_any():
    assert ReplicaKey(1).matches(KEY) and KEY.matches(ReplicaKey(1))
    assert not KEY.matches(ReplicaKey(1, uuid.UUID(int=9)))
    assert not KEY.matches(ReplicaKey(2))
    assert ALONE.ids == (1,) and ALONE.voter(KEY) is not None
