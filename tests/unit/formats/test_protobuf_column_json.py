"""Lines of JSON from Protobuf columns: the same texts as of single messages."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("google.protobuf")

from kcli.formats.codec import Value
from kcli.formats.protobuf import columns as columns_module
from kcli.formats.protobuf.codec import protobuf_codec
from kcli.formats.protobuf.column_json import LineDecoder
from kcli.formats.protobuf.json_text import to_json
from kcli.formats.protobuf.language import parse
from kcli.formats.protobuf.messages import message_type

SCHEMA = """
syntax = "proto3"; package p;
message M {
  double d = 7; float f = 8; int64 i64 = 9; bytes b = 10; E e = 12; optional int32 o = 13; repeated N n = 14;
  oneof x { string y = 15; int32 z = 16; N on = 100; E oe = 101; } repeated int32 ri = 17; repeated string rs = 18;
  uint64 u64 = 20; repeated double rd = 23; N one = 25; bool bo = 26; repeated E re = 27; Empty empty = 29;
  uint32 u32 = 31; string some_name = 3; repeated bool rb = 37; optional bool ob = 38; repeated bytes rbytes = 39;
  enum E { A = 0; B = 1; C = -5; }
  message Empty {}
}
message N { string q = 1; optional int32 i = 2; repeated N2 more = 3; }
message N2 { int64 a = 1; }
"""
MESSAGE = message_type(parse(SCHEMA, {}, is_new=True))
VALUES: list[dict[str, Value]] = [
    {},
    {"d": 1e10, "f": 0.1, "i64": -5, "b": b"\xff\x00", "e": "B", "o": 0, "bo": True, "ob": False},
    {"d": float("nan"), "f": float("-inf"), "u64": 2**64 - 1, "u32": 2**32 - 1, "rd": [1.5, -0.0, 1e-7]},
    {
        "n": [{"q": "\u00e9<>&='\"\\\n\u2028\x7f\U0001f600"}, {"i": 7, "more": [{"a": 1}, {}]}, {}],
        "y": "text",
    },
    {"on": {"q": "1"}, "one": {}, "empty": {}, "ri": [1, -2], "rs": ["a", "", "<"], "re": ["B", "C", "A"]},
    {"z": 0, "some_name": "plain", "rb": [True, False], "rbytes": [b"", b"x"]},
    {"oe": "C"},
]
ODD = [b"\x60\x09", b"\xda\x01\x02\x07\x01", b"\x1a\x01\xff", b"\x38", b"\xa8\x06\x09"]
"""Enums without a name, a string that is not UTF-8, and an incomplete field."""


@pytest.fixture(autouse=True)
def by_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns_module, "FEW_VALUES", 0)


def test_the_lines_are_those_of_single_messages() -> None:
    encode = protobuf_codec(MESSAGE).encode
    payloads = [*map(encode, VALUES), *ODD]
    found = LineDecoder(MESSAGE).decode([b"\0" + payload for payload in payloads], 1)
    for payload, line in zip(payloads, found, strict=True):
        if payload in ODD[2:4]:
            assert line is None, "the library refuses this message"
        else:
            assert line == to_json(MESSAGE.FromString(payload))
    assert LineDecoder(MESSAGE).decode([None, b"\0"], 1) == [None, found[0]]
    assert LineDecoder(MESSAGE).decode([], 1) == []


@pytest.mark.parametrize(
    "members",
    [
        "map<string, int32> m = 1;",
        "M again = 1;",
        "google.protobuf.Timestamp at = 1;",
        "repeated google.protobuf.StringValue s = 1;",
        "google.protobuf.NullValue n = 1;",
        "Inner i = 2; message Inner { google.protobuf.Any a = 1; }",
    ],
)
def test_other_messages_have_no_lines_by_columns(members: str) -> None:
    imports = "".join(
        f'import "google/protobuf/{name}.proto";' for name in ("timestamp", "wrappers", "struct", "any")
    )
    parsed = parse(f'syntax = "proto3"; {imports} message M {{ {members} }}', {}, is_new=True)
    assert not LineDecoder(message_type(parsed)).is_possible


def test_a_default_of_proto2_is_printed_by_the_library() -> None:
    parsed = parse('syntax = "proto2"; message M { optional int32 a = 1 [default = 5]; }', {}, is_new=True)
    assert not LineDecoder(message_type(parsed)).is_possible
    repeated = parse(
        'syntax = "proto2"; message M { repeated int32 a = 1 [packed = true]; }', {}, is_new=True
    )
    assert LineDecoder(message_type(repeated)).decode([b"\x0a\x02\x01\x02"], 0) == ['{"a":[1,2]}']
