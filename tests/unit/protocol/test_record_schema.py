from __future__ import annotations

from typing import Annotated
from uuid import UUID

import pytest

from kcli.errors import CorruptRecordError, UnsupportedVersionException
from kcli.model.ids import ZERO_ID
from kcli.protocol.fields import Int8, Int16, Int32, Int64, UInt16, only, since, tag
from kcli.protocol.records.schema import NEVER_FLEXIBLE, camel_case, decode, encode, record, to_json


@record()
class Inner:
    number: Int16 = 0


@record(versions=(0, 3), flexible_since=2)
class Sample:
    name: str = ""
    note: str | None = None
    tagged_number: Annotated[Int32, since(2, ignorable=True), tag(1)] = -1
    small: Int8 = 0
    port: UInt16 = 0
    when: Int64 = 0
    ratio: float = 0.0
    yes: bool = False
    id: UUID = ZERO_ID
    maybe_id: UUID | None = None
    raw: bytes = b""
    maybe_raw: bytes | None = None
    numbers: tuple[Int32, ...] = ()
    maybe_numbers: tuple[Int32, ...] | None = None
    inner: Inner = Inner()
    inners: tuple[Inner, ...] = ()
    maybe_inner: Inner | None = None
    later: Annotated[Int32, since(1)] = 7
    once: Annotated[Int32, only(1)] = -1
    tagged_inner: Annotated[Inner | None, since(2), tag(0)] = None
    odd: Annotated[Inner | None, since(3), tag(2, absent=Inner(number=5))] = None


FULL = Sample(
    name="naïve",
    note="n",
    tagged_number=9,
    small=-2,
    port=65535,
    when=-1,
    ratio=1.5,
    yes=True,
    id=UUID(int=1),
    maybe_id=UUID(int=2),
    raw=b"\x00\xff",
    maybe_raw=b"",
    numbers=(1, -1),
    maybe_numbers=(),
    inner=Inner(number=3),
    inners=(Inner(number=1), Inner(number=2)),
    maybe_inner=Inner(number=4),
    later=8,
    tagged_inner=Inner(number=6),
    odd=Inner(number=7),
)


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_values_come_back_at_every_version(version: int) -> None:
    plain = Sample(name="x")
    assert decode(Sample, version, encode(plain, version)) == plain
    if version == 3:
        assert decode(Sample, version, encode(FULL, version)) == FULL


def test_flexible_and_older_versions_have_kafkas_bytes() -> None:
    @record(versions=(0, 1), flexible_since=1)
    class Small:
        text: str | None = None
        numbers: tuple[Int16, ...] = ()
        extra: Annotated[Int8, since(1, ignorable=True), tag(3)] = 0

    value = Small(text="ab", numbers=(1,), extra=5)
    assert encode(value, 0).hex() == "00026162000000010001"
    assert encode(value, 1).hex() == "03616202000101030105"
    assert encode(Small(), 0).hex() == "ffff00000000"
    assert encode(Small(), 1).hex() == "000100"


def test_tagged_fields_ascend_and_stay_away_at_their_default() -> None:
    both = encode(Sample(tagged_number=9, tagged_inner=Inner(number=6)), 2)
    # Count 2; tag 0, size 4: present, number 6, no tags; tag 1, size 4: 9.
    assert both.endswith(bytes.fromhex("02000401000600010400000009"))
    assert encode(Sample(), 2).endswith(b"\x00")


def test_a_null_struct_is_minus_one_but_zero_inside_a_tag() -> None:
    @record()
    class Plain:
        inner: Inner | None = None

    @record()
    class Tagged:
        inner: Annotated[Inner | None, tag(0, absent=Inner())] = None

    assert encode(Plain(), 0).hex() == "ff00"
    assert encode(Plain(inner=Inner(number=1)), 0).hex() == "0100010000"
    assert encode(Tagged(), 0).hex() == "01000100"
    assert decode(Tagged, 0, bytes.fromhex("01000100")) == Tagged(inner=None)
    assert decode(Tagged, 0, b"\x00") == Tagged(inner=Inner())
    assert encode(Tagged(inner=Inner()), 0) == b"\x00"


def test_unknown_tags_are_passed_over() -> None:
    @record()
    class Empty:
        pass

    assert decode(Empty, 0, bytes.fromhex("010902abcd")) == Empty()


def test_a_zero_uuid_is_a_value_if_the_field_is_not_nullable() -> None:
    decoded = decode(Sample, 0, encode(Sample(maybe_id=None), 0))
    assert decoded.id == ZERO_ID
    assert decoded.maybe_id is None


def test_fields_a_version_lacks_are_refused_or_dropped() -> None:
    with pytest.raises(UnsupportedVersionException, match="non-default later of Sample"):
        encode(Sample(later=8), 0)
    assert decode(Sample, 0, encode(Sample(tagged_number=3, once=4), 0)) == Sample()
    assert decode(Sample, 1, encode(Sample(once=4), 1)).once == 4


def test_unknown_versions_are_refused() -> None:
    with pytest.raises(UnsupportedVersionException, match="Version 4 of Sample is not known; 0 to 3 are"):
        encode(Sample(), 4)
    with pytest.raises(UnsupportedVersionException):
        decode(Sample, -1, b"")


def test_broken_bytes_are_corrupt() -> None:
    whole = encode(FULL, 3)
    for length in range(len(whole)):
        with pytest.raises(CorruptRecordError):
            decode(Sample, 3, whole[:length])
    with pytest.raises(CorruptRecordError, match="garbage"):
        decode(Sample, 3, whole + b"\x00")
    assert decode(Sample, 3, whole + b"\x00", exact=False) == FULL
    with pytest.raises(CorruptRecordError, match="serialized as null"):
        decode(Sample, 0, b"\xff\xff")
    with pytest.raises(CorruptRecordError, match="a length of 32767"):
        decode(Sample, 0, b"\x7f\xff")


def test_wrong_values_name_the_field() -> None:
    with pytest.raises(TypeError, match=r"Sample\.port"):
        encode(Sample(port=-1), 0)


def test_json_follows_kafkas_order_and_names() -> None:
    node = to_json(FULL, 2)
    assert list(node)[:6] == ["name", "note", "taggedNumber", "small", "port", "when"]
    assert node["id"] == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert node["raw"] == "AP8="
    assert node["inners"] == [{"number": 1}, {"number": 2}]
    assert "once" not in node and "odd" not in node
    assert "taggedNumber" not in to_json(Sample(), 2)
    assert to_json(Sample(), 2)["maybeInner"] is None


def test_json_names_are_camel_case() -> None:
    assert camel_case("k_raft_version") == "kRaftVersion"


def test_never_flexible_keys_have_no_tags() -> None:
    @record(flexible_since=NEVER_FLEXIBLE)
    class Key:
        group: str = ""

    assert encode(Key(group="g"), 0).hex() == "000167"
