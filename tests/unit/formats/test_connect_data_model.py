"""Schemas, structs and the check of values, with the texts of Kafka Connect."""

from __future__ import annotations

import datetime as dt
import pickle
from dataclasses import replace
from decimal import Decimal

import pytest

from kcli.formats.connect.errors import (
    ConnectException,
    DataException,
    JavaException,
    SchemaBuilderException,
    java_chain,
)
from kcli.formats.connect.schema import (
    DATE_SCHEMA,
    FLOAT32_SCHEMA,
    FLOAT64_SCHEMA,
    INT8_SCHEMA,
    INT32_SCHEMA,
    INT64_SCHEMA,
    OPTIONAL_STRING_SCHEMA,
    STRING_SCHEMA,
    TIME_SCHEMA,
    TIMESTAMP_SCHEMA,
    Field,
    Schema,
    SchemaType,
    array_schema,
    check_value,
    decimal_schema,
    map_schema,
    struct_schema,
)
from kcli.formats.connect.structs import Struct
from kcli.formats.connect.values import (
    Float32,
    FrozenMap,
    Instant,
    Int8,
    Int16,
    Int32,
    Int64,
    as_key,
    java_class,
)

PERSON = struct_schema({"id": INT32_SCHEMA, "name": OPTIONAL_STRING_SCHEMA}, name="x.Person", version=1)


def refusal(schema: Schema, value: object) -> str:
    with pytest.raises(DataException) as caught:
        check_value(schema, value)
    return str(caught.value)


def test_a_struct_stores_and_returns_its_values() -> None:
    person = Struct(PERSON).put("id", 1)
    assert (person.get("id"), person.get("name"), person.values) == (1, None, [1, None])
    assert person == Struct(PERSON, {"id": Int32(1)}) != Struct(PERSON, {"id": 2})
    assert hash(person) == hash(Struct(PERSON, {"id": 1}))


def test_a_field_without_a_value_has_its_default() -> None:
    with_default = struct_schema({"n": Schema(SchemaType.INT32, default=9)})
    made = Struct(with_default)
    made.validate()
    assert (made.get("n"), made.get_without_default("n")) == (9, None)


def test_a_struct_refuses_a_value_with_the_text_of_java() -> None:
    person = Struct(PERSON)
    with pytest.raises(DataException) as wrong_class:
        person.put("id", "one")
    with pytest.raises(DataException) as unknown:
        person.put("age", 1)
    with pytest.raises(DataException) as missing:
        person.validate()
    with pytest.raises(DataException) as no_struct:
        Struct(INT8_SCHEMA)
    assert str(wrong_class.value) == (
        'Invalid Java object for schema with type INT32: class java.lang.String for field: "id"'
    )
    assert str(unknown.value) == "age is not a valid field name"
    assert str(missing.value) == 'Invalid value: null used for required field: "id", schema type: INT32'
    assert str(no_struct.value) == "Not a struct schema: Schema{INT8}"


def test_a_value_inside_a_collection_is_named_by_its_place() -> None:
    assert refusal(array_schema(INT8_SCHEMA), [1, "x"]) == (
        "Invalid Java object for schema with type INT8: class java.lang.String for element of array value"
    )
    assert refusal(map_schema(STRING_SCHEMA, INT8_SCHEMA), {1: 1}) == (
        "Invalid Java object for schema with type STRING: class java.lang.Long for key of map value"
    )
    assert refusal(map_schema(STRING_SCHEMA, INT8_SCHEMA), {"a": None}) == (
        "Invalid value: null used for required value of map value, schema type: INT8"
    )
    assert refusal(Schema(SchemaType.ARRAY), []) == "No schema defined for element of array value"


def test_a_logical_type_has_its_own_classes_and_its_name_in_the_text() -> None:
    assert check_value(decimal_schema(2), Decimal("1.50")) == Decimal("1.50")
    assert refusal(TIMESTAMP_SCHEMA, 5) == (
        'Invalid Java object for schema "org.apache.kafka.connect.data.Timestamp" with type INT64: '
        "class java.lang.Long for value"
    )


def test_a_plain_number_fits_each_type_of_its_range_and_a_typed_number_only_its_own() -> None:
    assert check_value(INT8_SCHEMA, 127) == 127
    assert "class java.lang.Long" in refusal(INT8_SCHEMA, 128)
    assert "class java.lang.Integer" in refusal(INT64_SCHEMA, Int32(1))
    assert "class java.lang.Long" in refusal(INT32_SCHEMA, Int64(1))
    assert "class java.lang.Boolean" in refusal(INT32_SCHEMA, True)
    assert "class java.lang.Float" in refusal(FLOAT64_SCHEMA, Float32(0.5))
    assert "class java.lang.Long" in refusal(FLOAT64_SCHEMA, 1)
    assert type(check_value(FLOAT32_SCHEMA, 0.1)) is Float32


