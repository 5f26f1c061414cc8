"""The Fetch and Produce requests of raw records, and the reading of their responses."""

from __future__ import annotations

import uuid

import pytest

from kcli.client.records.fetch import (
    FetchLimits,
    aborted_transactions,
    fetch_request,
    fetched_partitions,
    readable_end,
    reading_error,
    topic_names,
)
from kcli.client.records.fetch_plan import FetchPosition, PlannedFetch, without_session
from kcli.client.records.produce import produce_request, produced_partitions
from kcli.errors import ErrorCode, FetchSessionIdNotFoundException, OffsetOutOfRangeException
from kcli.model.request_values import ACKS_ALL, FINAL_SESSION_EPOCH, READ_COMMITTED, READ_UNCOMMITTED
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.aborted import AbortedTransaction
from kcli.protocol.messages import fetch as fe
from kcli.protocol.messages import produce as pr

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
IDS = {"a": uuid.UUID(int=1), "b": uuid.UUID(int=2)}
LIMITS = FetchLimits(max_wait_ms=100, partition_max_bytes=10, max_bytes=20, min_bytes=3, isolation_level=1)


def at(key: TopicPartition, offset: int, leader_epoch: int = -1) -> tuple[TopicPartition, FetchPosition]:
    return key, FetchPosition(IDS[key.topic], offset, leader_epoch)


def test_a_request_has_the_limits_and_the_positions() -> None:
    request = fetch_request(without_session([at(A0, 7, leader_epoch=4), at(A1, 8)]), LIMITS)
    partitions = (
        fe.FetchPartition(partition=0, current_leader_epoch=4, fetch_offset=7, partition_max_bytes=10),
        fe.FetchPartition(partition=1, current_leader_epoch=-1, fetch_offset=8, partition_max_bytes=10),
    )
    assert request == fe.FetchRequest(
        max_wait_ms=100,
        min_bytes=3,
        max_bytes=20,
        isolation_level=1,
        session_id=0,
        session_epoch=FINAL_SESSION_EPOCH,
        topics=(fe.FetchTopic(topic="a", topic_id=IDS["a"], partitions=partitions),),
    )


def test_a_request_keeps_the_order_of_its_partitions() -> None:
    request = fetch_request(without_session([at(A0, 1), at(B0, 2), at(A1, 3)]), LIMITS)
    assert [(topic.topic, [each.partition for each in topic.partitions]) for topic in request.topics] == [
        ("a", [0]),
        ("b", [0]),
        ("a", [1]),
    ]


def test_a_topic_that_was_created_again_is_another_topic_of_the_request() -> None:
    old, new = uuid.UUID(int=8), uuid.UUID(int=9)
    positions = [(A0, FetchPosition(old, 0)), (A1, FetchPosition(new, 0))]
    assert [topic.topic_id for topic in fetch_request(without_session(positions), LIMITS).topics] == [
        old,
        new,
    ]


def test_a_request_of_a_session_lists_the_partitions_that_leave_it() -> None:
    planned = PlannedFetch(9, 3, (at(A0, 1),), ((A1, IDS["a"]), (B0, IDS["b"])))
    request = fetch_request(planned, LIMITS)
    assert (request.session_id, request.session_epoch) == (9, 3)
    assert [(each.topic_id, each.partitions) for each in request.forgotten_topics_data] == [
        (IDS["a"], (1,)),
        (IDS["b"], (0,)),
    ]


@pytest.mark.parametrize("has_names", [True, False], ids=["up to version 12", "since version 13"])
def test_an_answer_is_read_by_partition(has_names: bool) -> None:
    answers = (fe.PartitionData(partition_index=0), fe.PartitionData(partition_index=1, high_watermark=5))
    topic = fe.FetchableTopicResponse(
        topic="a" if has_names else "", topic_id=None if has_names else IDS["a"], partitions=answers
    )
    unknown = fe.FetchableTopicResponse(topic_id=uuid.UUID(int=77), partitions=answers)
    response = fe.FetchResponse(responses=(topic, unknown))
    names = topic_names([at(A0, 0), at(A1, 0), at(B0, 0)])
    assert fetched_partitions(response, names) == {A0: answers[0], A1: answers[1]}


def test_an_error_of_the_whole_answer_is_raised() -> None:
    response = fe.FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    with pytest.raises(FetchSessionIdNotFoundException):
        fetched_partitions(response, {})


def test_the_error_of_a_partition_names_the_position() -> None:
    error = reading_error(A1, 5, ErrorCode.OFFSET_OUT_OF_RANGE)
    assert isinstance(error, OffsetOutOfRangeException)
    assert error.message == "reading a-1 at offset 5: OFFSET_OUT_OF_RANGE"


def test_the_isolation_level_decides_what_a_consumer_may_read() -> None:
    aborted = (fe.AbortedTransaction(producer_id=3, first_offset=6),)
    answer = fe.PartitionData(high_watermark=9, last_stable_offset=7, aborted_transactions=aborted)
    assert (readable_end(answer, READ_UNCOMMITTED), readable_end(answer, READ_COMMITTED)) == (9, 7)
    assert aborted_transactions(answer, READ_UNCOMMITTED) is None
    assert aborted_transactions(answer, READ_COMMITTED) == (AbortedTransaction(3, 6),)
    assert aborted_transactions(fe.PartitionData(aborted_transactions=None), READ_COMMITTED) == ()


def test_a_produce_request_groups_the_batches_by_topic() -> None:
    request = produce_request(
        {A0: b"1", B0: b"2", A1: b"3"}, IDS, timeout_ms=50, acks=1, transactional_id="t"
    )
    assert request == pr.ProduceRequest(
        transactional_id="t",
        acks=1,
        timeout_ms=50,
        topic_data=(
            pr.TopicProduceData(
                name="a",
                topic_id=IDS["a"],
                partition_data=(
                    pr.PartitionProduceData(index=0, records=b"1"),
                    pr.PartitionProduceData(index=1, records=b"3"),
                ),
            ),
            pr.TopicProduceData(
                name="b", topic_id=IDS["b"], partition_data=(pr.PartitionProduceData(index=0, records=b"2"),)
            ),
        ),
    )


def test_a_produce_request_for_an_old_broker_needs_no_topic_ids() -> None:
    request = produce_request({A0: b"1"}, {}, timeout_ms=50)
    assert (request.acks, request.transactional_id, request.topic_data[0].topic_id) == (ACKS_ALL, None, None)


@pytest.mark.parametrize("has_names", [True, False], ids=["up to version 12", "since version 13"])
def test_the_answer_to_a_produce_request_is_read_by_partition(has_names: bool) -> None:
    answers = (pr.PartitionProduceResponse(index=1, base_offset=4),)
    topic = pr.TopicProduceResponse(
        name="a" if has_names else "",
        topic_id=None if has_names else IDS["a"],
        partition_responses=answers,
    )
    assert produced_partitions(pr.ProduceResponse(responses=(topic,)), IDS) == {A1: answers[0]}
