"""The hand-packed Produce and Fetch codecs read and write what the general codec does, in every version."""

from __future__ import annotations

import contextlib
import dataclasses
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.errors import ErrorCode, ProtocolError
from kcli.model.pace import at_once, no_pause
from kcli.protocol.messages import fetch, produce
from kcli.protocol.wire import codec, fetch_codec, produce_codec
from kcli.protocol.wire.api import API, ApiKey
from kcli.protocol.wire.fetch_response import FIRST_VERSION, decode_fetch_response

INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TIMESTAMPS = st.integers(-1, 4_102_444_800_000)
DURATIONS = st.integers(0, 2**31 - 1)
NAMES = st.text(max_size=20)
IDS = st.uuids(allow_nil=False)
ERRORS = st.sampled_from([ErrorCode.NONE, *ErrorCode])
RECORDS = st.none() | st.binary(max_size=300)
# 200 pushes a compact length over one varint byte.
LONG_NAMES = NAMES | st.just("x" * 200)


def tuples(strategy: Any, max_size: int = 3) -> Any:
    return st.lists(strategy, max_size=max_size).map(tuple)


def versions(key: ApiKey) -> Any:
    return st.integers(API[key].min_version, API[key].max_version)


PRODUCE_REQUESTS = st.builds(
    produce.ProduceRequest,
    transactional_id=st.none() | LONG_NAMES,
    acks=INT16,
    timeout_ms=DURATIONS,
    topic_data=tuples(
        st.builds(
            produce.TopicProduceData,
            topic_id=IDS,
            name=LONG_NAMES,
            partition_data=tuples(st.builds(produce.PartitionProduceData, index=INT32, records=RECORDS)),
        )
    ),
)

PRODUCE_RESPONSES = st.builds(
    produce.ProduceResponse,
    throttle_time_ms=DURATIONS,
    node_endpoints=tuples(
        st.builds(produce.NodeEndpoint, node_id=INT32, host=NAMES, port=INT32, rack=st.none() | NAMES)
    ),
    responses=tuples(
        st.builds(
            produce.TopicProduceResponse,
            topic_id=IDS,
            name=LONG_NAMES,
            partition_responses=tuples(
                st.builds(
                    produce.PartitionProduceResponse,
                    index=INT32,
                    error_code=ERRORS,
                    base_offset=INT64,
                    log_append_time_ms=TIMESTAMPS,
                    log_start_offset=INT64,
                    record_errors=tuples(
                        st.builds(
                            produce.BatchIndexAndErrorMessage,
                            batch_index=INT32,
                            batch_index_error_message=st.none() | NAMES,
                        )
                    ),
                    error_message=st.none() | LONG_NAMES,
                    current_leader=st.just(produce.LeaderIdAndEpoch())
                    | st.builds(produce.LeaderIdAndEpoch, leader_id=INT32, leader_epoch=INT32),
                )
            ),
        )
    ),
)

FETCH_REQUESTS = st.builds(
    fetch.FetchRequest,
    cluster_id=st.none() | LONG_NAMES,
    replica_state=st.just(fetch.ReplicaState())
    | st.builds(fetch.ReplicaState, replica_id=INT32, replica_epoch=INT64),
    replica_id=INT32,
    max_wait_ms=DURATIONS,
    min_bytes=INT32,
    max_bytes=INT32,
    isolation_level=st.integers(-128, 127),
    session_id=INT32,
    session_epoch=INT32,
    rack_id=NAMES,
    topics=tuples(
        st.builds(
            fetch.FetchTopic,
            topic_id=IDS,
            topic=LONG_NAMES,
            partitions=tuples(
                st.builds(
                    fetch.FetchPartition,
                    partition=INT32,
                    current_leader_epoch=INT32,
                    fetch_offset=INT64,
                    last_fetched_epoch=INT32,
                    log_start_offset=INT64,
                    partition_max_bytes=INT32,
                    replica_directory_id=st.none() | IDS,
                    high_watermark=st.just(2**63 - 1) | INT64,
                )
            ),
        )
    ),
    forgotten_topics_data=tuples(
        st.builds(fetch.ForgottenTopic, topic_id=IDS, topic=LONG_NAMES, partitions=tuples(INT32))
    ),
)

