"""The checks of a request from another node, in their order, and the table of votes."""

from __future__ import annotations

import pytest

from kcli.errors import ErrorCode
from kcli.metadata.snapshot_file import SnapshotId
from kcli.raft.elections import succession_wait_s
from kcli.raft.leading import LONGEST_WAIT_S
from kcli.raft.messages import (
    Answered,
    Append,
    Flushed,
    LogCleaned,
    Outgoing,
    Received,
    Shutdown,
    Tick,
    Unanswered,
)
from kcli.raft.requests import (
    AddVoterRequest,
    BeginEpochRequest,
    EndEpochRequest,
    EpochEnd,
    FetchRequest,
    FetchSnapshotRequest,
    QuorumResponse,
    RaftRequest,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VoteRequest,
    VoteResponse,
)
from kcli.raft.settings import RaftSettings
from kcli.raft.states.candidate import Candidate
from kcli.raft.states.follower import Follower
from kcli.raft.states.prospective import Prospective
from kcli.raft.states.resigned import Resigned
from kcli.raft.states.unattached import Unattached
from kcli.raft.states.votes import Votes
from kcli.raft.voters import ReplicaKey, Voter, VoterSet
from rigs.raft import LISTENER, Machine, address_of, directory, voter_of

KEYS = [ReplicaKey(number, directory(number)) for number in (1, 2, 3, 4)]
ONE, TWO, THREE, FOUR = KEYS
VOTERS = VoterSet(tuple(voter_of(key) for key in KEYS[:3]))


class Node:
    """Node 1 of three voters, or of one. `ask` returns the response, or None if it waits."""

    def __init__(self, voters: VoterSet = VOTERS) -> None:
        self.machine = Machine(1, RaftSettings(default_listener=LISTENER), lambda: 0.0, voters)
        self.replies: list[QuorumResponse] = []
        self.machine.on_reply = lambda reply: self.replies.append(reply.response)
        self.machine.start(0.0)
        self.now = 0.0
        self.token = 7

    def ask(self, request: RaftRequest) -> QuorumResponse | None:
        self.replies.clear()
        self.machine.step(Received(self.token, request), self.now)
        return self.replies[0] if self.replies else None

    def error(self, request: RaftRequest) -> ErrorCode | None:
        response = self.ask(request)
        return None if response is None else response.error

    def follow(self, leader: ReplicaKey, epoch: int) -> None:
        endpoints = {LISTENER: address_of(leader.id)}
        assert self.error(
            BeginEpochRequest(epoch=epoch, leader_id=leader.id, voter=ONE, leader_endpoints=endpoints)
        ) is (ErrorCode.NONE)


def leader() -> Node:
    """Leads epoch 1 alone. Its log has the records 0 to 3."""
    node = Node(VoterSet(VOTERS.voters[:1]))
    node.machine.step(Append((b"a",)), 0.0)
    node.machine.step(Flushed(4), 0.0)
    return node


def vote(
    epoch: int = 1,
    *,
    candidate: ReplicaKey = TWO,
    voter: ReplicaKey | None = ONE,
    last: tuple[int, int] = (0, 0),
    pre_vote: bool = False,
) -> VoteRequest:
    return VoteRequest(epoch=epoch, candidate=candidate, voter=voter, last=EpochEnd(*last), pre_vote=pre_vote)


def fetch(
    epoch: int = 1, offset: int = 4, last_epoch: int = 1, *, replica: ReplicaKey = TWO, wait: float = 0.0
) -> FetchRequest:
    return FetchRequest(
        replica=replica,
        epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        high_watermark=offset,
        max_wait_s=wait,
    )


