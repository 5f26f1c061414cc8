"""Defaults of columns, from the expressions that PostgreSQL shows."""

from __future__ import annotations

from decimal import Decimal

import pytest

from kcli.connectors.cdc.defaults import field_default
from kcli.connectors.cdc.field_types import value_type
from kcli.connectors.cdc.value_types import BASE, DOMAIN, ENUM, Modes, TypeInfo

NUMERIC_5_2 = (5 << 16 | 2) + 4
ZEROS = "00000000-0000-0000-0000-000000000000"

CASES = [
    ("int4", -1, "5", 5),
    ("int4", -1, "'-5'::integer", -5),
    ("int4", -1, "(2 + 3)", None),
    ("int8", -1, "'99999999999'::bigint", 99_999_999_999),
    ("int8", -1, "nextval('sq'::regclass)", 0),
    ("oid", -1, "3", None),
    ("float8", -1, "2.5", 2.5),
    ("numeric", NUMERIC_5_2, "1.5", Decimal("1.50")),
    ("numeric", -1, "1.5", None),
    ("money", -1, "12.5", None),
    ("bool", -1, "false", False),
    ("bpchar", 9, "'ab'::bpchar", "ab"),
    ("varchar", 24, "'v''q'::character varying", "v'q"),
    ("text", -1, "''::text", ""),
    ("text", -1, r"E'a\\b'::text", r"a\b"),
    ("text", -1, "NULL::text", None),
    ("text", -1, "upper('x'::text)", ""),
    ("text", -1, "('a'::text || 'b'::text)", None),
    ("text", -1, "CURRENT_USER", None),
    ("bytea", -1, r"'\xde'::bytea", None),
    ("timestamp", 3, "'2020-01-02 03:04:05.678'::timestamp without time zone", 1_577_934_245_678),
    ("timestamp", -1, "now()", 0),
    ("timestamp", -1, "CURRENT_TIMESTAMP", 0),
    ("timestamptz", -1, "'2020-01-02 03:04:05+00'::timestamp with time zone", "2020-01-02T03:04:05.000000Z"),
    ("timestamptz", -1, "now()", "1970-01-01T00:00:00.000000Z"),
    ("date", -1, "'2020-01-02'::date", 18_263),
    ("date", -1, "CURRENT_DATE", 0),
    ("time", -1, "'03:04:05'::time without time zone", 11_045_000_000),
    ("time", -1, "CURRENT_TIME", 0),
    ("timetz", -1, "'03:04:05+01'::time with time zone", None),
    ("interval", -1, "'P1D'::interval", 86_400_000_000),
    ("uuid", -1, f"'{ZEROS[:-1]}1'::uuid", f"{ZEROS[:-1]}1"),
    ("uuid", -1, "gen_random_uuid()", ZEROS),
    ("jsonb", -1, """'{"a": 1}'::jsonb""", '{"a": 1}'),
    ("bit", 1, "'1'::\"bit\"", True),
    ("bit", 4, "B'1010'::\"bit\"", b"\x0a"),
    ("inet", -1, "'1.2.3.4'::inet", None),
    ("point", -1, "'(1,2)'::point", None),
]


@pytest.mark.parametrize(("name", "modifier", "expression", "value"), CASES)
def test_the_default_of_a_column(name: str, modifier: int, expression: str, value: object) -> None:
    assert default_of(TypeInfo(name, BASE), modifier, expression) == value


def test_enums_have_defaults_and_domains_and_arrays_have_none() -> None:
    assert default_of(TypeInfo("mood", ENUM, labels=("sad", "ok")), -1, "'ok'::mood") == "ok"
    assert default_of(TypeInfo("posint", DOMAIN, base=TypeInfo("int4")), -1, "9") is None
    assert default_of(TypeInfo("_int4", item=TypeInfo("int4")), -1, "'{1,2}'::integer[]") is None
    assert default_of(TypeInfo("int4"), -1, None) is None


def test_a_long_expression_takes_little_time() -> None:
    assert default_of(TypeInfo("text"), -1, "'x'::" + "a " * 100_000 + "!") is None
    assert default_of(TypeInfo("text"), -1, "a" * 100_000 + "!") is None


def test_a_number_as_a_text_has_the_scale_of_its_column() -> None:
    modes = Modes(decimal_handling="string")
    for modifier, default in ((NUMERIC_5_2, "1.50"), (-1, "1.5")):
        kind = value_type(TypeInfo("numeric"), modifier, modes)
        assert field_default(TypeInfo("numeric"), "1.5", kind) == default
        assert kind.convert("NaN") == "NaN"


def default_of(info: TypeInfo, modifier: int, expression: str | None) -> object:
    return field_default(info, expression, value_type(info, modifier, Modes()))