FETCH_RESPONSES = st.builds(
    fetch.FetchResponse,
    throttle_time_ms=DURATIONS,
    error_code=ERRORS,
    session_id=INT32,
    node_endpoints=tuples(
        st.builds(fetch.NodeEndpoint, node_id=INT32, host=NAMES, port=INT32, rack=st.none() | NAMES)
    ),
    responses=tuples(
        st.builds(
            fetch.FetchableTopicResponse,
            topic_id=IDS,
            topic=LONG_NAMES,
            partitions=tuples(
                st.builds(
                    fetch.PartitionData,
                    partition_index=INT32,
                    error_code=ERRORS,
                    high_watermark=INT64,
                    last_stable_offset=INT64,
                    log_start_offset=INT64,
                    preferred_read_replica=INT32,
                    records=RECORDS,
                    aborted_transactions=st.none()
                    | tuples(st.builds(fetch.AbortedTransaction, producer_id=INT64, first_offset=INT64)),
                    diverging_epoch=st.just(fetch.EpochEndOffset())
                    | st.builds(fetch.EpochEndOffset, epoch=INT32, end_offset=INT64),
                    current_leader=st.just(fetch.LeaderIdAndEpoch())
                    | st.builds(fetch.LeaderIdAndEpoch, leader_id=INT32, leader_epoch=INT32),
                    snapshot_id=st.just(fetch.SnapshotId())
                    | st.builds(fetch.SnapshotId, end_offset=INT64, epoch=INT32),
                )
            ),
        )
    ),
)


def decode_produce_request(version: int, frame: memoryview, at: int) -> produce.ProduceRequest:
    return at_once(produce_codec.decode_produce_request(version, frame, at, no_pause))


def encode_produce_response(response: produce.ProduceResponse, version: int, correlation_id: int) -> bytes:
    return at_once(produce_codec.encode_produce_response(response, version, correlation_id, no_pause))


def decode_fetch_request(version: int, frame: memoryview, at: int) -> fetch.FetchRequest:
    return at_once(fetch_codec.decode_fetch_request(version, frame, at, no_pause))


def encode_fetch_response(response: fetch.FetchResponse, version: int, correlation_id: int) -> list[Any]:
    return at_once(fetch_codec.encode_fetch_response(response, version, correlation_id, no_pause))


@given(message=PRODUCE_REQUESTS, version=versions(ApiKey.PRODUCE))
def test_produce_request_reads_as_the_general_codec_does(
    message: produce.ProduceRequest, version: int
) -> None:
    frame = codec.encode_request(message, ApiKey.PRODUCE, version, 1, "client")[4:]
    at = codec.decode_request_header(frame).body_offset
    expected = codec.decode_request(ApiKey.PRODUCE, version, frame, at)
    assert decode_produce_request(version, memoryview(bytearray(frame)), at) == expected


@given(message=PRODUCE_REQUESTS, version=versions(ApiKey.PRODUCE), kept=st.integers(0, 200))
def test_many_topics_read_in_the_same_way(message: produce.ProduceRequest, version: int, kept: int) -> None:
    many = dataclasses.replace(message, topic_data=message.topic_data[:1] * 101)
    frame = codec.encode_request(many, ApiKey.PRODUCE, version, 1, "client")[4:]
    at = codec.decode_request_header(frame).body_offset
    expected = codec.decode_request(ApiKey.PRODUCE, version, frame, at)
    assert decode_produce_request(version, memoryview(frame), at) == expected
    with contextlib.suppress(ProtocolError):
        decode_produce_request(version, memoryview(frame)[: at + kept], at)