@pytest.mark.parametrize(
    ("request_", "error", "epoch"),
    [
        (vote(5, last=(5, 0)), ErrorCode.INVALID_REQUEST, 3),
        (vote(5, last=(6, 0), pre_vote=True), ErrorCode.INVALID_REQUEST, 3),
        (vote(5, last=(-1, 0)), ErrorCode.INVALID_REQUEST, 3),
        (vote(5, last=(0, -1)), ErrorCode.INVALID_REQUEST, 3),
        (vote(2), ErrorCode.FENCED_LEADER_EPOCH, 3),
        (vote(5, candidate=ReplicaKey(-1)), ErrorCode.INVALID_REQUEST, 3),
        (vote(5, voter=TWO), ErrorCode.INVALID_VOTER_KEY, 5),
        (vote(5, voter=ReplicaKey(1, directory(9))), ErrorCode.INVALID_VOTER_KEY, 5),
        (vote(5, voter=None), ErrorCode.NONE, 5),
        (vote(5, pre_vote=True, last=(5, 0)), ErrorCode.NONE, 5),
    ],
)
def test_vote_checks_the_request_before_the_epoch_and_the_key_last(
    request_: VoteRequest, error: ErrorCode, epoch: int
) -> None:
    node = Node()
    node.follow(THREE, 3)
    assert node.error(request_) is error
    assert node.machine.node.epoch == epoch, "a newer epoch counts even if the vote is refused"


def test_a_candidate_with_a_shorter_log_gets_no_vote() -> None:
    node = leader()
    for last, granted in [((0, 9), False), ((1, 3), False), ((1, 4), True), ((2, 0), True)]:
        response = node.ask(vote(node.machine.node.epoch + 3, last=last))
        assert isinstance(response, VoteResponse) and response.granted is granted, last


@pytest.mark.parametrize(
    ("state", "pre_vote", "vote_of_new", "vote_of_old"),
    [
        (Unattached(epoch=3, deadline=9), True, True, True),
        (Unattached(epoch=3, deadline=9, leader_id=3), True, False, False),
        (Unattached(epoch=3, deadline=9, voted=TWO), True, False, True),
        (Prospective(epoch=3, deadline=9, votes=Votes(VOTERS, (1,)), leader_endpoints={}), True, True, True),
        (
            Prospective(epoch=3, deadline=9, votes=Votes(VOTERS, (1,)), leader_endpoints={}, voted=TWO),
            True,
            False,
            True,
        ),
        (Candidate(epoch=3, deadline=9, votes=Votes(VOTERS, (1,)), voted=ONE), True, False, False),
        (Resigned(epoch=3, deadline=9, leader_id=1), True, False, False),
    ],
)
def test_the_table_of_votes(
    state: Unattached | Prospective | Candidate | Resigned,
    pre_vote: bool,
    vote_of_new: bool,
    vote_of_old: bool,
) -> None:
    assert state.grants(THREE, up_to_date=True, pre_vote=True) is pre_vote
    assert not state.grants(THREE, up_to_date=False, pre_vote=True)
    assert state.grants(THREE, up_to_date=True, pre_vote=False) is vote_of_new
    assert state.grants(TWO, up_to_date=True, pre_vote=False) is vote_of_old


def test_a_follower_refuses_pre_votes_while_it_hears_its_leader() -> None:
    follower = Follower(epoch=3, leader_id=3, leader_endpoints={}, fetch_deadline=9, update_deadline=9)
    assert follower.grants(TWO, up_to_date=True, pre_vote=True)
    assert not follower.grants(TWO, up_to_date=True, pre_vote=False)
    heard = Follower(
        epoch=3, leader_id=3, leader_endpoints={}, fetch_deadline=9, update_deadline=9, has_fetched=True
    )
    assert not heard.grants(TWO, up_to_date=True, pre_vote=True)


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (fetch(wait=-1.0), ErrorCode.INVALID_REQUEST),
        (fetch(offset=-1), ErrorCode.INVALID_REQUEST),
        (fetch(last_epoch=-1), ErrorCode.INVALID_REQUEST),
        (fetch(last_epoch=2), ErrorCode.INVALID_REQUEST),
        (fetch(replica=ONE), ErrorCode.INVALID_REQUEST),
        (fetch(0, last_epoch=0), ErrorCode.FENCED_LEADER_EPOCH),
        (fetch(2), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (fetch(), ErrorCode.NONE),
        (fetch(replica=ReplicaKey(-1)), ErrorCode.NONE),
    ],
)
def test_fetch_checks_the_request_and_then_the_epoch(request_: FetchRequest, error: ErrorCode) -> None:
    assert leader().error(request_) is error


def test_only_the_leader_serves_fetches() -> None:
    node = Node()
    node.follow(THREE, 3)
    request = fetch(3, 0, 0)
    assert node.error(request) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    response = node.ask(request)
    assert response is not None and (response.leader_id, response.leader_endpoints) == (
        3,
        {LISTENER: address_of(3)},
    )


