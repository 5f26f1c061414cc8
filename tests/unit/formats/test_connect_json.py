"""The converter of JSON: its envelope, its values, and the errors of Kafka Connect."""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
from collections import OrderedDict
from dataclasses import replace
from decimal import Decimal

import pytest

from kcli.config.definition import ConfigError
from kcli.formats.connect import json_converter
from kcli.formats.connect.converter import NULL, SchemaAndValue
from kcli.formats.connect.errors import (
    ConnectException,
    DataException,
    JavaException,
    SchemaBuilderException,
    java_chain,
)
from kcli.formats.connect.json_converter import JsonConverter
from kcli.formats.connect.schema import (
    DATE_SCHEMA,
    FLOAT32_SCHEMA,
    FLOAT64_SCHEMA,
    INT8_SCHEMA,
    INT32_SCHEMA,
    INT64_SCHEMA,
    OPTIONAL_INT32_SCHEMA,
    OPTIONAL_STRING_SCHEMA,
    STRING_SCHEMA,
    TIME_SCHEMA,
    TIMESTAMP_SCHEMA,
    Schema,
    SchemaType,
    array_schema,
    decimal_schema,
    map_schema,
    struct_schema,
)
from kcli.formats.connect.structs import Struct
from kcli.formats.connect.values import Float32, FrozenMap, Instant, Int32, Int64

BYTES = Schema(SchemaType.BYTES)
BOOLEAN = Schema(SchemaType.BOOLEAN)
LONG = "x" * 100
MAP_OF_BYTES = '{"type":"map","keys":{"type":"string"},"values":{"type":"int8"}}'
PERSON = struct_schema({"id": INT32_SCHEMA, "name": OPTIONAL_STRING_SCHEMA}, name="x.Person", version=1)


def converter(**config: str) -> JsonConverter:
    made = JsonConverter()
    made.configure({key.replace("_", "."): value for key, value in config.items()})
    return made


def plain(**config: str) -> JsonConverter:
    return converter(schemas_enable="false", **config)


def text(schema: Schema | None, value: object, made: JsonConverter | None = None) -> str:
    data = (made or plain()).from_connect("t", schema, value)
    assert data is not None
    return data.decode()


def read(json_text: str, made: JsonConverter | None = None) -> SchemaAndValue:
    return (made or plain()).to_connect("t", json_text.encode())


def payload(schema: str, value: str, made: JsonConverter | None = None) -> object:
    return read(f'{{"schema":{schema},"payload":{value}}}', made or converter()).value


def refusal(schema: str, value: str) -> str:
    with pytest.raises(ConnectException) as caught:
        payload(schema, value)
    return str(caught.value)


def test_an_envelope_has_the_schema_in_the_order_of_java() -> None:
    schema = replace(PERSON, doc="d", parameters={"p": "1"})
    written = text(schema, Struct(schema, {"id": 7}), converter())
    assert written == (
        '{"schema":{"type":"struct","fields":[{"type":"int32","optional":false,"field":"id"},'
        '{"type":"string","optional":true,"field":"name"}],"optional":false,"name":"x.Person","version":1,"doc":"d",'
        '"parameters":{"p":"1"}},"payload":{"id":7,"name":null}}'
    )
    assert read(written, converter()) == (schema, Struct(schema, {"id": 7}))


def test_null_without_a_schema_is_a_tombstone_and_null_with_a_schema_is_not() -> None:
    for made in (plain(), converter()):
        assert made.from_connect("t", None, None) is None
        assert made.to_connect("t", None) is NULL
    assert text(OPTIONAL_STRING_SCHEMA, None) == "null"
    assert text(None, 1, converter()) == '{"schema":null,"payload":1}'
    assert read('{"schema":null,"payload":[1]}', converter()) == (None, [1])


