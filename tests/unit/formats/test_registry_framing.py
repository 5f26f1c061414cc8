"""The wire format of a registry's serializers, judged by confluent-kafka's own class."""

from __future__ import annotations

import io
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.formats.codec import FormatError
from kcli.formats.registry.framing import (
    KEY_HEADER,
    PATH_MAX,
    VALUE_HEADER,
    Framed,
    UnknownMagicByte,
    framed,
    guid_prefix,
    header_of,
    id_prefix,
    path_bytes,
    read_path,
)

GUID = uuid.UUID("0f8fad5b-d9cb-469f-a165-70867728950e")


def test_a_prefix_names_the_schema_by_id_or_by_guid() -> None:
    assert framed(b"\0\0\0\x01\x02xyz") == Framed(258, b"xyz")
    assert framed(b"\x01" + GUID.bytes + b"xyz") == Framed(GUID, b"xyz")
    assert framed(b"\0\0\0\0\x07") == Framed(7, b""), "an empty record has no bytes"


def test_a_header_takes_precedence_over_a_prefix() -> None:
    raw = b"\0\0\0\0\x05value"
    headers = [("trace", b"1"), (VALUE_HEADER, guid_prefix(GUID) + b"\x02\x02")]
    assert framed(raw, headers) == Framed(GUID, raw, b"\x02\x02")
    assert framed(raw, headers, is_key=True) == Framed(5, b"value")
    assert framed(b"v", [(KEY_HEADER, guid_prefix(GUID))], is_key=True) == Framed(GUID, b"v", b"")
    assert framed(raw, [(VALUE_HEADER, None)]) == Framed(5, b"value"), "a null header says nothing"
    assert header_of(is_key=True) == KEY_HEADER and header_of(is_key=False) == VALUE_HEADER


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "it is empty"),
        (b'{"id": 1}', r"it begins with 0x7b \(JSON\)"),
        (b"\0\0\0\x01", "it begins with 0x00"),
        (b"\x01short", "it begins with 0x01"),
        (b"\x02\0\0\0\x01", "it begins with 0x02"),
    ],
)
def test_a_value_without_a_prefix_is_named(raw: bytes, reason: str) -> None:
    with pytest.raises(
        UnknownMagicByte, match=f"^Unknown magic byte! The value has no registry prefix: {reason}"
    ):
        framed(raw)


@pytest.mark.parametrize("content", [b"", b"\x01", b"\x02" + GUID.bytes, b"\x01" + GUID.bytes[:15]])
def test_a_header_without_a_guid_is_refused(content: bytes) -> None:
    with pytest.raises(UnknownMagicByte, match="The header __value_schema_id has no guid"):
        framed(b"\0\0\0\0\x05value", [(VALUE_HEADER, content)])


PATHS = st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=PATH_MAX)


@given(PATHS, st.binary(max_size=5))
def test_every_path_is_read_as_it_was_written(path: list[int], rest: bytes) -> None:
    assert read_path(path_bytes(path) + rest) == (tuple(path), len(path_bytes(path)))


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=6), st.integers(0, 2**31 - 1))
def test_the_judge_writes_and_reads_the_same_bytes(path: list[int], schema_id: int) -> None:
    from confluent_kafka.schema_registry.serde import SchemaId

    judge = SchemaId("PROTOBUF", schema_id, str(GUID), path)
    assert judge.id_to_bytes() == id_prefix(schema_id) + path_bytes(path)
    assert judge.guid_to_bytes() == guid_prefix(GUID) + path_bytes(path)
    other = SchemaId("PROTOBUF")
    other.from_bytes(io.BytesIO(id_prefix(schema_id) + path_bytes(path)))
    assert (other.id, other.message_indexes) == (schema_id, path)


def test_the_first_message_type_has_a_short_path() -> None:
    assert path_bytes((0,)) == b"\0"
    assert read_path(b"\0rest") == ((0,), 1)
    assert read_path(b"\x02\0rest") == ((0,), 2), "the long form is read too"


@pytest.mark.parametrize(
    "raw", [b"", b"\x02", b"\x04\x02", b"\x80", b"\x80" * 11, b"\x01", b"\xca\x01", b"\x02\x01"]
)
def test_invalid_paths_are_refused(raw: bytes) -> None:
    with pytest.raises(FormatError, match=r"path of (the|its) message type"):
        read_path(raw)