def test_a_fetch_waits_for_a_record_or_for_its_time() -> None:
    node = leader()
    assert node.ask(fetch(wait=0.5)) is None
    node.machine.step(Append((b"b",)), 0.1)
    assert [response.error for response in node.replies] == [ErrorCode.NONE]
    assert node.ask(fetch(offset=5, wait=0.5)) is None
    assert node.machine.node.deadline == 0.5
    node.machine.step(Tick(), 0.5)
    assert len(node.replies) == 1


def test_a_fetch_never_waits_longer_than_the_limit() -> None:
    node = leader()
    assert node.ask(fetch(wait=3600.0)) is None
    assert node.machine.node.deadline == LONGEST_WAIT_S
    node.machine.step(Tick(), LONGEST_WAIT_S)
    assert len(node.replies) == 1


def test_waiting_readers_leave_room_for_the_voters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcli.raft.leading.MAX_PARKED", 2)
    node = leader()
    for _ in range(2):
        assert node.ask(fetch(wait=0.5, replica=ReplicaKey(-1))) is None
        node.token += 1
    for reader in (ReplicaKey(-1), FOUR):
        answer = node.ask(fetch(wait=0.5, replica=reader))
        assert answer is not None and answer.error is ErrorCode.NONE
    node.machine.node._member.history.read((VOTERS.record(),), 3)
    assert node.ask(fetch(wait=0.5, replica=TWO)) is None


def test_of_too_many_observers_the_one_with_the_oldest_fetch_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kcli.raft.states.leader.MAX_OBSERVERS", 2)
    node = leader()
    for number in (2, 3, 2, 4):
        node.now += 1
        node.ask(fetch(replica=ReplicaKey(number, directory(number))))
    state = node.machine.node.leader
    assert state is not None and list(state.progress) == [ONE, TWO, FOUR]


def test_a_debug_reader_is_served_but_not_tracked() -> None:
    node = leader()
    node.ask(fetch(replica=ReplicaKey(-1)))
    node.ask(fetch(replica=FOUR))
    state = node.machine.node.leader
    assert state is not None and list(state.progress) == [ONE, FOUR]


def test_a_leader_that_shuts_down_refuses_everything() -> None:
    node = leader()
    node.machine.step(Shutdown(), 0.0)
    assert node.machine.node.is_shut_down, "no other voter must hear of it"
    assert node.error(fetch()) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_leader_that_shuts_down_does_not_wait_for_voters_that_do_not_answer() -> None:
    """All nodes of a cluster often stop together."""
    node, sent = Node(), list[Outgoing]()
    node.machine.on_send = sent.append
    node.machine.step(Tick(), 1.0)
    for epoch in (0, 1):
        for vote_request in [each for each in sent if isinstance(each.request, VoteRequest)]:
            granted = VoteResponse(epoch=epoch, granted=True)
            node.machine.step(Answered(vote_request.request_id, granted), 1.0)
    assert node.machine.node.leader is not None
    sent.clear()
    node.machine.step(Shutdown(), 2.0)
    first, second = (each for each in sent if isinstance(each.request, EndEpochRequest))
    node.machine.step(Unanswered(first.request_id), 2.0)
    assert not node.machine.node.is_shut_down
    node.machine.step(Unanswered(second.request_id), 2.0)
    assert node.machine.node.is_shut_down


def snapshot_request(epoch: int, end: int, position: int) -> FetchSnapshotRequest:
    return FetchSnapshotRequest(
        replica=TWO, epoch=epoch, snapshot_id=SnapshotId(end, 1), position=position, max_bytes=100
    )


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (snapshot_request(0, 3, 0), ErrorCode.FENCED_LEADER_EPOCH),
        (snapshot_request(1, 2, 0), ErrorCode.SNAPSHOT_NOT_FOUND),
        (snapshot_request(1, 3, -1), ErrorCode.POSITION_OUT_OF_RANGE),
        (snapshot_request(1, 3, 0), ErrorCode.NONE),
    ],
)
def test_fetch_snapshot_checks_epoch_snapshot_and_position(
    request_: FetchSnapshotRequest, error: ErrorCode
) -> None:
    node = leader()
    node.machine.step(LogCleaned(0, (SnapshotId(3, 1),)), 0.0)
    node.machine.disk.snapshots = (SnapshotId(3, 1),)
    assert node.error(request_) is error