@pytest.mark.parametrize(
    ("schema", "value", "written"),
    [
        (INT8_SCHEMA, -128, "-128"),
        (INT64_SCHEMA, Int64(2**62), "4611686018427387904"),
        (FLOAT64_SCHEMA, 1e16, "1.0E16"),
        (FLOAT64_SCHEMA, math.nan, '"NaN"'),
        (FLOAT64_SCHEMA, -math.inf, '"-Infinity"'),
        (FLOAT32_SCHEMA, 0.1, "0.1"),
        (FLOAT32_SCHEMA, Float32(1.5), "1.5"),
        (BOOLEAN, True, "true"),
        (STRING_SCHEMA, 'é"\\/\n\x1f\x7f', '"é\\"\\\\/\\n\\u001F\x7f"'),
        (STRING_SCHEMA, "\\u001f😀", '"\\\\u001f\\uD83D\\uDE00"'),
        (STRING_SCHEMA, "\ud800", '"\\uD800"'),
        (BYTES, b"\0\1", '"AAE="'),
        (BYTES, memoryview(b"\0\1"), '"AAE="'),
        (array_schema(INT8_SCHEMA), (1, 2), "[1,2]"),
        (map_schema(STRING_SCHEMA, INT8_SCHEMA), {"a": 1, "b": 2}, '{"a":1,"b":2}'),
        (map_schema(OPTIONAL_STRING_SCHEMA, INT8_SCHEMA), {None: 1}, '{"null":1}'),
        (map_schema(INT8_SCHEMA, STRING_SCHEMA), {1: "a"}, '[[1,"a"]]'),
        (struct_schema({"100%": INT8_SCHEMA}), Struct(struct_schema({"100%": INT8_SCHEMA}), {"100%": 1}), '{"100%":1}'),
        (decimal_schema(2), Decimal("-1.50"), '"/2o="'),
        (DATE_SCHEMA, Instant(86_400_000), "1"),
        (DATE_SCHEMA, dt.date(1970, 1, 2), "1"),
        (TIME_SCHEMA, Instant(1), "1"),
        (TIMESTAMP_SCHEMA, Instant(-1), "-1"),
        (Schema(SchemaType.INT8, default=5), None, "5"),
        (None, {"a": [1, 1.5, None, {"b": b"x"}]}, '{"a":[1,1.5,null,{"b":"eA=="}]}'),
        (None, {1: 2}, "[[1,2]]"),
        (None, [Float32.of(0.1), Int32(1), True], "[0.1,1,true]"),
        (None, OrderedDict(a=SchemaType.INT8), '{"a":"int8"}'),
    ],
)  # fmt: skip
def test_a_value_is_written(schema: Schema | None, value: object, written: str) -> None:
    assert text(schema, value) == written


def test_decimals_can_be_numbers() -> None:
    numeric = plain(decimal_format="numeric")
    assert text(decimal_schema(2), Decimal("1.500"), numeric) == "1.500"
    assert text(decimal_schema(2), Decimal("1E+3"), numeric) == "1E+3"
    assert text(decimal_schema(0), Decimal("-0"), numeric) == "0"


def test_null_stays_null_if_defaults_replace_nothing() -> None:
    keeps = plain(replace_null_with_default="false")
    with_default = Schema(SchemaType.INT32, optional=True, default=5)
    assert text(with_default, None, keeps) == "null"
    schema = '{"type":"int32","optional":true,"default":5}'
    assert payload(schema, "null", converter(replace_null_with_default="false")) is None
    assert payload(schema, "null") == 5


