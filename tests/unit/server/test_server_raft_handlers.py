"""The requests of other members of the quorum: what reaches the raft node, and how its answers look on the wire."""

from __future__ import annotations

import asyncio
import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from kcli.errors import (
    ErrorCode,
    InconsistentClusterIdException,
    InvalidRequestException,
    PositionOutOfRangeException,
    SnapshotNotFoundException,
)
from kcli.metadata.image import MetadataImage
from kcli.metadata.snapshot_file import SnapshotId
from kcli.model.addresses import Address
from kcli.protocol.batches.batch import Record, encode_batch
from kcli.protocol.messages import add_raft_voter as ar
from kcli.protocol.messages import fetch as fe
from kcli.protocol.messages import fetch_snapshot as fs
from kcli.protocol.messages import remove_raft_voter as rr
from kcli.protocol.messages import vote as vo
from kcli.protocol.wire.api import API
from kcli.protocol.wire.codec import decode_request, decode_response, encode_request, encode_response
from kcli.protocol.wire.packing import read_header_tags, read_request_header
from kcli.raft import requests as rq
from kcli.raft.voters import ReplicaKey, Voter
from kcli.server.handlers import (
    add_raft_voter,
    begin_quorum_epoch,
    end_quorum_epoch,
    fetch_metadata,
    fetch_snapshot,
    remove_raft_voter,
    update_raft_voter,
    vote,
)
from kcli.server.quorum.driver import RaftAnswer
from kcli.server.quorum.raft_client_wire import api_of, received_batches
from kcli.server.quorum.raft_client_wire import decode_response as value_of
from kcli.server.quorum.raft_client_wire import encode_request as message_of

CLUSTER = "cluster"
LISTENER = "CONTROLLER"
D1, D2 = uuid.UUID(int=101), uuid.UUID(int=102)
LEADER = {LISTENER: Address("leader", 9093), "OTHER": Address("elsewhere", 1)}
SEEN = {LISTENER: Address("leader", 9093)}
"""The part of LEADER that a node sees on the listener of its request."""

BATCH = encode_batch([Record(value=b"x")], base_offset=5, leader_epoch=3)


class Snapshots:
    """One snapshot of ten bytes."""

    def read_part(self, snapshot_id: SnapshotId, position: int, max_bytes: int) -> tuple[int, bytes]:
        if snapshot_id != SnapshotId(40, 2):
            raise SnapshotNotFoundException
        if not 0 <= position < 10:
            raise PositionOutOfRangeException
        return 10, b"0123456789"[position : position + max_bytes]


class Raft:
    """A raft node that answers each request with the same response, and remembers the request."""

    def __init__(self, response: Any, records: bytes = b"") -> None:
        self.asked: list[Any] = []
        self.driver = self
        self.log = SimpleNamespace(snapshots=Snapshots())
        self._answer = RaftAnswer(response, records)

    def ask(self, request: Any, max_bytes: int = 0) -> asyncio.Future[RaftAnswer]:
        self.asked.append(request)
        future: asyncio.Future[RaftAnswer] = asyncio.get_running_loop().create_future()
        future.set_result(self._answer)
        return future


def served(handler: Any, raft: Raft, message: Any, version: int = 18, throttle: Any = None) -> Any:
    ports = SimpleNamespace(
        raft=raft,
        loader=SimpleNamespace(image=MetadataImage(cluster_id=CLUSTER)),
        quorum=SimpleNamespace(log_start_offset=0),
    )
    context = SimpleNamespace(ports=ports, listener=LISTENER, api_version=version, throttle=throttle)

    async def serve() -> Any:
        return await handler.handle(context, message)

    return asyncio.run(serve())


def over_the_wire(
    handler: Any, request: Any, response: Any, version: int, records: bytes = b""
) -> tuple[Any, Any]:
    """Sends `request` in a version, from value to bytes to value and back. Returns what the raft node got, and what the
    sender gets."""
    key, _ = api_of(request)
    frame = memoryview(encode_request(message_of(request, CLUSTER), key, version, 7, "test"))[4:]
    at = read_request_header(frame)[4]
    if API[key].is_flexible(version):
        at = read_header_tags(frame, at)
    raft = Raft(response, records)
    answer = served(handler, raft, decode_request(key, version, bytes(frame), at), version)
    content = encode_response(answer, key, version, 7)[4:]
    (asked,) = raft.asked
    return asked, value_of(request, decode_response(key, version, bytes(content))[1], LISTENER)