@given(message=PRODUCE_RESPONSES, version=versions(ApiKey.PRODUCE))
def test_produce_response_is_the_general_codecs_bytes(message: produce.ProduceResponse, version: int) -> None:
    expected = codec.encode_response(message, ApiKey.PRODUCE, version, 77)
    assert encode_produce_response(message, version, 77) == expected


@given(message=FETCH_REQUESTS, version=versions(ApiKey.FETCH))
def test_fetch_request_reads_as_the_general_codec_does(message: fetch.FetchRequest, version: int) -> None:
    frame = codec.encode_request(message, ApiKey.FETCH, version, 1, "client")[4:]
    at = codec.decode_request_header(frame).body_offset
    expected = codec.decode_request(ApiKey.FETCH, version, frame, at)
    assert decode_fetch_request(version, memoryview(bytearray(frame)), at) == expected


@given(message=FETCH_RESPONSES, version=versions(ApiKey.FETCH))
def test_fetch_response_is_the_general_codecs_bytes(message: fetch.FetchResponse, version: int) -> None:
    expected = codec.encode_response(message, ApiKey.FETCH, version, 77)
    assert b"".join(encode_fetch_response(message, version, 77)) == expected


FOLLOWER_VERSIONS = st.integers(FIRST_VERSION, API[ApiKey.FETCH].max_version)


@given(message=FETCH_RESPONSES, version=FOLLOWER_VERSIONS)
def test_fetch_response_reads_as_the_general_codec_does(message: fetch.FetchResponse, version: int) -> None:
    frame = codec.encode_response(message, ApiKey.FETCH, version, 77)[4:]
    expected = codec.decode_response(ApiKey.FETCH, version, frame)
    assert decode_fetch_response(version, memoryview(bytearray(frame))) == expected


def test_records_of_a_fetch_response_are_slices_of_the_frame() -> None:
    data = fetch.PartitionData(partition_index=1, records=b"abcdef")
    response = fetch.FetchResponse(responses=(fetch.FetchableTopicResponse(topic="t", partitions=(data,)),))
    frame = bytearray(codec.encode_response(response, ApiKey.FETCH, 12, 1)[4:])
    records: Any = decode_fetch_response(12, memoryview(frame))[1].responses[0].partitions[0].records
    records[0:1] = b"X"
    assert b"Xbcdef" in frame


def test_an_error_code_of_a_newer_leader_is_an_unknown_error() -> None:
    frame = codec.encode_response(fetch.FetchResponse(), ApiKey.FETCH, 16, 1)[4:]
    changed = memoryview(frame[:9] + b"\x7f\x00" + frame[11:])
    assert decode_fetch_response(16, changed)[1].error_code is ErrorCode.UNKNOWN_SERVER_ERROR


@given(body=st.binary(max_size=60), version=FOLLOWER_VERSIONS)
def test_garbage_is_a_protocol_error_for_a_follower(body: bytes, version: int) -> None:
    with contextlib.suppress(ProtocolError):
        decode_fetch_response(version, memoryview(body))


@pytest.mark.parametrize("version", [12, 13, 16, 18])
def test_every_cut_of_a_fetch_response_is_refused(version: int) -> None:
    data = fetch.PartitionData(
        partition_index=1,
        records=b"abcdef",
        aborted_transactions=(fetch.AbortedTransaction(producer_id=1, first_offset=2),),
        diverging_epoch=fetch.EpochEndOffset(epoch=1, end_offset=2),
    )
    topic = fetch.FetchableTopicResponse(topic="t", topic_id=uuid.UUID(int=700), partitions=(data,))
    node = fetch.NodeEndpoint(node_id=1, host="h", port=2, rack="r")
    message = fetch.FetchResponse(responses=(topic,), node_endpoints=(node,))
    frame = codec.encode_response(message, ApiKey.FETCH, version, 1)[4:]
    for end in range(len(frame)):
        with pytest.raises(ProtocolError):
            decode_fetch_response(version, memoryview(frame[:end]))


