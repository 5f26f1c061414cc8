"""The converters of numbers, booleans, bytes and texts."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal

import pytest

from kcli.connectors.builtin import CONVERTER
from kcli.formats.connect.converter import Converter, GeneralConverter
from kcli.formats.connect.errors import DataException, SerializationException, java_chain
from kcli.formats.connect.primitives import (
    BooleanConverter,
    ByteArrayConverter,
    DoubleConverter,
    FloatConverter,
    IntegerConverter,
    LongConverter,
    ShortConverter,
)
from kcli.formats.connect.registry_converter import RegistryConverter
from kcli.formats.connect.schema import (
    BOOLEAN_SCHEMA,
    INT32_SCHEMA,
    OPTIONAL_INT32_SCHEMA,
    STRING_SCHEMA,
    struct_schema,
)
from kcli.formats.connect.string_converter import StringConverter
from kcli.formats.connect.structs import Struct
from kcli.formats.connect.values import Float32, Float64, Instant, Int8, Int16, Int32, Int64
from rigs.connect_notation import built_in

DATA = "org.apache.kafka.connect.errors.DataException"
SERIALIZATION = "org.apache.kafka.common.errors.SerializationException"


def refusal(converter: GeneralConverter, data: bytes) -> list[tuple[str, str]]:
    with pytest.raises(DataException) as caught:
        converter.to_connect("t", data)
    return java_chain(caught.value)


@pytest.mark.parametrize(
    ("kind", "value", "typed", "data"),
    [
        (ShortConverter, -2, Int16(-2), b"\xff\xfe"),
        (IntegerConverter, 5, Int32(5), b"\0\0\0\5"),
        (LongConverter, 2**40, Int64(2**40), b"\0\0\1\0\0\0\0\0"),
        (FloatConverter, 1.5, Float32(1.5), b"\x3f\xc0\0\0"),
        (DoubleConverter, 1.5, Float64(1.5), b"\x3f\xf8\0\0\0\0\0\0"),
    ],
)
def test_a_number_is_big_endian(
    kind: type[GeneralConverter], value: float, typed: object, data: bytes
) -> None:
    converter = kind()
    assert converter.from_connect("t", None, value) == converter.from_connect("t", None, typed) == data
    schema, back = converter.to_connect("t", data)
    assert back == value and schema is not None and schema.optional
    assert converter.from_connect("t", None, None) is None
    assert converter.to_connect("t", None).value is None


def test_a_number_of_another_class_is_refused() -> None:
    with pytest.raises(DataException) as caught:
        IntegerConverter().from_connect("t", None, Int8(1))
    assert java_chain(caught.value)[0] == (
        DATA,
        "Failed to serialize to integer (was class java.lang.Byte): ",
    )
    assert java_chain(caught.value)[1][0] == "java.lang.ClassCastException"
    with pytest.raises(DataException, match=r"was class java\.lang\.Long"):
        ShortConverter().from_connect("t", None, 2**15)


def test_bytes_of_another_length_are_refused() -> None:
    assert refusal(ShortConverter(), b"\1") == [
        (DATA, "Failed to deserialize short: "),
        (SERIALIZATION, "Size of data received by ShortDeserializer is not 2"),
    ]
    assert refusal(DoubleConverter(), b"\1")[1] == (
        SERIALIZATION,
        "Size of data received by Deserializer is not 8",
    )


def test_a_boolean_is_one_byte() -> None:
    converter = BooleanConverter()
    assert [converter.from_connect("t", BOOLEAN_SCHEMA, value) for value in (True, False, None)] == [
        b"\1",
        b"\0",
        None,
    ]
    assert [converter.to_connect("t", data).value for data in (b"\1", b"\0", None)] == [True, False, None]
    assert refusal(converter, b"\xff")[1][1] == "Unexpected byte received by BooleanDeserializer: -1"
    assert refusal(converter, b"")[1][1] == "Size of data received by BooleanDeserializer is not 1"
    with pytest.raises(DataException, match="Invalid schema type for BooleanConverter: INT32"):
        converter.from_connect("t", INT32_SCHEMA, True)
    with pytest.raises(DataException, match=r"not compatible with objects of type class java\.lang\.Long"):
        converter.from_connect("t", None, 1)


def test_bytes_pass_as_they_are() -> None:
    converter = ByteArrayConverter()
    assert converter.from_connect("t", None, memoryview(b"\0\1")) == b"\0\1"
    assert converter.to_connect("t", b"\0\1").value == b"\0\1"
    with pytest.raises(DataException, match=r"not compatible with objects of type class java\.lang\.String"):
        converter.from_connect("t", None, "x")
    with pytest.raises(DataException, match="Invalid schema type for ByteArrayConverter: STRING"):
        converter.from_connect("t", STRING_SCHEMA, b"x")


def string(**config: str) -> StringConverter:
    converter = StringConverter()
    converter.configure({key.replace("_", "."): value for key, value in config.items()})
    return converter


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("é", "é"),
        (True, "true"),
        (Int8(5), "5"),
        (1e21, "1.0E21"),
        (Float32.of(0.1), "0.1"),
        (Decimal("12.30"), "12.30"),
        (Decimal("-0"), "0"),
        ([1, None, "a"], "[1, null, a]"),
        ({"a": 1.0, "b": [True]}, "{a=1.0, b=[true]}"),
        (
            Struct(struct_schema({"a": INT32_SCHEMA, "n": OPTIONAL_INT32_SCHEMA, "b": STRING_SCHEMA})),
            "Struct{}",
        ),
        (Struct(struct_schema({"a": INT32_SCHEMA}), {"a": 1}), "Struct{a=1}"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (memoryview(b"abc"), "java.nio.HeapByteBuffer[pos=0 lim=3 cap=3]"),
    ],
)
def test_a_value_is_written_as_its_text_in_java(value: object, text: str) -> None:
    assert string().from_connect("t", None, value) == text.encode()


def test_the_text_of_an_array_of_bytes_is_its_class_and_a_hash() -> None:
    data = string().from_connect("t", None, b"x")
    assert data is not None and data.startswith(b"[B@")


def test_a_date_is_written_with_the_zone_of_the_process() -> None:
    data = string().from_connect("t", None, Instant(1709168523004))
    assert data is not None and data.decode().startswith(("Wed Feb 28 ", "Thu Feb 29 "))
    assert data.endswith(b" 2024")
    moment = dt.datetime(2024, 2, 29, 1, 2, 3, 4000)
    assert string().from_connect("t", None, [moment]) == b"[" + data + b"]"


def test_invalid_utf8_becomes_replacement_characters() -> None:
    assert string().to_connect("t", b"a\xff").value == "a\ufffd"
    assert string().from_connect("t", None, "\ud800") == b"?"


def test_the_encoding_is_a_charset_of_java() -> None:
    assert string(converter_encoding="ISO-8859-1").from_connect("t", None, "hé€") == b"h\xe9?"
    assert string(converter_encoding="UTF-16").from_connect("t", None, "é") == b"\xfe\xff\0\xe9"
    assert string(converter_encoding="UTF-16").from_connect("t", None, "") == b""
    assert string(converter_encoding="UTF-16").to_connect("t", b"\xff\xfea\0").value == "a"
    assert string(converter_encoding="UTF-16").to_connect("t", b"\0a").value == "a"
    assert string(converter_encoding="UTF-32").from_connect("t", None, "a") == b"\0\0\0a"
    assert string(converter_encoding="UTF-32").to_connect("t", b"\0\0\0a").value == "a"
    own = string(converter_encoding="UTF-8", value_serializer_encoding="US-ASCII")
    assert own.from_connect("t", None, "é") == b"?" and own.to_connect("t", "é".encode()).value == "é"


@pytest.mark.parametrize(
    ("name", "java_class"),
    [
        ("klingon", "UnsupportedCharsetException"),
        ("rot13", "UnsupportedCharsetException"),
        ("utf-7", "UnsupportedCharsetException"),
        ("UTF 8", "IllegalCharsetNameException"),
    ],
)
def test_an_unknown_charset_is_refused(name: str, java_class: str) -> None:
    with pytest.raises(SerializationException) as caught:
        string(converter_encoding=name)
    assert java_chain(caught.value) == [
        (SERIALIZATION, f"Unsupported encoding {name}"),
        (f"java.nio.charset.{java_class}", name),
    ]


@pytest.mark.parametrize("kind", built_in(CONVERTER).values())
def test_each_converter_declares_its_keys_and_converts_headers(kind: type[Converter]) -> None:
    assert "converter.type" in kind.config_def and kind.java_class is not None
    for name, key in kind.config_def.items():
        assert key.documentation, f"{name} of {kind.__name__} needs a documentation"
    if issubclass(kind, RegistryConverter):
        return  # the headers have no subject, so these converters are for keys and values
    assert issubclass(kind, GeneralConverter)
    converter = kind()
    converter.configure({})
    data = converter.from_connect_header("t", "h", None, None)
    assert data is None and converter.to_connect_header("t", "h", data).value is None
    converter.close()
