"""Keys that cut and mask texts of chosen columns, or add their types to the schema."""

from __future__ import annotations

import pytest

from kcli.config.definition import ConfigError
from kcli.connectors.cdc.catalog import TableFacts
from kcli.connectors.cdc.column_rules import ColumnType, changed_type, is_rule, parse_rules
from kcli.connectors.cdc.field_types import value_type
from kcli.connectors.cdc.naming import Naming
from kcli.connectors.cdc.pgoutput import Column, Missing, Relation
from kcli.connectors.cdc.tables import TableChoice, build_table
from kcli.connectors.cdc.value_types import DOMAIN, ENUM, Modes, TypeInfo, ValueType

VARCHAR, MOOD = TypeInfo("varchar"), TypeInfo("mood", ENUM, labels=("sad", "ok"))
UNLIMITED = str(2**31 - 1)


def changed(config: dict[str, str], info: TypeInfo, modifier: int = -1, column: str = "c") -> ValueType:
    type = value_type(info, modifier, Modes())
    return changed_type(parse_rules(config), "s.t", column, ColumnType(info, modifier), type)


def test_a_text_is_cut() -> None:
    cut = {"column.truncate.to.2.chars": "s\\.t\\.c"}
    type = changed(cut, VARCHAR)
    assert [type.convert(text) for text in ("a", "abc", "é\U0001f600x")] == ["a", "ab", "é"]
    assert (type.schema.parameters, type.unavailable) == ({"truncateLength": "2"}, "__")
    assert changed(cut, TypeInfo("uuid")).convert("a0ee") == "a0"
    assert changed(cut, TypeInfo("bytea")).convert("\\xdeadbeef") == b"\xde\xad"
    assert changed(cut, TypeInfo("int4")).convert("123") == 123
    # A value that is never longer needs no rule.
    assert changed(cut, VARCHAR, 2 + 4).schema.parameters is None
    assert changed(cut, VARCHAR, column="d").schema.parameters is None


def test_a_mask_hides_texts_and_nulls(caplog: pytest.LogCaptureFixture) -> None:
    for info, modifier in ((VARCHAR, -1), (TypeInfo("bpchar"), 9), (TypeInfo("text"), -1), (MOOD, -1)):
        type = changed({"column.mask.with.3.chars": "S\\.T\\..*"}, info, modifier)
        assert (type.convert("secret"), type.null, type.fallback, type.unavailable) == ("***",) * 4
        assert (type.schema.parameters or {})["masked"] == "true"
    assert changed({"column.mask.with.0.chars": "s.t.c"}, VARCHAR).convert("secret") == ""
    assert not caplog.messages
    type = changed({"column.mask.with.3.chars": "s.t.c"}, TypeInfo("uuid"))
    assert (type.convert("a0"), type.schema.parameters) == ("a0", {"masked": "true"})
    assert caplog.messages == ["c is not masked, because masks change only characters, and not uuid"]


@pytest.mark.parametrize(
    ("key", "text", "hashed"),
    [
        ("hash.SHA-256.with.salt.abc", "k1", "993f020037"),
        ("hash.SHA-256.with.salt.abc", "é\U0001f600x", "836d088ce5"),
        ("hash.v2.MD5.with.salt.s.alt", "k1", "b3f94e5ec7"),
        ("hash.v2.md5.with.salt.s.alt", "é\U0001f600x", "d5391c7fb7"),
    ],
)
def test_a_hash_is_as_long_as_its_column(key: str, text: str, hashed: str) -> None:
    type = changed({f"column.mask.{key}": "s.t.c"}, VARCHAR, 10 + 4)
    assert (type.convert(text), type.null) == (hashed, None)
    assert len(str(changed({f"column.mask.{key}": "s.t.c"}, VARCHAR).convert(text))) in (32, 64)
    assert changed({f"column.mask.{key}": "s.t.c"}, TypeInfo("int4")).convert("5") == 5
    assert len(str(changed({f"column.mask.{key}": "s.t.c"}, VARCHAR).convert("x" * 70_000))) in (32, 64)