def test_an_empty_tag_is_left_out_also_if_it_is_not_the_default_object() -> None:
    def encoded(partition: fetch.PartitionData) -> bytes:
        topic = fetch.FetchableTopicResponse(partitions=(partition,))
        parts = encode_fetch_response(fetch.FetchResponse(responses=(topic,)), 16, 1)
        return b"".join(map(bytes, parts))

    made = fetch.PartitionData(
        diverging_epoch=fetch.EpochEndOffset(),
        current_leader=fetch.LeaderIdAndEpoch(),
        snapshot_id=fetch.SnapshotId(),
    )
    assert encoded(made) == encoded(fetch.PartitionData())
    known = fetch.PartitionData(current_leader=fetch.LeaderIdAndEpoch(leader_id=1))
    assert len(encoded(known)) > len(encoded(made))


def test_record_bytes_of_a_fetch_response_are_not_copied() -> None:
    records = bytes(1000)
    data = fetch.PartitionData(partition_index=1, records=records)
    response = fetch.FetchResponse(responses=(fetch.FetchableTopicResponse(topic="t", partitions=(data,)),))
    assert any(buffer is records for buffer in encode_fetch_response(response, 12, 1))


def test_records_of_a_produce_request_are_slices_of_the_frame() -> None:
    message = produce.ProduceRequest(
        topic_data=(
            produce.TopicProduceData(
                name="t", partition_data=(produce.PartitionProduceData(index=0, records=b"abcdef"),)
            ),
        )
    )
    frame = bytearray(codec.encode_request(message, ApiKey.PRODUCE, 9, 1, None)[4:])
    at = codec.decode_request_header(frame).body_offset
    records: Any = decode_produce_request(9, memoryview(frame), at).topic_data[0].partition_data[0].records
    records[0:1] = b"X"
    assert b"Xbcdef" in frame


@given(body=st.binary(max_size=60), version=versions(ApiKey.PRODUCE))
def test_garbage_is_a_protocol_error_for_produce(body: bytes, version: int) -> None:
    with contextlib.suppress(ProtocolError):
        decode_produce_request(version, memoryview(bytearray(body)), 0)


@given(body=st.binary(max_size=60), version=versions(ApiKey.FETCH))
def test_garbage_is_a_protocol_error_for_fetch(body: bytes, version: int) -> None:
    with contextlib.suppress(ProtocolError):
        decode_fetch_request(version, memoryview(bytearray(body)), 0)


@pytest.mark.parametrize("version", [3, 9, 13])
def test_every_cut_of_a_produce_request_is_refused(version: int) -> None:
    data = produce.PartitionProduceData(index=0, records=b"abcdef")
    topic = produce.TopicProduceData(name="t", topic_id=None, partition_data=(data,))
    message = produce.ProduceRequest(transactional_id="x", acks=-1, timeout_ms=5, topic_data=(topic,))
    frame = codec.encode_request(message, ApiKey.PRODUCE, version, 1, None)[4:]
    at = codec.decode_request_header(frame).body_offset
    for end in range(at, len(frame)):
        with pytest.raises(ProtocolError):
            decode_produce_request(version, memoryview(bytearray(frame[:end])), at)


def test_a_lying_array_count_is_refused_before_anything_is_built() -> None:
    body = b"\xff\xff" + b"\x00\x01" + b"\x00\x00\x00\x05" + b"\x7f\xff\xff\xff"
    with pytest.raises(ProtocolError, match="cannot fit"):
        decode_produce_request(3, memoryview(bytearray(body)), 0)


def test_messages_stay_complete() -> None:
    """A field added to a message by the generator must be thought of here too."""
    names = {field.name for field in dataclasses.fields(fetch.PartitionData)}
    assert names == {
        "partition_index", "error_code", "high_watermark", "last_stable_offset", "log_start_offset",
        "diverging_epoch", "current_leader", "snapshot_id", "aborted_transactions", "preferred_read_replica",
        "records",
    }  # fmt: skip
