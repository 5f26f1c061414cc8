"""How keys and values are shown: honest about size, cuts and invalid bytes."""

from __future__ import annotations

import datetime
import decimal
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.console.messages import decoding
from kcli.console.messages.decoding import (
    MAX_INDENT,
    Decoder,
    Format,
    SchemaCodec,
    cut,
    indented,
    json_pieces,
)
from kcli.console.messages.limits import FULL_BYTES, PARSE_BYTES, PREVIEW_BYTES
from kcli.console.messages.record import ReadRecord
from kcli.console.messages.rows import Decoders, envelope, row
from kcli.formats.codec import FormatError, Value
from kcli.formats.registry.framing import SchemaKey


def auto(raw: bytes | None) -> dict:
    return Decoder().preview(raw).as_json()


def test_the_format_is_found_out() -> None:
    assert auto(None) == {"format": "null", "size": None}
    assert auto(b"") == {"format": "empty", "size": 0}
    assert auto(b' {"a": 1}') == {"format": "json", "size": 9, "text": ' {"a": 1}'}
    assert auto("größer".encode()) == {"format": "text", "size": 8, "text": "größer"}
    assert auto(b"{not json") == {"format": "text", "size": 9, "text": "{not json"}
    assert auto(b"\x00\x01\xff") == {"format": "hex", "size": 3, "text": "00 01 ff"}
    assert auto(b"caf\xe9")["format"] == "hex"


def test_a_large_value_is_cut_with_its_size() -> None:
    shown = auto(b"a" * 10_000_000)
    assert shown["size"] == 10_000_000 and shown["cut"] is True and len(shown["text"]) == PREVIEW_BYTES
    whole = Decoder().full(b"a" * 10_000_000).as_json()
    assert whole["cut"] is True and len(whole["text"]) == FULL_BYTES


def test_a_cut_does_not_divide_a_character() -> None:
    raw = b"a" + "ü".encode() * PREVIEW_BYTES
    shown = auto(raw)
    assert "valid" not in shown and shown["text"].endswith("ü") and len(shown["text"]) == PREVIEW_BYTES // 2


def test_invalid_bytes_in_a_text_are_reported() -> None:
    shown = Decoder(Format.TEXT).preview(b"caf\xe9").as_json()
    assert shown == {"format": "text", "size": 4, "text": "caf\ufffd", "valid": False}


def test_a_format_that_does_not_fit_has_an_error_and_the_text() -> None:
    shown = Decoder(Format.JSON).preview(b"{oops")
    assert shown.format == "text" and "not JSON" in (shown.error or "") and shown.text == "{oops"
    shown = Decoder(Format.SCHEMA).preview(b"abc")
    assert shown.format == "hex" and "no schema registry" in (shown.error or "")


def test_a_json_value_that_is_too_large_to_parse_is_a_text() -> None:
    raw = json.dumps(["x" * PARSE_BYTES]).encode()
    assert auto(raw)["format"] == "text"


def test_hex_lines_have_position_and_characters() -> None:
    text = Decoder(Format.HEX).full(b"kcli\x00" + b"\xff" * 12).text
    assert (
        text.splitlines()[0] == "00000000  6b 63 6c 69 00 ff ff ff ff ff ff ff ff ff ff ff  kcli............"
    )
    assert text.splitlines()[1].startswith("00000010  ff ")


def test_indentation_keeps_numbers_and_repeated_names() -> None:
    text = '{"a":1.10,"a":12345678901234567890,"b":[],"c":{},"d":["x, {y}", true]}'
    expected = (
        '{\n  "a": 1.10,\n  "a": 12345678901234567890,\n  "b": [],\n  "c": {},\n  "d": [\n    "x, {y}",\n'
        "    true\n  ]\n}"
    )
    assert "".join(indented(text)) == expected


@given(
    st.recursive(
        st.none() | st.floats() | st.text(),
        lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    )
)
def test_indented_json_has_the_same_meaning(tree: object) -> None:
    assert repr(json.loads("".join(indented(json.dumps(tree))))) == repr(json.loads(json.dumps(tree)))


DEEP = 100
MANY_LINES = b"[" * DEEP + b",".join([b"1"] * 100_000) + b"]" * DEEP
"""An indented line has 203 characters, so the text would have 20 MB."""