SIZES = [
    ("int2", -1, "5", "0"), ("int8", -1, "19", "0"), ("bool", -1, "1", "0"), ("float4", -1, "8", "8"),
    ("numeric", (5 << 16 | 2) + 4, "5", "2"), ("numeric", -1, "131089", "0"), ("money", -1, UNLIMITED, "0"),
    ("varchar", 24, "20", "0"), ("bpchar", 5, "1", "0"), ("text", -1, UNLIMITED, "0"), ("bit", 5, "5", "0"),
    ("varbit", -1, UNLIMITED, "0"), ("timestamp", -1, "29", "6"), ("timestamp", 0, "22", "0"),
    ("timestamp", 3, "26", "3"), ("timestamptz", 2, "31", "2"), ("time", 3, "12", "3"), ("timetz", 1, "17", "1"),
    ("date", -1, "13", "0"), ("interval", -1, "49", "6"), ("interval", 0x7FFF_0002, "49", "2"),
    ("jsonb", -1, UNLIMITED, "0"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "modifier", "length", "scale"), SIZES)
def test_the_schema_has_the_type_of_the_column(name: str, modifier: int, length: str, scale: str) -> None:
    type = changed({"column.propagate.source.type": "s.t.c"}, TypeInfo(name), modifier)
    parameters = type.schema.parameters or {}
    assert {key: value for key, value in parameters.items() if key.startswith("__debezium")} == {
        "__debezium.source.column.type": name.upper(), "__debezium.source.column.length": length,
        "__debezium.source.column.scale": scale, "__debezium.source.column.name": "c",
    }  # fmt: skip


def test_columns_are_chosen_by_their_types() -> None:
    config = {"datatype.propagate.source.type": "s\\.t\\.mood, s\\.t\\._varchar,s.t.price"}
    array = TypeInfo("_varchar", item=VARCHAR)
    price = TypeInfo("price", DOMAIN, base=TypeInfo("numeric"), base_modifier=(7 << 16 | 2) + 4)
    for info, modifier, shown in (
        (MOOD, -1, ("MOOD", UNLIMITED)),
        (array, 8, ("_VARCHAR", "4")),
        (price, -1, ("PRICE", "7")),
    ):
        parameters = changed(config, info, modifier).schema.parameters or {}
        assert tuple(parameters[f"__debezium.source.column.{name}"] for name in ("type", "length")) == shown
    assert changed(config, VARCHAR).schema.parameters is None


def test_the_first_rule_holds() -> None:
    config = {
        "column.propagate.source.type": ".*", "column.mask.with.1.chars": "s.t.[mc]",
        "column.truncate.to.1.chars": "s.t.c",
        "name": "x",
    }  # fmt: skip
    shown = [changed(config, VARCHAR, column=column).schema.parameters or {} for column in "cmx"]
    assert [sorted(parameters)[0] for parameters in shown] == [
        "truncateLength", "masked", "__debezium.source.column.length"
    ]  # fmt: skip


def test_rows_are_masked_and_keys_are_not() -> None:
    relation = Relation(1, "s", "t", "d", (Column("id", True, 1043, -1), Column("note", False, 1043, -1)))
    facts = TableFacts(frozenset({"id", "note"}), ("id",), {"note": "'x'"})
    rules = parse_rules({"column.mask.with.2.chars": ".*"})
    choice = TableChoice(Naming("shop"), lambda *_: True, lambda _: True, lambda _: None, Modes(), rules)
    table = build_table(relation, facts, lambda oid: VARCHAR, choice)
    for raw in (b"secret", None, Missing.UNCHANGED):
        assert table.widened((b"1", raw)) is table
        assert table.row((b"1", raw)).values == ["**", "**"]
    key = table.key((b"1", None))
    assert key is not None and key.values == ["1"]
    note = table.row_schema.fields[1].schema
    assert (note.default, note.parameters, note.optional) == ("x", {"masked": "true"}, False)


@pytest.mark.parametrize(
    "key",
    ["column.mask.hash.CRC32.with.salt.x", "column.mask.with.1000001.chars", "column.truncate.to.3.chars"],
)
def test_invalid_rules_are_refused(key: str) -> None:
    assert is_rule(key)
    with pytest.raises(ConfigError, match="configuration column"):
        parse_rules({key: "(" if "truncate" in key else "s.t.c"})
