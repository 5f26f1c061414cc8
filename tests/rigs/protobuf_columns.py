"""A Protobuf schema with a field of every kind of column, and values of it."""

from __future__ import annotations

import datetime

from kcli.formats.codec import Value

SCHEMA = """
syntax = "proto3";
package p;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/any.proto";
import "google/protobuf/wrappers.proto";
message M {
  google.protobuf.Timestamp at = 1; google.protobuf.Duration span = 2; google.protobuf.Struct plain = 3;
  google.protobuf.Any any = 4; google.protobuf.Int64Value wrapped = 5; google.protobuf.Value json_value = 6;
  double d = 7; float f = 8; int64 i64 = 9; bytes b = 10; map<int32, string> m = 11; E e = 12; optional int32 o = 13;
  repeated N n = 14; oneof x { string y = 15; int32 z = 16; N on = 100; } repeated int32 ri = 17;
  repeated string rs = 18; M rec = 19; uint64 u64 = 20; sint32 s32 = 21; repeated sint64 rs64 = 22;
  repeated double rd = 23; map<string, N> mn = 24; N one = 25; bool bo = 26; repeated E re = 27; fixed32 f32 = 28;
  Empty empty = 29; int32 i32 = 30; uint32 u32 = 31; sint64 s64 = 32; fixed64 f64 = 33; sfixed32 sf32 = 34;
  sfixed64 sf64 = 35; string s = 36; repeated bool rb = 37; repeated fixed32 rf = 38;
  repeated google.protobuf.Timestamp times = 39; repeated google.protobuf.StringValue texts = 40;
  enum E { A = 0; B = 1; C = -5; }
  message Empty {}
}
message N { string q = 1; optional int32 i = 2; }
message Old { int32 i32 = 30; }
"""

VALUES: dict[str, Value] = {
    "at": datetime.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=datetime.UTC),
    "span": datetime.timedelta(seconds=-1.5),
    "plain": {"a": [1.0, None, {"b": True}]},
    "any": {"@type": "type.googleapis.com/p.N", "q": "x"},
    "wrapped": 0,
    "json_value": "<s>",
    "d": 1e10,
    "f": 0.5,
    "i64": -5,
    "b": b"\xff",
    "m": [(1, "x"), (-2, "é")],
    "e": "B",
    "o": 0,
    "n": [{"q": "é"}, {"i": 7}, {}],
    "z": 4,
    "ri": [1, -2, 300],
    "rs": ["a", "", "ccc"],
    "rec": {"o": 4},
    "u64": 2**64 - 1,
    "s32": -7,
    "rs64": [1, -1, 2**62],
    "rd": [1.5, -0.0],
    "mn": [("k", {"q": "z"})],
    "one": {"i": 0},
    "bo": True,
    "re": ["B", "C", "A"],
    "f32": 2**32 - 1,
    "empty": {},
    "i32": -1,
    "u32": 2**32 - 1,
    "s64": -(2**63),
    "f64": 2**64 - 1,
    "sf32": -(2**31),
    "sf64": -(2**63),
    "s": "tëxt",
    "rb": [True, False],
    "rf": [1, 2**32 - 1],
    "times": [datetime.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.UTC)],
    "texts": ["", "a"],
}


def comparable(value: object) -> object:
    """Returns a value in which NaN equals itself, and the entries of a map have one order."""
    match value:
        case dict():
            return {name: comparable(one) for name, one in value.items()}
        case [(_, _), *_] as entries if all(isinstance(entry, tuple) for entry in entries):
            return sorted((comparable(entry) for entry in entries), key=repr)
        case list() | tuple():
            return [comparable(one) for one in value]
        case float():
            return repr(value)
        case _:
            return value