def test_dates_of_python_become_instants() -> None:
    moment = dt.datetime(2024, 2, 29, 1, 2, 3, 4999, tzinfo=dt.timezone(dt.timedelta(hours=1)))
    assert check_value(TIMESTAMP_SCHEMA, moment) == Instant(1709164923004)
    assert check_value(DATE_SCHEMA, dt.date(1970, 1, 2)) == Instant(86_400_000)
    assert check_value(TIME_SCHEMA, dt.time(0, 0, 1)) == Instant(1000)
    days = check_value(array_schema(DATE_SCHEMA), [dt.date(1970, 1, 1)])
    assert days == [Instant(0)] and isinstance(days, list) and type(days[0]) is Instant
    assert Instant(1709164923004).datetime == moment.replace(microsecond=4000)


def test_an_unchanged_collection_is_not_copied() -> None:
    names, ages = ["a"], {"a": 1}
    assert check_value(array_schema(STRING_SCHEMA), names) is names
    assert check_value(map_schema(STRING_SCHEMA, INT8_SCHEMA), ages) is ages


def test_schemas_are_equal_if_all_their_parts_are() -> None:
    again = struct_schema({"id": INT32_SCHEMA, "name": OPTIONAL_STRING_SCHEMA}, name="x.Person", version=1)
    assert again == PERSON and hash(again) == hash(PERSON)
    for other in (replace(PERSON, doc="d"), replace(PERSON, optional=True), replace(PERSON, version=2)):
        assert other != PERSON
    assert array_schema(INT8_SCHEMA) != array_schema(INT32_SCHEMA)
    assert Schema(SchemaType.INT8, parameters={"a": "b"}) == Schema(SchemaType.INT8, parameters={"a": "b"})
    assert pickle.loads(pickle.dumps(PERSON)) == PERSON


def test_a_schema_names_itself_and_finds_its_fields() -> None:
    assert (str(PERSON), str(INT8_SCHEMA)) == ("Schema{x.Person:STRUCT}", "Schema{INT8}")
    assert PERSON.field("id") == Field("id", INT32_SCHEMA) and PERSON.field("x") is None
    with pytest.raises(DataException, match="Cannot look up fields on non-struct type"):
        INT8_SCHEMA.field("x")


def test_a_schema_that_cannot_be_built_is_refused() -> None:
    one = Field("a", INT8_SCHEMA)
    with pytest.raises(SchemaBuilderException, match="field name duplication a"):
        Schema(SchemaType.STRUCT, fields=(one, one))
    with pytest.raises(SchemaBuilderException, match="Cannot create fields on type INT8"):
        Schema(SchemaType.INT8, fields=(one,))
    with pytest.raises(SchemaBuilderException, match="fieldName cannot be null"):
        Schema(SchemaType.STRUCT, fields=(Field("", INT8_SCHEMA),))
    with pytest.raises(SchemaBuilderException) as caught:
        Schema(SchemaType.INT8, default="x")
    assert java_chain(caught.value) == [
        ("org.apache.kafka.connect.errors.SchemaBuilderException", "Invalid default value"),
        (
            "org.apache.kafka.connect.errors.DataException",
            "Invalid Java object for schema with type INT8: class java.lang.String for value",
        ),
    ]


def test_a_struct_with_other_fields_does_not_fit() -> None:
    outside = struct_schema({"in": PERSON})
    other = Struct(replace(PERSON, version=2), {"id": 1})
    with pytest.raises(DataException, match=r"^Struct schemas do not match\.$"):
        Struct(outside, {"in": other})
    Struct(outside, {"in": Struct(PERSON, {"id": 1})})


def test_a_struct_can_be_a_default() -> None:
    bare = struct_schema({"b": INT8_SCHEMA})
    assert replace(bare, default=Struct(bare, {"b": 1})).default == Struct(bare, {"b": 1})


def test_lists_and_maps_can_be_keys_of_maps() -> None:
    key = as_key({"a": [1, 2]})
    assert key == FrozenMap({"a": (1, 2)}) and len({key, as_key({"a": [1, 2]})}) == 1
    assert check_value(map_schema(array_schema(INT8_SCHEMA), STRING_SCHEMA), {(1, 2): "x"})


def test_each_value_has_the_name_of_its_java_class() -> None:
    values = (1, Int8(1), Int16(1), True, b"", memoryview(b""), [], {}, None, Instant(0), Struct(PERSON), {1})
    assert [java_class(value) for value in values] == [
        "java.lang.Long",
        "java.lang.Byte",
        "java.lang.Short",
        "java.lang.Boolean",
        "[B",
        "java.nio.HeapByteBuffer",
        "java.util.ArrayList",
        "java.util.LinkedHashMap",
        "null",
        "java.util.Date",
        "org.apache.kafka.connect.data.Struct",
        "builtins.set",
    ]


def test_the_chain_of_an_error_has_the_classes_of_java() -> None:
    error = ConnectException("outer")
    error.__cause__ = JavaException("java.lang.IllegalStateException", "inner")
    error.__cause__.__cause__ = ZeroDivisionError("bottom")
    assert java_chain(error) == [
        ("org.apache.kafka.connect.errors.ConnectException", "outer"),
        ("java.lang.IllegalStateException", "inner"),
        ("builtins.ZeroDivisionError", "bottom"),
    ]