KEY = ReplicaKey(2, D2)
VOTE = rq.VoteRequest(epoch=6, candidate=ReplicaKey(1, D1), voter=KEY, last=rq.EpochEnd(5, 77), pre_vote=True)
BEGIN = rq.BeginEpochRequest(epoch=6, leader_id=1, voter=KEY, leader_endpoints=LEADER)
END = rq.EndEpochRequest(epoch=6, leader_id=1, preferred=(KEY, ReplicaKey(3, D1)), leader_endpoints=LEADER)
FETCH = rq.FetchRequest(
    replica=KEY, epoch=6, fetch_offset=5, last_fetched_epoch=3, high_watermark=4, max_wait_s=0.5
)
SNAPSHOT = rq.FetchSnapshotRequest(
    replica=KEY, epoch=6, snapshot_id=SnapshotId(40, 2), position=4, max_bytes=3
)
UPDATE = rq.UpdateVoterRequest(epoch=6, voter=Voter(KEY, LEADER, 0, 1))
ANSWER: dict[str, Any] = {"epoch": 6, "leader_id": 1, "leader_endpoints": LEADER}


@pytest.mark.parametrize(
    ("handler", "request_", "response"),
    [
        (vote, VOTE, rq.VoteResponse(granted=True, **ANSWER)),
        (vote, VOTE, rq.VoteResponse(error=ErrorCode.INVALID_VOTER_KEY, **ANSWER)),
        (begin_quorum_epoch, BEGIN, rq.BeginEpochResponse(**ANSWER)),
        (end_quorum_epoch, END, rq.EndEpochResponse(error=ErrorCode.FENCED_LEADER_EPOCH, **ANSWER)),
        (fetch_metadata, FETCH, rq.FetchResponse(high_watermark=9, diverging=rq.EpochEnd(2, 33), **ANSWER)),
        (fetch_metadata, FETCH, rq.FetchResponse(high_watermark=9, snapshot_id=SnapshotId(40, 2), **ANSWER)),
        (update_raft_voter, UPDATE, rq.VoterChangeResponse(error=ErrorCode.VOTER_NOT_FOUND, **ANSWER)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_request_and_its_response_pass_the_wire_unchanged(
    handler: Any, request_: Any, response: Any
) -> None:
    key, _ = api_of(request_)
    asked, answered = over_the_wire(handler, request_, response, API[key].max_version)
    assert asked == request_
    assert answered == type(response)(
        **{name: getattr(response, name) for name in response.__slots__ if name != "leader_endpoints"},
        leader_endpoints=SEEN,
    )


def test_records_pass_the_wire_byte_for_byte() -> None:
    asked, answered = over_the_wire(fetch_metadata, FETCH, rq.FetchResponse(**ANSWER), 18, BATCH)
    (batch,) = answered.batches
    assert asked == FETCH
    assert (batch.base_offset, batch.next_offset, batch.epoch, batch.content) == (5, 6, 3, BATCH)


def test_a_fetch_of_another_node_is_not_throttled() -> None:
    exempted = []
    partition = fe.FetchPartition(partition=0)
    topic = fe.FetchTopic(topic_id=uuid.UUID(int=1), partitions=(partition,))
    throttle = SimpleNamespace(exempt=lambda: exempted.append(True))
    served(
        fetch_metadata, Raft(rq.FetchResponse(**ANSWER)), fe.FetchRequest(topics=(topic,)), throttle=throttle
    )
    assert exempted == [True]


def test_a_part_of_a_snapshot_passes_the_wire() -> None:
    asked, answered = over_the_wire(fetch_snapshot, SNAPSHOT, rq.FetchSnapshotResponse(**ANSWER), 1)
    assert asked == SNAPSHOT
    assert (answered.size, answered.position, answered.content) == (10, 4, b"456")
    assert answered.snapshot_id == SNAPSHOT.snapshot_id


def test_old_versions_carry_what_they_can() -> None:
    asked, answered = over_the_wire(vote, VOTE, rq.VoteResponse(granted=True, **ANSWER), 0)
    assert (asked.candidate, asked.voter, asked.pre_vote) == (ReplicaKey(1), None, False)
    assert answered.granted and not answered.leader_endpoints
    asked, _ = over_the_wire(end_quorum_epoch, END, rq.EndEpochResponse(**ANSWER), 0)
    assert asked.preferred == (ReplicaKey(2), ReplicaKey(3))
    asked, _ = over_the_wire(fetch_metadata, FETCH, rq.FetchResponse(**ANSWER), 12)
    assert (asked.replica, asked.fetch_offset) == (ReplicaKey(2), 5)


@pytest.mark.parametrize(
    ("snapshot_id", "position", "code"),
    [
        (SnapshotId(41, 2), 0, ErrorCode.SNAPSHOT_NOT_FOUND),
        (SnapshotId(40, 2), 10, ErrorCode.POSITION_OUT_OF_RANGE),
        (SnapshotId(40, 2), -1, ErrorCode.POSITION_OUT_OF_RANGE),
    ],
)
def test_a_part_that_does_not_exist_is_an_error(
    snapshot_id: SnapshotId, position: int, code: ErrorCode
) -> None:
    request = rq.FetchSnapshotRequest(
        replica=KEY, epoch=6, snapshot_id=snapshot_id, position=position, max_bytes=9
    )
    _, answered = over_the_wire(fetch_snapshot, request, rq.FetchSnapshotResponse(**ANSWER), 1)
    assert (answered.error, answered.content) == (code, b"")


def test_a_refused_request_reads_no_snapshot() -> None:
    response = rq.FetchSnapshotResponse(error=ErrorCode.FENCED_LEADER_EPOCH, **ANSWER)
    _, answered = over_the_wire(fetch_snapshot, SNAPSHOT, response, 1)
    assert (answered.error, answered.size, answered.content) == (ErrorCode.FENCED_LEADER_EPOCH, 0, b"")


def test_another_partition_of_a_snapshot_is_unknown() -> None:
    raft = Raft(None)
    topic = fs.RequestTopicSnapshot(name="t", partitions=(fs.RequestPartitionSnapshot(partition=3),))
    answer = served(fetch_snapshot, raft, fs.FetchSnapshotRequest(topics=(topic,)))
    (found,) = answer.topics[0].partitions
    assert (found.index, found.error_code) == (3, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert not raft.asked


def test_a_request_for_another_cluster_or_partition_is_refused() -> None:
    raft = Raft(None)
    with pytest.raises(InconsistentClusterIdException):
        served(vote, raft, vo.VoteRequest(cluster_id="another"))
    partition = vo.RequestPartitionData(partition_index=1)
    topic = vo.RequestTopicData(topic_name="__cluster_metadata", partitions=(partition,))
    for topics in ((), (topic,), (topic, topic)):
        with pytest.raises(InvalidRequestException):
            served(vote, raft, vo.VoteRequest(topics=topics))
    metadata = fe.FetchTopic(topic="__cluster_metadata", partitions=(fe.FetchPartition(),))
    with pytest.raises(InvalidRequestException):
        served(fetch_metadata, raft, fe.FetchRequest(topics=(metadata,)), 13)  # a topic id is expected
    assert not raft.asked


def test_a_response_refused_as_a_whole_has_the_epoch_of_the_request() -> None:
    refused = vo.VoteResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    response = value_of(VOTE, refused, LISTENER)
    assert response == rq.VoteResponse(error=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, epoch=6)


def test_a_damaged_batch_and_the_rest_are_not_taken(caplog: pytest.LogCaptureFixture) -> None:
    damaged = bytearray(BATCH)
    damaged[-1] ^= 1
    assert [batch.base_offset for batch in received_batches(BATCH + bytes(damaged) + BATCH)] == [5]
    assert "wrong checksum" in caplog.text


def test_an_operator_gets_the_message_of_the_raft_node() -> None:
    raft = Raft(rq.VoterChangeResponse(error=ErrorCode.VOTER_NOT_FOUND, epoch=1, message="which voter?"))
    answer = served(remove_raft_voter, raft, rr.RemoveRaftVoterRequest(cluster_id=None, voter_id=2))
    assert (answer.error_code, answer.error_message) == (ErrorCode.VOTER_NOT_FOUND, "which voter?")
    assert raft.asked == [rq.RemoveVoterRequest(key=ReplicaKey(2))]


def test_an_operator_gets_the_default_message_of_an_error_without_one() -> None:
    raft = Raft(rq.VoterChangeResponse(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, epoch=1))
    listener = ar.Listener(name="controller", host="h", port=1)
    message = ar.AddRaftVoterRequest(
        cluster_id=CLUSTER, timeout_ms=500, voter_id=2, voter_directory_id=D2, listeners=(listener,)
    )
    answer = served(add_raft_voter, raft, message)
    assert answer.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER and answer.error_message
    assert raft.asked == [rq.AddVoterRequest(voter=Voter(KEY, {LISTENER: Address("h", 1)}), timeout_s=0.5)]