@pytest.mark.parametrize(
    ("schema", "value", "reason"),
    [
        (INT32_SCHEMA, "x", "Invalid type for INT32: class java.lang.String"),
        (INT32_SCHEMA, 2**31, "Invalid type for INT32: class java.lang.Long"),
        (INT32_SCHEMA, Int64(1), "Invalid type for INT32: class java.lang.Long"),
        (INT64_SCHEMA, Int32(1), "Invalid type for INT64: class java.lang.Integer"),
        (STRING_SCHEMA, 1, "Invalid type for STRING: class java.lang.Long"),
        (BYTES, "x", "Invalid type for bytes type: class java.lang.String"),
        (array_schema(INT8_SCHEMA), {}, "Invalid type for ARRAY: class java.util.LinkedHashMap"),
        (map_schema(STRING_SCHEMA, INT8_SCHEMA), [], "Invalid type for MAP: class java.util.ArrayList"),
        (PERSON, {}, "Invalid type for STRUCT: class java.util.LinkedHashMap"),
        (PERSON, Struct(replace(PERSON, version=2)), "Mismatching schema."),
        (None, Struct(PERSON), "Mismatching schema."),
        (None, Decimal(1), "Java class class java.math.BigDecimal does not have corresponding schema type."),
        (None, dt.date(2024, 1, 1), "Java class class java.util.Date does not have corresponding schema type."),
        (decimal_schema(2), 1, "Invalid type for Decimal, expected BigDecimal but was class java.lang.Long"),
        (DATE_SCHEMA, 1, "Invalid type for Date, expected Date but was class java.lang.Long"),
        (INT8_SCHEMA, None, "Conversion error: null value for field that is required and has no default value"),
        (PERSON, Struct(PERSON), "Conversion error: null value for field that is required and has no default value"),
        (
            decimal_schema(2),
            Decimal("1.5"),
            "Decimal value has mismatching scale for given Decimal schema. Schema has scale 2, value has scale 1.",
        ),
        (DATE_SCHEMA, Instant(1), "Kafka Connect Date type should not have any time fields set to non-zero values."),
        (TIME_SCHEMA, Instant(-1), "Kafka Connect Time type should not have any date fields set to non-zero values."),
        (decimal_schema(2), Decimal("NaN"), "The decimal NaN is not a number"),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_is_refused(schema: Schema | None, value: object, reason: str) -> None:
    with pytest.raises(DataException) as caught:
        text(schema, value)
    assert str(caught.value) == reason


def test_a_map_without_a_schema_of_its_keys_cannot_be_written() -> None:
    with pytest.raises(JavaException) as caught:
        text(Schema(SchemaType.MAP), {})
    assert caught.value.java_class == "java.lang.NullPointerException"


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ('{"a":[1,1.5,null,"x",true]}', {"a": [1, 1.5, None, "x", True]}),
        ("9223372036854775808", -(2**63)),
        ("-0.0", 0.0),
        ("1e400", math.inf),
        ("123456789012345678901234567890.5e1", 1234567890123456789012345678905.0),
        ("007", 7),
        ('{"a":1}x', {"a": 1}),
        ("", None),
        ('"\\ud83d\\ude00"', "😀"),
    ],
)
def test_json_without_a_schema_is_read(written: str, value: object) -> None:
    schema, made = read(written)
    assert schema is None and made == value
    assert not isinstance(made, float) or math.copysign(1, made) == 1


@pytest.mark.parametrize(
    ("schema", "written", "value"),
    [
        ('{"type":"int8"}', "300", 44),
        ('{"type":"int16"}', "1.9", 1),
        ('{"type":"int32"}', '"5"', 0),
        ('{"type":"int32"}', "1e30", 1073741824),
        ('{"type":"int64"}', "9223372036854775808", -(2**63)),
        ('{"type":"float"}', "0.1", Float32.of(0.1)),
        ('{"type":"float"}', "16777217.0000000001", Float32(16777218.0)),
        ('{"type":"double"}', "1", 1.0),
        ('{"type":"double"}', "1e999", math.inf),
        ('{"type":"double"}', '"NaN"', 0.0),
        ('{"type":"double"}', "-0.0", 0.0),
        ('{"type":"boolean"}', "1", False),
        ('{"type":"string"}', "1", None),
        ('{"type":"bytes"}', '"AAE="', b"\0\1"),
        ('{"type":"bytes"}', '" AAE= eA=="', b"\0\1x"),
        ('{"type":"bytes"}', '"AB=="', b"\0"),
        ('{"type":"bytes"}', "5", None),
        ('{"type":"array","items":{"type":"int8"}}', '"x"', []),
        ('{"type":"array","items":{"type":"int8"}}', '{"a":1,"b":2}', [1, 2]),
        ('{"type":"map","keys":{"type":"string"},"values":{"type":"int8"}}', '{"a":1}', {"a": 1}),
        ('{"type":"map","keys":{"type":"int8"},"values":{"type":"int8"}}', "[[1,2]]", {1: 2}),
        (
            f'{{"type":"map","keys":{MAP_OF_BYTES},"values":{{"type":"int8"}}}}',
            '[[{"a":1},2]]',
            {FrozenMap({"a": 1}): 2},
        ),
        (
            '{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"2"}}',
            '"/2o="',
            Decimal("-1.50"),
        ),
        (
            '{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"2"}}',
            "1.500",
            Decimal("1.500"),
        ),
        ('{"type":"int32","name":"org.apache.kafka.connect.data.Date"}', "1", Instant(86_400_000)),
        ('{"type":"int32","name":"org.apache.kafka.connect.data.Time"}', "1", Instant(1)),
        ('{"type":"int64","name":"org.apache.kafka.connect.data.Timestamp"}', "-1", Instant(-1)),
    ],
)
def test_json_with_a_schema_is_read_twice_to_the_same_value(schema: str, written: str, value: object) -> None:
    made = converter()
    # The second time, the schema is known.
    for _ in range(2):
        result = payload(schema, written, made)
        assert (result, type(result)) == (value, type(value))