class Lines:
    """Counts the lines that are produced."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count, self._line = 0, decoding._line
        monkeypatch.setattr(decoding, "_line", self)

    def __call__(self, depth: int) -> str:
        self.count += 1
        return self._line(depth)


def test_indentation_ends_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = Lines(monkeypatch)
    shown = Decoder().full(MANY_LINES)
    assert (shown.format, shown.is_cut, len(shown.text)) == ("json", True, FULL_BYTES)
    assert lines.count <= FULL_BYTES // (2 * DEEP) + DEEP


@pytest.mark.parametrize("depth", [DEEP, DEEP * 3])
def test_indentation_by_a_schema_ends_at_the_limit(monkeypatch: pytest.MonkeyPatch, depth: int) -> None:
    lines = Lines(monkeypatch)
    raw = b"[" * depth + b",".join([b"1"] * 100_000) + b"]" * depth
    shown = Decoder(Format.AUTO, lambda id_: SchemaCodec(id_, "json", lambda raw, _: json.loads(raw))).full(
        b"\0\0\0\0\7" + raw
    )
    assert (shown.format, shown.is_cut, len(shown.text)) == ("json", True, FULL_BYTES)
    assert DEEP < lines.count <= FULL_BYTES // (2 * DEEP) + depth
    assert max(len(line) for line in shown.text.splitlines()) <= 2 * MAX_INDENT + 2


def test_no_piece_is_taken_after_the_limit() -> None:
    pieces = iter(["ab", "cd", "ef", "gh"])
    assert cut(pieces, 3) == ("abc", True)
    assert list(pieces) == ["ef", "gh"]
    assert cut(iter(["ab", "cd"]), 4) == ("abcd", False)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
        lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    )
)
def test_a_decoded_value_has_the_text_of_the_json_library(tree: Value) -> None:
    assert "".join(json_pieces(tree, is_pretty=False)) == json.dumps(tree, ensure_ascii=False)
    assert "".join(json_pieces(tree, is_pretty=True)) == json.dumps(tree, ensure_ascii=False, indent=2)


@given(st.binary(max_size=200), st.sampled_from(Format))
def test_any_bytes_can_be_shown_in_any_format(raw: bytes, form: Format) -> None:
    for shown in (Decoder(form).preview(raw), Decoder(form).full(raw)):
        assert shown.size_bytes == len(raw)
        json.dumps(shown.as_json()).encode()


def schemas(schema_id: SchemaKey) -> SchemaCodec:
    if schema_id != 7:
        raise FormatError("unknown")

    def decode(raw: bytes, _path: bytes | None) -> Value:
        if raw == b"deep":
            raise RecursionError
        return {"n": raw[0], "d": decimal.Decimal("1.50"), "t": datetime.date(2026, 1, 1), "m": [("a", 1)]}

    return SchemaCodec(7, "avro", decode)


def test_a_schema_id_selects_the_decoder() -> None:
    decoder = Decoder(Format.AUTO, schemas)
    shown = decoder.preview(b"\x00\x00\x00\x00\x07\x05").as_json()
    assert shown["format"] == "avro" and shown["schema_id"] == 7
    assert shown["text"] == '{"n": 5, "d": "1.50", "t": "2026-01-01", "m": {"a": 1}}'
    assert json.dumps(decoder.tree(b"\x00\x00\x00\x00\x07\x05"), default=str).startswith('{"n": 5')
    assert decoder.preview(b"\x00\x00\x00\x00\x08\x05").as_json()["format"] == "hex"
    with pytest.raises(ValueError, match="fit schema 7"):
        decoder.tree(b"\x00\x00\x00\x00\x07deep")


def test_a_row_has_no_more_than_fifty_headers_and_says_how_many_there_are() -> None:
    headers = tuple((f"h{n}", b"<script>alert(1)</script>") for n in range(2000))
    record = ReadRecord(partition=0, offset=1, timestamp_ms=2, headers=headers)
    shown = row(record, Decoders(Decoder(), Decoder()))
    assert len(shown["headers"]) == 50 and shown["headers_count"] == 2000


def test_an_envelope_is_read_by_the_console_producer() -> None:
    from kcli.cli.tools.console.envelope import read

    record = ReadRecord(
        partition=3, offset=9, timestamp_ms=5, key=b"\xff", value=b"v", headers=(("a", None), ("a", b"\xfe"))
    )
    parsed = read(envelope(record, "t"), 1)
    assert parsed is not None
    assert (parsed.key, parsed.value, parsed.headers) == (b"\xff", b"v", [("a", None), ("a", b"\xfe")])
    assert (parsed.partition, parsed.timestamp_ms) == (3, 5)