def test_begin_and_end_quorum_epoch() -> None:
    node = Node()
    node.follow(THREE, 3)
    begin = BeginEpochRequest(epoch=2, leader_id=2, voter=ONE, leader_endpoints={})
    assert node.error(begin) is ErrorCode.FENCED_LEADER_EPOCH
    assert node.error(BeginEpochRequest(epoch=3, leader_id=-1, voter=ONE, leader_endpoints={})) is (
        ErrorCode.INVALID_REQUEST
    )
    newer = BeginEpochRequest(epoch=4, leader_id=2, voter=FOUR, leader_endpoints={})
    assert node.error(newer) is ErrorCode.INVALID_VOTER_KEY
    assert (node.machine.node.epoch, node.machine.node.leader_id) == (4, 2), "the leader is followed anyway"
    end = EndEpochRequest(epoch=4, leader_id=2, preferred=(THREE, ONE), leader_endpoints={})
    assert node.error(end) is ErrorCode.NONE
    assert node.machine.node.deadline == 0.5


@pytest.mark.parametrize(
    ("preferred", "wait"),
    [
        ((ONE, TWO, THREE), 0.0),
        ((TWO, ONE, THREE), 0.25),
        ((TWO, THREE, ONE), 0.5),
        ((TWO, THREE), 1.0),
        ((ReplicaKey(1, directory(9)), TWO), 1.0),
        ((ReplicaKey(1),), 0.0),
    ],
)
def test_a_successor_waits_by_its_place(preferred: tuple[ReplicaKey, ...], wait: float) -> None:
    assert succession_wait_s(ONE, preferred, 1.0) == wait


def add(key: ReplicaKey, listener: str = LISTENER) -> AddVoterRequest:
    return AddVoterRequest(voter=Voter(key, {listener: address_of(key.id)}), timeout_s=9.0)


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (add(ReplicaKey(2)), ErrorCode.INVALID_REQUEST),
        (add(TWO, "OTHER"), ErrorCode.INVALID_REQUEST),
        (add(ReplicaKey(1, directory(9))), ErrorCode.DUPLICATE_VOTER),
        (add(TWO), None),
        (RemoveVoterRequest(key=ReplicaKey(1, directory(9))), ErrorCode.VOTER_NOT_FOUND),
        (RemoveVoterRequest(key=ONE), ErrorCode.VOTER_NOT_FOUND),
        (RemoveVoterRequest(key=ReplicaKey(1)), ErrorCode.INVALID_REQUEST),
        (UpdateVoterRequest(epoch=2, voter=voter_of(ONE)), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (UpdateVoterRequest(epoch=1, voter=voter_of(TWO)), ErrorCode.VOTER_NOT_FOUND),
        (UpdateVoterRequest(epoch=1, voter=Voter(ONE, {})), ErrorCode.INVALID_REQUEST),
        (UpdateVoterRequest(epoch=1, voter=voter_of(ReplicaKey(1))), ErrorCode.INVALID_REQUEST),
        (
            UpdateVoterRequest(epoch=1, voter=Voter(ONE, {LISTENER: address_of(1)}, 0, 0)),
            ErrorCode.INVALID_REQUEST,
        ),
        (UpdateVoterRequest(epoch=1, voter=voter_of(ONE)), ErrorCode.NONE),
    ],
)
def test_changes_of_the_voters(request_: RaftRequest, error: ErrorCode | None) -> None:
    assert leader().error(request_) is error


def test_a_change_needs_a_committed_record_of_the_epoch_and_of_the_last_change() -> None:
    node = Node(VoterSet(VOTERS.voters[:1]))
    assert node.error(add(TWO)) is ErrorCode.REQUEST_TIMED_OUT
    node.machine.flush(0.0)
    assert node.error(UpdateVoterRequest(epoch=1, voter=voter_of(ONE))) is ErrorCode.NONE
    assert node.error(RemoveVoterRequest(key=TWO)) is ErrorCode.REQUEST_TIMED_OUT
    node.machine.flush(0.0)
    assert node.error(RemoveVoterRequest(key=TWO)) is ErrorCode.VOTER_NOT_FOUND
