"""The columns that are inferred from JSON values; no Spark needed."""

from __future__ import annotations

import json

import pytest

from kcli.spark.jobs.shared.errors import JobError

pytest.importorskip("pyspark")

from kcli.spark.jobs.records.column_names import renamed
from kcli.spark.jobs.records.json_schema import MAX_COLUMNS, MAX_DEPTH, inferred

ORDERS = [b'{"user":"u%d","amount":%d}' % (nth % 3, nth) for nth in range(20)]


def columns(*values: bytes) -> str:
    return inferred(values).simpleString().removeprefix("struct<").removesuffix(">")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("1", "bigint"),
        ("-9223372036854775808", "bigint"),
        ("9223372036854775808", "decimal(20,0)"),
        ("1" * 38, "decimal(38,0)"),
        ("1" * 39, "double"),
        ("1.5", "double"),
        ("1e400", "double"),
        ("true", "boolean"),
        ('"x"', "string"),
        ("null", "string"),
        ("{}", "string"),
        ("[]", "array<string>"),
        ("[null,1]", "array<bigint>"),
        ('[1,"x"]', "array<string>"),
        ('{"b":{"c":[{"d":1}]}}', "struct<b:struct<c:array<struct<d:bigint>>>>"),
    ],
)
def test_types_are_those_of_spark(text: str, kind: str) -> None:
    assert columns(b'{"a":%s}' % text.encode()) == f"a:{kind}"


@pytest.mark.parametrize(
    "poison",
    [
        b"[1]",
        b'[{"z":1}]',
        b"5",
        b'"x"',
        b"null",
        b"",
        b"no JSON",
        b'{"amount":NaN}',
        b'{"amount":-Infinity}',
        b'{"z":"\xff"}',
        b'{"amount":"x"}',
        b'{"amount":[1]}',
        b'{"user":{"z":1}}',
        b'{"amount":' + b"9" * 5000 + b"}",
        b'{"amount":' + b"[" * 50_000 + b"]" * 50_000 + b"}",
        b'{"amount":1,"amount":2}',
    ],
)
def test_one_record_does_not_change_the_columns(poison: bytes) -> None:
    for values in ([*ORDERS, poison], [poison, *ORDERS]):
        assert columns(*values) == "amount:bigint,user:string"


def test_types_that_records_disagree_about() -> None:
    assert columns(b'{"a":1}', b'{"a":2.5}', b'{"a":null}') == "a:double"
    assert columns(b'{"a":1}', b'{"a":12345678901234567890123}') == "a:decimal(23,0)"
    assert columns(b'{"a":1}', b'{"a":"x"}') == "a:string"
    assert columns(b'{"a":1}', b'{"a":2}', b'{"a":3}', b'{"a":"x"}') == "a:bigint"
    with pytest.raises(JobError, match="no JSON object"):
        columns(b"[]", b"{}")


def test_the_name_that_most_records_have_stays() -> None:
    names = renamed(inferred([*ORDERS, b'{"Amount":1,"AMOUNT":1,"_Key":1,"":2}', b'{"Amount":1}']), ["_key"])
    assert names.names == ["_empty", "_Key_2", "amount", "Amount_2", "AMOUNT_3", "user"]
    inside = renamed(inferred([b'{"l":[{"q":1},{"q":2,"Q":3}],"s":{"x":1,"X":1}}']))
    assert (
        inside.simpleString() == "struct<l:array<struct<q:bigint,Q_2:bigint>>,s:struct<X:bigint,x_2:bigint>>"
    )


def test_a_record_with_many_names_leaves_the_columns_of_the_others() -> None:
    wide = json.dumps({f"k{nth}": {"a": nth, "b": [{"c": 1}]} for nth in range(20_000)}).encode()
    nested = json.dumps({"user": {f"k{nth}": nth for nth in range(20_000)}}).encode()
    deep = b'{"z":' * 400 + b"1" + b"}" * 400
    schema = inferred([wide, wide, deep, nested, *ORDERS])
    assert {"amount", "user"} < set(schema.names)
    assert schema["user"].dataType.simpleString() == "string"
    assert sum(len(text) > 0 for text in schema.simpleString().split(":")) - 1 <= MAX_COLUMNS
    only = inferred([deep]).simpleString()
    assert (only.count("struct"), only.count("z:")) == (MAX_DEPTH, MAX_DEPTH)
