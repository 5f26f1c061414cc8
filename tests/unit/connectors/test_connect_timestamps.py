"""TimestampConverter and TimestampRouter."""

from __future__ import annotations

import pytest

from kcli.formats.connect.schema import (
    BOOLEAN_SCHEMA,
    DATE_SCHEMA,
    INT64_SCHEMA,
    STRING_SCHEMA,
    TIME_SCHEMA,
    TIMESTAMP,
    TIMESTAMP_SCHEMA,
    Schema,
    SchemaType,
    struct_schema,
)
from kcli.formats.connect.structs import Struct
from kcli.formats.connect.values import Instant, Int32
from rigs.transforms import config_refusal, refusal, sink, transformation

MS = 1_700_000_000_123
LARGEST_LONG = 2**63 - 1
OPTIONAL_TIMESTAMP = Schema(SchemaType.INT64, optional=True, name=TIMESTAMP, version=1)


@pytest.mark.parametrize(
    ("value", "target", "config", "expected"),
    [
        (Instant(MS), "string", {"format": "yyyy-MM-dd HH:mm:ss.SSS"}, "2023-11-14 22:13:20.123"),
        ("2023-11-14", "unix", {"format": "yyyy-MM-dd"}, 1_699_920_000_000),
        (MS, "Date", {}, Instant(1_699_920_000_000)),
        (MS, "Time", {}, Instant(80_000_123)),
        (Instant(-1), "Date", {}, Instant(-86_400_000)),
        (-LARGEST_LONG - 1, "Date", {}, Instant(9_223_372_036_794_351_616)),
        (Instant(-1), "Time", {}, Instant(86_399_999)),
        (MS, "Timestamp", {}, Instant(MS)),
        (7, "Timestamp", {"unix_precision": "seconds"}, Instant(7000)),
        (-1999, "Timestamp", {"unix_precision": "microseconds"}, Instant(-1)),
        (Instant(-1999), "unix", {"unix_precision": "seconds"}, -1),
        (Instant(MS), "unix", {"unix_precision": "nanoseconds"}, MS * 1_000_000),
        (LARGEST_LONG, "Timestamp", {"unix_precision": "seconds"}, Instant(LARGEST_LONG)),
        (None, "unix", {}, None),
    ],
)
def test_a_date_without_a_schema_is_converted(
    value: object, target: str, config: dict[str, str], expected: object
) -> None:
    converter = transformation("TimestampConverter$Value", target_type=target, **config)
    changed = converter.apply(sink(value))
    assert changed is not None
    assert (changed.value, type(changed.value)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("schema", "value", "target", "new_schema", "expected"),
    [
        (STRING_SCHEMA, "2023-11-14", "Timestamp", TIMESTAMP_SCHEMA, Instant(1_699_920_000_000)),
        (INT64_SCHEMA, 5, "Time", TIME_SCHEMA, Instant(5)),
        (TIME_SCHEMA, Instant(5), "unix", INT64_SCHEMA, 5),
        (OPTIONAL_TIMESTAMP, None, "string", Schema(SchemaType.STRING, optional=True), None),
        (DATE_SCHEMA, Instant(0), "string", STRING_SCHEMA, "1970-01-01"),
    ],
)
def test_a_date_with_a_schema_gets_the_schema_of_its_new_form(
    schema: Schema, value: object, target: str, new_schema: Schema, expected: object
) -> None:
    converter = transformation("TimestampConverter$Value", target_type=target, format="yyyy-MM-dd")
    assert converter.apply(sink(value, schema)) == sink(expected, new_schema)


def test_one_field_of_a_struct_is_converted() -> None:
    schema = struct_schema({"at": TIMESTAMP_SCHEMA, "n": Schema(SchemaType.INT32, default=7)}, name="S")
    converter = transformation("TimestampConverter$Value", field="at", target_type="unix")
    changed = converter.apply(sink(Struct(schema, {"at": Instant(5)}), schema))
    expected = struct_schema({"at": INT64_SCHEMA, "n": Schema(SchemaType.INT32, default=7)}, name="S")
    assert changed == sink(Struct(expected, {"at": 5, "n": 7}), expected)


def test_the_default_of_a_struct_is_converted_too() -> None:
    bare = struct_schema({"at": TIMESTAMP_SCHEMA})
    schema = Schema(bare.type, default=Struct(bare, {"at": Instant(5)}), fields=bare.fields)
    converter = transformation("TimestampConverter$Value", field="at", target_type="unix")
    changed = converter.apply(sink(None, schema))
    expected = struct_schema({"at": INT64_SCHEMA})
    assert changed is not None and changed.value_schema is not None
    assert changed.value_schema.default == Struct(expected, {"at": 5})