@pytest.mark.parametrize(
    ("schema", "written", "reason"),
    [
        ("5", "1", "Schema must contain 'type' field"),
        ('{"type":5}', "1", "Schema must contain 'type' field"),
        ('{"type":"float64"}', "1", "Unknown schema type: float64"),
        ('{"type":"int8"}', "null", "Invalid null value for required INT8 field"),
        ('{"type":"array"}', "[]", "Array schema did not specify the element type"),
        ('{"type":"map"}', "{}", "Map schema did not specify the key type"),
        ('{"type":"map","keys":null}', "{}", "Map schema did not specify the value type"),
        ('{"type":"map","keys":null,"values":null}', "{}", "keySchema cannot be null."),
        ('{"type":"struct"}', "{}", 'Struct schema\'s "fields" argument is not an array.'),
        ('{"type":"struct","fields":[1]}', "{}", "Struct schema's field name not specified properly"),
        (
            '{"type":"struct","fields":[{"type":"int8","field":"a"},{"type":"int8","field":"a"}]}',
            "{}",
            "Cannot create field because of field name duplication a",
        ),
        ('{"type":"int8","parameters":{"a":1}}', "1", "Schema parameters must have string values."),
        (
            '{"type":"map","keys":{"type":"string"},"values":{"type":"int8"}}',
            "[]",
            "Maps with string fields should be encoded as JSON objects, but found ARRAY",
        ),
        (
            '{"type":"map","keys":{"type":"int8"},"values":{"type":"int8"}}',
            "{}",
            "Maps with non-string fields should be encoded as JSON array of tuples, but found OBJECT",
        ),
        (
            '{"type":"map","keys":{"type":"int8"},"values":{"type":"int8"}}',
            "[1]",
            "Found invalid map entry instead of array tuple: NUMBER",
        ),
        (
            '{"type":"map","keys":{"type":"int8"},"values":{"type":"int8"}}',
            "[[1]]",
            "Found invalid map entry, expected length 2 but found :1",
        ),
        ('{"type":"struct","fields":[]}', "1", "Structs should be encoded as JSON objects, but found NUMBER"),
        (
            '{"type":"struct","fields":[{"type":"string","field":"a"}]}',
            '{"a":5}',
            'Invalid value: null used for required field: "a", schema type: STRING',
        ),
        (
            '{"type":"int32","name":"org.apache.kafka.connect.data.Date"}',
            "2147483648",
            "Invalid type for Date, underlying representation should be integer but was NUMBER",
        ),
        (
            '{"type":"int32","name":"org.apache.kafka.connect.data.Time"}',
            "-1",
            "Time values must use number of milliseconds greater than 0 and less than 86400000",
        ),
        (
            '{"type":"int64","name":"org.apache.kafka.connect.data.Timestamp"}',
            "true",
            "Invalid type for Timestamp, underlying representation should be integral but was BOOLEAN",
        ),
        (
            '{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"2"}}',
            "{}",
            "Invalid type for Decimal, underlying representation should be numeric or bytes but was OBJECT",
        ),
    ],
)
def test_an_invalid_envelope_is_refused(schema: str, written: str, reason: str) -> None:
    assert refusal(schema, written) == reason


@pytest.mark.parametrize("data", ["1", "{}", '{"schema":null}', '{"schema":null,"payload":1,"x":2}', ""])
def test_json_without_an_envelope_is_refused(data: str) -> None:
    with pytest.raises(DataException, match='requires "schema" and "payload" fields'):
        read(data, converter())


