"""Frames: headers, versions, and bytes that are not Kafka's."""

from __future__ import annotations

import struct
import uuid

import pytest

from kcli.errors import ErrorCode, ProtocolError
from kcli.model.pace import at_once, no_pause
from kcli.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kcli.protocol.messages.fetch import FetchRequest
from kcli.protocol.messages.join_group import JoinGroupRequest
from kcli.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kcli.protocol.messages.produce import ProduceRequest
from kcli.protocol.wire.api import API, ApiKey
from kcli.protocol.wire.codec import (
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from kcli.protocol.wire.fetch_codec import decode_fetch_request
from kcli.protocol.wire.packing import TAGS_MAX, read_request_header
from kcli.protocol.wire.produce_codec import decode_produce_request


def test_plain_request_header_is_byte_exact() -> None:
    frame = encode_request(MetadataRequest(topics=None), ApiKey.METADATA, 1, 5, "me")
    assert frame == bytes.fromhex("00000010 0003 0001 00000005 0002 6d65 ffffffff")


def test_flexible_request_header_keeps_the_plain_client_id() -> None:
    frame = encode_request(ApiVersionsRequest(client_software_name="a", client_software_version="b"),
                           ApiKey.API_VERSIONS, 3, 1, "c")  # fmt: skip
    assert frame == bytes.fromhex("00000011 0012 0003 00000001 0001 63 00 0261 0262 00")


def test_null_client_id() -> None:
    frame = encode_request(MetadataRequest(), ApiKey.METADATA, 12, 1, None)
    assert decode_request_header(frame[4:]).client_id is None


def test_api_versions_response_never_has_header_tags() -> None:
    response = ApiVersionsResponse(api_keys=(ApiVersion(api_key=18, min_version=0, max_version=4),))
    frame = encode_response(response, ApiKey.API_VERSIONS, 3, 9)
    assert frame[4:8] == struct.pack(">i", 9)
    assert frame[8:10] == b"\0\0", "error code follows the correlation id at once"
    assert decode_response(ApiKey.API_VERSIONS, 3, frame[4:]) == (9, response)


def test_unknown_key_still_has_a_header() -> None:
    header = decode_request_header(struct.pack(">hhih", 999, 7, 3, -1))
    assert (header.api_key, header.api_version, header.correlation_id) == (999, 7, 3)


def test_fields_of_other_versions_keep_their_defaults() -> None:
    frame = encode_request(
        JoinGroupRequest(group_id="g", reason="why", session_timeout_ms=10), ApiKey.JOIN_GROUP, 0, 1, ""
    )
    header = decode_request_header(frame[4:])
    request = decode_request(ApiKey.JOIN_GROUP, 0, frame[4:], header.body_offset)
    assert request == JoinGroupRequest(group_id="g", session_timeout_ms=10)


def test_topic_ids_and_names_share_one_message() -> None:
    topic = MetadataRequestTopic(topic_id=uuid.UUID(int=5 << 64), name=None)
    frame = encode_request(MetadataRequest(topics=(topic,)), ApiKey.METADATA, 13, 1, "")
    header = decode_request_header(frame[4:])
    assert decode_request(ApiKey.METADATA, 13, frame[4:], header.body_offset).topics == (topic,)


def test_error_codes_are_ours() -> None:
    frame = encode_response(
        MetadataResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED), ApiKey.METADATA, 13, 1
    )
    assert decode_response(ApiKey.METADATA, 13, frame[4:])[1].error_code is ErrorCode.REBOOTSTRAP_REQUIRED


@pytest.mark.parametrize("size", [0, 1, 7, 9])
def test_short_headers_are_refused(size: int) -> None:
    with pytest.raises(ProtocolError, match="request header"):
        decode_request_header(b"\0" * size)


def test_client_id_longer_than_the_frame() -> None:
    with pytest.raises(ProtocolError, match="client id"):
        decode_request_header(struct.pack(">hhih", 3, 1, 1, 500) + b"abc")


def test_many_header_tags_are_refused() -> None:
    frame = struct.pack(">hhih", 18, 3, 1, -1) + b"\xff\x7f"
    with pytest.raises(ProtocolError, match="tags"):
        decode_request_header(frame)


def test_unknown_tags_of_a_request_are_dropped_and_have_a_limit() -> None:
    """CVE-2026-111115: Kafka keeps unknown tags, without a limit of their number."""
    frame = encode_request(MetadataRequest(topics=()), ApiKey.METADATA, 9, 1, "c")[4:]
    offset = decode_request_header(frame).body_offset
    assert frame.endswith(b"\x00"), "the number of tags"
    one = frame[:-1] + b"\x01" + b"\x64\x03abc"
    assert decode_request(ApiKey.METADATA, 9, one, offset) == decode_request(
        ApiKey.METADATA, 9, frame, offset
    )
    tags = b"".join(encode_varint(100 + number) + b"\x00" for number in range(TAGS_MAX + 1))
    many = frame[:-1] + encode_varint(TAGS_MAX + 1) + tags
    with pytest.raises(ProtocolError):
        decode_request(ApiKey.METADATA, 9, many, offset)


def encode_varint(number: int) -> bytes:
    return bytes([number & 0x7F | 0x80, number >> 7]) if number > 0x7F else bytes([number])


def test_every_truncation_of_a_request_is_a_protocol_error() -> None:
    frame = encode_request(FetchRequest(rack_id="here"), ApiKey.FETCH, 16, 1, "c")[4:]
    offset = decode_request_header(frame).body_offset
    for end in range(offset, len(frame)):
        with pytest.raises(ProtocolError, match="Fetch v16 request is malformed"):
            decode_request(ApiKey.FETCH, 16, frame[:end], offset)


def test_an_error_does_not_quote_python() -> None:
    produce = encode_request(ProduceRequest(), ApiKey.PRODUCE, 12, 1, "c")[4:]
    fetch = encode_request(FetchRequest(), ApiKey.FETCH, 16, 1, "c")[4:]
    for read, message in (
        (lambda: read_request_header(fetch[:5]), "Error parsing request header: it ends too early"),
        (
            lambda: at_once(decode_produce_request(12, produce[:-1], 12, no_pause)),
            "Produce v12 request is malformed: it ends too early",
        ),
        (
            lambda: at_once(decode_fetch_request(16, fetch[:-1], 12, no_pause)),
            "Fetch v16 request is malformed: it ends too early",
        ),
        (
            lambda: decode_request(ApiKey.FETCH, 4, fetch[:14], 12),
            "Fetch v4 request is malformed: it ends too early",
        ),
    ):
        with pytest.raises(ProtocolError) as error:
            read()
        assert str(error.value) == message


def test_negative_array_length_is_not_a_crash() -> None:
    body = struct.pack(">i", -2)
    try:
        decode_request(ApiKey.METADATA, 1, body, 0)
    except ProtocolError:
        return
    pytest.fail("an array of -2 topics was accepted")


def test_response_frames_round_trip_for_every_api() -> None:
    from kcli.protocol.wire.codec import message_class

    for spec in API.values():
        for version in range(spec.min_version, spec.max_version + 1):
            empty = message_class(spec.key, "response")()
            frame = encode_response(empty, spec.key, version, 3)
            assert struct.unpack_from(">i", frame)[0] == len(frame) - 4
            assert decode_response(spec.key, version, frame[4:]) == (3, empty)