def test_one_field_of_a_map_is_converted_and_a_missing_field_becomes_null() -> None:
    record = sink(key={"at": Instant(5)})
    there = transformation("TimestampConverter$Key", field="at", target_type="unix")
    assert there.apply(record) == sink(key={"at": 5})
    missing = transformation("TimestampConverter$Key", field="no", target_type="unix")
    assert missing.apply(record) == sink(key={"at": Instant(5), "no": None})


@pytest.mark.parametrize(
    ("value", "schema", "config", "chain"),
    [
        (
            Int32(5),
            None,
            {},
            [
                (
                    "DataException",
                    "TimestampConverter does not support class java.lang.Integer objects as timestamps",
                )
            ],
        ),
        (
            "x",
            None,
            {},
            [
                (
                    "NullPointerException",
                    'Cannot invoke "java.text.SimpleDateFormat.parse(String)" because "config.format" is null',
                )
            ],
        ),
        (
            "x",
            STRING_SCHEMA,
            {"format": "yyyy"},
            [
                ("DataException", "Could not parse timestamp: value (x) does not match pattern (yyyy)"),
                ("ParseException", 'Unparseable date: "x"'),
            ],
        ),
        (
            None,
            BOOLEAN_SCHEMA,
            {},
            [
                (
                    "ConnectException",
                    "Schema Schema{BOOLEAN} does not correspond to a known timestamp type format",
                )
            ],
        ),
        (
            "x",
            TIMESTAMP_SCHEMA,
            {},
            [
                (
                    "DataException",
                    "Expected Timestamp to be a java.util.Date, but found class java.lang.String",
                )
            ],
        ),
        (
            5,
            STRING_SCHEMA,
            {},
            [("DataException", "Expected string timestamp to be a String, but found class java.lang.Long")],
        ),
        (
            Int32(5),
            INT64_SCHEMA,
            {},
            [("DataException", "Expected Unix timestamp to be a Long, but found class java.lang.Integer")],
        ),
    ],
)
def test_a_value_that_is_no_date_is_refused(
    value: object, schema: Schema | None, config: dict[str, str], chain: list[tuple[str, str]]
) -> None:
    record = sink(value, schema)
    assert refusal("TimestampConverter$Value", record, target_type="unix", **config) == chain


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"target_type": "string", "format": " "},
            "TimestampConverter requires format option to be specified when using string timestamps",
        ),
        (
            {"target_type": "wat"},
            (
                "Invalid value wat for configuration target.type: String must be one of: string, unix, Date, Time,"
                " Timestamp"
            ),
        ),
        (
            {"target_type": "unix", "format": "q"},
            (
                "Invalid value java.lang.IllegalArgumentException: Illegal pattern character 'q' for configuration"
                " TimestampConverter requires a SimpleDateFormat-compatible pattern for string timestamps: q"
            ),
        ),
    ],
)
def test_an_invalid_configuration_of_the_converter_is_refused(config: dict[str, str], message: str) -> None:
    assert config_refusal("TimestampConverter$Value", **config) == message


@pytest.mark.parametrize(
    ("config", "topic"),
    [
        ({}, "t.1-20231114"),
        ({"topic_format": "${timestamp}/${topic}/${topic}", "timestamp_format": "HH"}, "22/t.1/t.1"),
        ({"topic_format": "plain"}, "plain"),
    ],
)
def test_a_topic_gets_the_timestamp_of_its_record(config: dict[str, str], topic: str) -> None:
    assert transformation("TimestampRouter", **config).apply(sink(topic="t.1")) == sink(topic=topic)


def test_the_first_record_shows_that_the_format_of_a_topic_is_invalid() -> None:
    chain = [("IllegalArgumentException", "Illegal pattern character 'b'")]
    assert refusal("TimestampRouter", sink(), timestamp_format="b") == chain


def test_a_record_without_a_timestamp_is_refused_with_all_its_parts() -> None:
    ((java_class, message),) = refusal("TimestampRouter", sink("v", STRING_SCHEMA, timestamp=None))
    assert java_class == "DataException"
    assert message == (
        "Timestamp missing on record: SinkRecord{kafkaOffset=42, timestampType=NoTimestampType, originalTopic=,"
        " originalKafkaPartition=-1, originalKafkaOffset=-1} ConnectRecord{topic='t', kafkaPartition=3, key=null,"
        " keySchema=null, value=v, valueSchema=Schema{STRING}, timestamp=null, headers=ConnectHeaders(headers=)}"
    )
