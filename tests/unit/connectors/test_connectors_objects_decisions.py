"""Objects: names, directories, rotations and compatible schemas."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from kcli.config.definition import ConfigError
from kcli.config.properties import load
from kcli.connectors.objects.names import FirstRecord, Layout, safe_segment
from kcli.connectors.objects.partitioners import TimePartitioner, nested_value
from kcli.connectors.objects.projection import projection
from kcli.connectors.objects.rotation import Rotation, RotationSettings, next_scheduled_ms
from kcli.connectors.objects.sink import ObjectSinkConnector
from kcli.connectors.objects.sink_keys import SINK_KEYS, SinkSettings
from kcli.connectors.objects.source_keys import SOURCE_KEYS
from kcli.connectors.records import SinkRecord
from kcli.formats.connect.errors import ConnectException, DataException
from kcli.formats.connect.schema import (
    INT32_SCHEMA,
    INT64_SCHEMA,
    OPTIONAL_STRING_SCHEMA,
    STRING_SCHEMA,
    Schema,
    struct_schema,
)
from kcli.formats.connect.structs import Struct

ROOT = Path(__file__).resolve().parents[3]
LAYOUT = Layout("topics", "/", "+", 10)
CONFIG = {"kcli.store.url": "file:///lake", "format.class": "json", "flush.size": "3"}
CONFLUENT = "io.confluent.connect.storage.partitioner."
HOUR_MS = 3_600_000
MOMENT_MS = 1_704_103_200_123  # 2024-01-01T10:00:00.123Z


def settings(**keys: str) -> SinkSettings:
    return SinkSettings.of(CONFIG | {name.replace("_", "."): value for name, value in keys.items()})


def record(value: object = None, *, timestamp: int | None = None, partition: int = 0) -> SinkRecord:
    return SinkRecord(
        "t", partition, 5, value, timestamp=timestamp, original_topic="t", original_partition=partition
    )


def directory(of: SinkSettings, item: SinkRecord, now_ms: int = 0) -> str:
    return of.directory(item, of.extract(item, now_ms))


def test_a_name_has_topic_partition_and_first_offset() -> None:
    name = LAYOUT.name("orders", "partition=3", FirstRecord("orders", 3, 42), ".avro")
    assert name == "topics/orders/partition=3/orders+3+0000000042.avro"
    assert LAYOUT.first_record(name) == FirstRecord("orders", 3, 42)
    assert LAYOUT.first_record("logs/2024.json") is None
    assert Layout("", "_", "-", 0).name("a", "x", FirstRecord("b", 0, 7), "") == "a_x_b-0-7"


def test_a_text_of_a_record_stays_inside_its_directory() -> None:
    assert safe_segment("../../etc") == "..%2F..%2Fetc"
    assert safe_segment("..") == "%2E%2E"
    by_field = settings(partitioner_class="field", partition_field_name="a")
    assert directory(by_field, record({"a": "x/../y"})) == "a=x%2F..%2Fy"


def test_a_value_that_is_no_directory_is_an_error_of_its_record() -> None:
    fields = settings(partitioner_class=f"{CONFLUENT}FieldPartitioner", partition_field_name="a")
    assert fields.directory(record({"a": "\ud800"}), 0) == "a=?"
    for text in ("x" * 254, "é" * 127):
        with pytest.raises(DataException, match="The field a is too long for a directory"):
            fields.directory(record({"a": text}), 0)


def test_each_partitioner_has_its_directory() -> None:
    assert directory(settings(), record(partition=7)) == "partition=7"
    fields = settings(partitioner_class=f"{CONFLUENT}FieldPartitioner", partition_field_name="a,b.c")
    assert directory(fields, record({"a": True, "b": {"c": 5}})) == "a=true/b.c=5"
    item = record(timestamp=MOMENT_MS)
    hourly = settings(partitioner_class="hourly", timestamp_extractor="Record", timezone="Europe/Berlin")
    assert directory(hourly, item) == "year=2024/month=01/day=01/hour=11"
    daily = settings(partitioner_class=f"{CONFLUENT}DailyPartitioner", timestamp_extractor="Record")
    assert directory(daily, item) == "year=2024/month=01/day=01"
    quarter = TimePartitioner("YYYY-MM-dd'T'HH.mm", 15 * 60_000, UTC, "/")
    assert quarter(item, MOMENT_MS + 20 * 60_000) == "2024-01-01T10.15"


def test_the_time_of_a_record_may_be_a_field() -> None:
    field = settings(partitioner_class="hourly", timestamp_extractor="RecordField", timestamp_field="at")
    expected = "year=2024/month=01/day=01/hour=10"
    assert directory(field, record({"at": MOMENT_MS})) == expected
    assert directory(field, record({"at": "2024-01-01T11:30:00+01:00"})) == expected
    for value in ({"at": "yesterday"}, {"at": True}, {}):
        with pytest.raises(DataException):
            directory(field, record(value))


def test_a_nested_field_is_found_by_its_path() -> None:
    inner = struct_schema({"c": INT32_SCHEMA})
    value = Struct(struct_schema({"b": inner, "x.y": INT32_SCHEMA}), {"b": Struct(inner, {"c": 1}), "x.y": 2})
    assert (nested_value(value, "b.c"), nested_value(value, "x.y")) == (1, 2)
    with pytest.raises(DataException, match="The field d is missing"):
        nested_value(value, "b.d")


def test_a_rotation_depends_on_the_records_alone() -> None:
    rotation = Rotation(RotationSettings(3, HOUR_MS, 0, UTC, True, False))
    assert not rotation.is_due_before("a", 0)
    rotation.add("a", 1_000)
    assert not rotation.is_due_before("a", HOUR_MS)
    assert rotation.is_due_before("a", HOUR_MS + 1_000)
    assert rotation.is_due_before("b", 1_001)
    assert not rotation.is_due_by_clock(10**15)
    rotation.add("a", 2_000)
    rotation.add("a", 3_000)
    assert rotation.is_full
    rotation.restart()
    assert not rotation.is_full
    assert not rotation.is_due_before("b", 10**15)


def test_the_clock_ends_objects_at_whole_intervals_of_the_day() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    begin = next_scheduled_ms(MOMENT_MS, 6 * HOUR_MS, berlin)
    assert begin == 1_704_106_800_000, "noon in Berlin"
    rotation = Rotation(RotationSettings(100, 0, 6 * HOUR_MS, berlin, False, False))
    rotation.add("a", None)
    assert not rotation.is_due_by_clock(MOMENT_MS)
    assert not rotation.is_due_by_clock(begin - 1)
    assert rotation.is_due_by_clock(begin)
    assert not rotation.is_due_by_clock(begin + 1)


def version(number: int | None, **fields: Schema) -> Schema:
    return struct_schema(fields, name="v", version=number)


OLD = version(1, a=INT32_SCHEMA)
NEW = version(2, a=INT64_SCHEMA, b=OPTIONAL_STRING_SCHEMA)


@pytest.mark.parametrize(
    ("compatibility", "source", "target", "fits"),
    [
        ("NONE", OLD, OLD, True),
        ("NONE", OLD, NEW, False),
        ("BACKWARD", OLD, NEW, True),
        ("BACKWARD", NEW, OLD, False),
        ("FULL", OLD, NEW, True),
        ("FORWARD", OLD, NEW, False),
        ("FORWARD", version(2, a=INT32_SCHEMA, b=STRING_SCHEMA), OLD, True),
        ("BACKWARD", version(1, a=STRING_SCHEMA), NEW, False),
        ("BACKWARD", OLD, None, False),
    ],
)
def test_a_schema_that_does_not_fit_begins_an_object(
    compatibility: str, source: Schema, target: Schema | None, fits: bool
) -> None:
    assert (projection(compatibility, source, target) is not None) == fits


def test_a_value_is_projected_to_the_schema_of_its_object() -> None:
    project = projection("BACKWARD", OLD, NEW)
    assert project is not None
    assert project(Struct(OLD, {"a": 1})) == Struct(NEW, {"a": 1})
    with pytest.raises(ConnectException, match="Schema version required for BACKWARD compatibility"):
        projection("BACKWARD", version(None, a=INT32_SCHEMA), NEW)


@pytest.mark.parametrize(
    ("keys", "key"),
    [
        ({"kcli.store.url": ""}, "kcli.store.url"),
        ({"partitioner.class": "field"}, "partition.field.name"),
        ({"partitioner.class": "timebased", "path.format": "'year'=YYYY"}, "partition.duration.ms"),
        (
            {"partitioner.class": "timebased", "partition.duration.ms": "9", "path.format": "bb"},
            "path.format",
        ),
        ({"s3.acl.canned": "private"}, "s3.acl.canned"),
    ],
)
def test_a_validation_names_the_key_of_an_error(keys: dict[str, str], key: str) -> None:
    assert key in ObjectSinkConnector().validate(CONFIG | keys)


@pytest.mark.parametrize(
    "keys",
    [
        {"format.class": "orc"},
        {"flush.size": "0"},
        {"store.kafka.keys": "true"},
        {"locale": "de-DE"},
        {"timezone": "Mars"},
        {"behavior.on.null.values": "write"},
        {"partitioner.class": "com.example.Mine"},
    ],
)
def test_a_value_that_has_no_effect_is_refused(keys: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        SinkSettings.of(CONFIG | keys)


def test_the_example_files_have_known_keys() -> None:
    definitions = {"source": SOURCE_KEYS, "sink": SINK_KEYS}
    for name, definition in definitions.items():
        config = load(str(ROOT / f"config/connect-objects-{name}.properties"))
        definition.parse(config)
        assert not config.keys() - set(definition) - {"name", "connector.class", "tasks.max", "topics"}