def test_a_default_must_fit_its_schema() -> None:
    fields = '[{"type":"int8","field":"a"}]'
    for schema in (
        f'{{"type":"struct","fields":{fields},"default":{{"a":1}}}}',
        '{"type":"string","default":1}',
    ):
        with pytest.raises(SchemaBuilderException, match="Invalid default value"):
            payload(schema, "null")
    schema, value = read('{"schema":{"type":"int8","default":300},"payload":null}', converter())
    assert (schema, value) == (Schema(SchemaType.INT8, default=44), 44)


def test_broken_json_and_broken_base64_name_their_causes() -> None:
    with pytest.raises(DataException) as caught:
        read("{")
    assert [name for name, _ in java_chain(caught.value)] == [
        "org.apache.kafka.connect.errors.DataException",
        "org.apache.kafka.common.errors.SerializationException",
        "com.fasterxml.jackson.core.io.JsonEOFException",
    ]
    with pytest.raises(DataException, match="Invalid bytes field") as broken:
        payload('{"type":"bytes"}', '"A"')
    assert java_chain(broken.value)[1][0] == "com.fasterxml.jackson.databind.exc.InvalidFormatException"
    decimal = '{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal"'
    for parameters, cause in (
        ("", "NullPointerException"),
        (',"parameters":{"scale":"2"}', "NumberFormatException"),
    ):
        with pytest.raises(DataException, match="Invalid bytes for Decimal field") as caught:
            payload(f"{decimal}{parameters}}}", '""' if parameters else '"AA=="')
        assert java_chain(caught.value)[1][0] == f"java.lang.{cause}"


def test_a_known_schema_is_used_for_its_own_records_only() -> None:
    made = converter()
    first = read(text(PERSON, Struct(PERSON, {"id": 1}), converter()), made)
    second = read(text(PERSON, Struct(PERSON, {"id": 2, "name": "b"}), converter()), made)
    assert second.schema is first.schema and second.value == Struct(PERSON, {"id": 2, "name": "b"})
    envelope = '{"schema":{"type":"int8"},"payload":'
    assert read(f"{envelope}1}}", made).value == 1
    assert read(f"{envelope} 2}}", made).value == 2
    assert read(f"{envelope}01}}", made).value == 1
    assert read(f'{envelope}1,"payload":3}} x', made).value == 3
    assert read('{"payload":4,"schema":{"type":"int8"}}', made).value == 4
    with pytest.raises(DataException):
        read(f'{envelope}1,"x":3}}', made)
    assert read('{"schema":{"type":"int8","doc":"\\"payload\\":"},"payload":5}', made).value == 5


def test_no_schema_is_remembered_without_a_cache() -> None:
    made = converter(schemas_cache_size="0")
    for number in (1, 2):
        assert payload('{"type":"int8"}', f"{number}", made) == number


def test_the_cache_has_a_limit() -> None:
    made = converter(schemas_cache_size="2")
    for number in range(5):
        assert payload(f'{{"type":"int8","version":{number}}}', f"{number}", made) == number


def test_large_schemas_are_not_remembered_without_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_converter, "_KNOWN_BYTES_MAX", 100)
    made = converter()
    for number in range(5):
        assert payload(f'{{"type":"int8","version":{number}}}', "1", made) == 1
        assert payload(f'{{"type":"int8","doc":"{LONG}"}}', f"{number}", made) == number


def test_a_value_that_is_nested_too_deeply_is_refused() -> None:
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(DataException):
        text(None, deep)
    schema = '{"type":"array","items":' * 400 + '{"type":"int8"}' + "}" * 400
    with pytest.raises(DataException):
        payload(schema, "[" * 400 + "]" * 400)


@pytest.mark.parametrize("key", ["schemas_enable", "replace_null_with_default"])
def test_a_key_with_an_invalid_value_is_refused(key: str) -> None:
    with pytest.raises(ConfigError, match="Expected value to be either true or false"):
        converter(**{key: "no"})


def test_the_bytes_are_json_for_every_reader() -> None:
    data = converter().from_connect_header("t", "h", BYTES, b"x")
    assert data is not None
    assert base64.b64decode(json.loads(data)["payload"]) == b"x"
    assert converter().to_connect_header("t", "h", data) == (BYTES, b"x")
    assert payload('{"type":"int32","optional":true}', "null") is None
    assert (
        read('{"schema":{"type":"int32","optional":true},"payload":1}', converter()).schema
        == OPTIONAL_INT32_SCHEMA
    )
