"""Jobs with schemas of a registry: columns of the latest version, and values that Confluent's client reads."""

from __future__ import annotations

import datetime as dt
import decimal
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from kcli.command.options import UsageError
from kcli.formats.codec import Value
from kcli.formats.registry.framing import guid_prefix, id_prefix
from kcli.formats.registry.payloads import value_encoder
from kcli.formats.registry.schemas import LoadedSchema
from kcli.formats.schemas import SchemaType
from kcli.spark.jobs.export import job as export
from kcli.spark.jobs.ingest import job as ingest
from kcli.spark.jobs.shared.errors import JobError
from kcli.spark.jobs.transform import job as transform
from rigs.librdkafka import consume, produce
from rigs.schema_registry import MemoryRegistry, memory_registry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kcli.testing.broker_process import BrokerProcess

Make = Callable[..., str]

V1 = '{"type":"record","name":"Order","fields":[{"name":"id","type":"int"},{"name":"gone","type":"string"}]}'
V2 = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "item", "type": ["null", "string"], "default": None},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
             "default": "\u0000"},
            {"name": "either", "type": ["int", "string"], "default": 5},
            {"name": "key", "type": {"type": "string", "logicalType": "uuid"}, "default": ""},
            {"name": "at", "type": {"type": "int", "logicalType": "time-millis"}, "default": 0},
        ],
    }
)  # fmt: skip
PROTO = """syntax = "proto3"; package shop; import "google/protobuf/timestamp.proto";
message Order { int64 id = 1; string item = 2; google.protobuf.Timestamp at = 3; repeated int32 counts = 4; }"""
JSON_SCHEMA = (
    '{"type":"object","title":"Order","properties":{"id":{"type":"integer"},"item":{"type":"string"}}}'
)


@pytest.fixture(scope="module")
def registry() -> Iterator[MemoryRegistry]:
    with memory_registry() as registry:
        yield registry


def encode(kind: str, schema_id: int, text: str, value: Value) -> bytes:
    encoder = value_encoder(LoadedSchema(SchemaType(kind), text))
    return id_prefix(schema_id) + encoder.path + encoder.encode(value)


def test_avro_values_of_two_versions_become_typed_columns(
    spark: SparkSession, broker: BrokerProcess, topic: Make, registry: MemoryRegistry, tmp_path: Path
) -> None:
    import pyarrow.parquet

    name = topic(1)
    first, second = registry.put(f"{name}-value", V1), registry.put(f"{name}-value", V2)
    new: dict[str, Value] = {
        "id": 2, "item": "x", "price": decimal.Decimal("12.50"), "either": "text",
        "key": "0f8fad5b-d9cb-469f-a165-70867728950e", "at": dt.time(1, 2, 3),
    }  # fmt: skip
    guid = UUID(registry.subjects[f"{name}-value"][0]["guid"])
    produce(broker.bootstrap, name, [
        {"value": encode("AVRO", first, V1, {"id": 1, "gone": "g"})},
        {"value": encode("AVRO", first, V1, {"id": 3, "gone": "g"})[5:],
         "headers": [("other", b"x"), ("__value_schema_id", guid_prefix(guid))]},
        {"value": encode("AVRO", second, V2, new)},
        {"value": None, "key": "k"},
        {"value": b"plain"},
    ])  # fmt: skip
    path = str(tmp_path / "out")
    done = export.run(spark, export.parse([
        "--bootstrap-server", broker.bootstrap, "--topic", name, "--path", path, "--value-format", "avro",
        "--schema-registry", registry.url, "--on-bad-record", "drop", "--columns", "offset,value",
    ]))  # fmt: skip
    assert (done.rows, done.bad_records) == (4, 1)
    rows = sorted(pyarrow.parquet.read_table(path).to_pylist(), key=lambda row: row["offset"])
    assert [row["value"] and row["value"]["id"] for row in rows] == [1, 3, 2, None]
    rows.pop(1)
    assert rows[0]["value"]["item"] is None and rows[0]["value"]["either"] == {"int": 5, "string": None}
    assert rows[1]["value"]["price"] == decimal.Decimal("12.50")
    assert rows[1]["value"]["either"] == {"int": None, "string": "text"}
    assert rows[1]["value"]["key"] == new["key"] and rows[1]["value"]["at"] == 3_723_000


def test_a_query_reads_protobuf_and_writes_avro_and_json(
    spark: SparkSession, broker: BrokerProcess, topic: Make, registry: MemoryRegistry, tmp_path: Path
) -> None:
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroDeserializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    source, target, other = topic(1), topic(1), topic(1)
    number = registry.put(f"{source}-value", PROTO, "PROTOBUF")
    at = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
    produce(broker.bootstrap, source, [
        {"value": encode("PROTOBUF", number, PROTO, {"id": nth, "item": f"i{nth}", "at": at, "counts": [nth]})}
        for nth in range(5)
    ])  # fmt: skip
    schema = json.dumps({"type": "record", "name": "Out", "fields": [
        {"name": "id", "type": "long"}, {"name": "item", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ]})  # fmt: skip
    file = tmp_path / "out.avsc"
    file.write_text(schema)
    common = [
        "--bootstrap-server",
        broker.bootstrap,
        "--value-format",
        "protobuf",
        "--schema-registry",
        registry.url,
    ]
    transform.run(spark, transform.parse([
        *common, "--sql", f"SELECT id, item, at FROM `{source}` WHERE counts[0] > 2", "--target-topic", target,
        "--output-format", "avro", "--output-schema", str(file),
    ]))  # fmt: skip
    judge = AvroDeserializer(SchemaRegistryClient({"url": registry.url}))
    context = SerializationContext(target, MessageField.VALUE)
    values: list[Any] = [judge(message.value(), context) for message in consume(broker.bootstrap, target, 2)]
    assert sorted(value["id"] for value in values) == [3, 4]
    assert {value["at"] for value in values} == {at}
    assert registry.targets.count(f"POST /subjects/{target}-value/versions?normalize=false") == 1
    shared = registry.put("shared", JSON_SCHEMA, "JSON")
    place = tmp_path / "client.properties"
    place.write_text("value.schema.id.serializer=HeaderSchemaIdSerializer\n")
    transform.run(spark, transform.parse([
        *common, "--sql", f"SELECT id, item FROM `{source}` WHERE id = 4", "--target-topic", other,
        "--output-format", "json-schema", "--output-subject", "shared", "--command-config", str(place),
    ]))  # fmt: skip
    (message,) = consume(broker.bootstrap, other, 1)
    assert json.loads(message.value()) == {"id": 4, "item": "i4"}
    guid = UUID(registry.subjects["shared"][0]["guid"])
    assert message.headers() == [("__value_schema_id", guid_prefix(guid))], shared


def test_files_become_values_with_a_schema(
    spark: SparkSession, broker: BrokerProcess, topic: Make, registry: MemoryRegistry, tmp_path: Path
) -> None:
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroDeserializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    schema = json.dumps({"type": "record", "name": "In", "fields": [
        {"name": "id", "type": "long"}, {"name": "price", "type": ["null", "double"], "default": None},
    ]})  # fmt: skip
    (tmp_path / "in.avsc").write_text(schema)
    (tmp_path / "in.csv").write_text("id,price,more\n1,2.5,x\n2,,y\n")
    (tmp_path / "in.json").write_text('{"id": 1, "price": 2.5}\n{"id": 2, "price": null}\n')
    judge = AvroDeserializer(SchemaRegistryClient({"url": registry.url}))
    for form in ("csv", "json"):
        name = topic(1)
        ingest.run(spark, ingest.parse([
            "--bootstrap-server", broker.bootstrap, "--topic", name, "--path", str(tmp_path / f"in.{form}"),
            "--format", form, "--key-column", "id", "--value-format", "avro", "--schema-registry", registry.url,
            "--value-schema", str(tmp_path / "in.avsc"),
        ]))  # fmt: skip
        context = SerializationContext(name, MessageField.VALUE)
        found = {
            message.key(): judge(message.value(), context) for message in consume(broker.bootstrap, name, 2)
        }
        assert found == {b"1": {"id": 1, "price": 2.5}, b"2": {"id": 2, "price": None}}
    for words, reason in (
        (["--value-format", "avro"], "needs --schema-registry"),
        (["--schema-registry", registry.url], "--value-format"),
    ):
        with pytest.raises(UsageError, match=reason):
            ingest.parse(
                ["--bootstrap-server", "h:1", "--topic", "t", "--path", str(tmp_path / "in.csv"), *words]
            )


def test_rows_that_do_not_fit_the_schema_are_bad_records(
    spark: SparkSession, broker: BrokerProcess, topic: Make, registry: MemoryRegistry, tmp_path: Path
) -> None:
    schema = json.dumps({"type": "record", "name": "In", "fields": [
        {"name": "id", "type": "int"}, {"name": "item", "type": "string"},
    ]})  # fmt: skip
    (tmp_path / "in.avsc").write_text(schema)
    rows, lines = tmp_path / "in.csv", tmp_path / "in.json"
    rows.write_text("id,item\n1,a\nx,b\n3\n4,\n5,e\n")
    lines.write_text('{"id": 1, "item": "a"}\n{"id": "x"}\n{"id":\n{"id": 5, "item": "e"}\n')
    name, letters = topic(1), topic(1)
    for path, kind, bad in ((rows, "csv", 3), (lines, "json", 2)):
        words = [
            "--bootstrap-server", broker.bootstrap, "--topic", name, "--path", str(path), "--format", kind,
            "--value-format", "avro", "--schema-registry", registry.url, "--value-schema",
            str(tmp_path / "in.avsc"), "--on-bad-record",
        ]  # fmt: skip
        if kind == "csv":
            reason = rf"does not parse, file file:{path}: (column id is not int|the line is not CSV|.*item)"
            with pytest.raises(Exception, match=reason):
                ingest.run(spark, ingest.parse([*words, "fail"]))
        done = ingest.run(spark, ingest.parse([*words, "dead-letter", "--dead-letter-topic", letters]))
        assert (done.rows, done.bad_records) == (2, bad)
    found = {
        message.value(): dict(message.headers())["__connect.errors.exception.message"].decode()
        for message in consume(broker.bootstrap, letters, 5)
    }
    assert found[b'{"id":"x","item":"b"}'] == "column id is not int"
    assert found[b"3"].startswith("the line is not CSV")
    assert found[b'{"id":"4"}'].endswith(": expected string, found None")
    assert found[b'{"id":"4"}'].startswith("the row does not fit schema ")
    assert found[b'{"id":'] == "the line is not JSON" and found[b'{"id": "x"}']
    assert {message.value()[5:] for message in consume(broker.bootstrap, name, 4)} == {b"\2\2a", b"\x0a\2e"}


def test_the_data_source_decodes_values(
    spark: SparkSession, broker: BrokerProcess, topic: Make, registry: MemoryRegistry, tmp_path: Path
) -> None:
    from pyspark.errors import PySparkException

    name = topic(1)
    first, second = registry.put(f"{name}-value", V1), registry.put(f"{name}-value", V2)
    guid = UUID(registry.subjects[f"{name}-value"][0]["guid"])
    old = encode("AVRO", first, V1, {"id": 1, "gone": "g"})
    produce(broker.bootstrap, name, [
        {"value": old},
        {"value": old[5:], "headers": [("__value_schema_id", guid_prefix(guid))]},
        {"value": None, "key": "k"},
    ])  # fmt: skip
    options = {
        "kafka.bootstrap.servers": broker.bootstrap,
        "subscribe": name,
        "valueFormat": "avro",
        "schemaRegistry": registry.url,
        "schemaRegistry.max.retries": "0",
    }
    frame = spark.read.format("kcli").options(**options).load()
    assert second and frame.select("value.*").dtypes[:3] == [
        ("id", "bigint"), ("item", "string"), ("price", "decimal(9,2)"),
    ]  # fmt: skip
    rows = frame.select("offset", "value.id", "value.either").collect()
    assert [(row["offset"], row["id"]) for row in rows] == [(0, 1), (1, 1), (2, None)]
    assert rows[0]["either"].asDict() == {"int": 5, "string": None}
    produce(broker.bootstrap, name, [{"value": b"plain"}])
    with pytest.raises(PySparkException, match=f"topic {name}, partition 0, offset 3: Unknown magic byte!"):
        spark.read.format("kcli").options(**options).load().collect()
    stream = (
        spark.readStream.format("kcli").options(**options, startingOffsets="earliest", includeValueErrors="true")
        .load().select("offset", "value.id", "valueError")
        .writeStream.format("parquet").trigger(availableNow=True)
        .option("path", str(tmp_path / "out")).option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )  # fmt: skip
    assert stream.awaitTermination(120)
    found = sorted(spark.read.parquet(str(tmp_path / "out")).collect())
    assert [row["id"] for row in found] == [1, 1, None, None]
    assert [row["valueError"] and row["valueError"][:19] for row in found] == [None] * 3 + [
        "Unknown magic byte!"
    ]


def test_wrong_settings_are_errors_before_spark_starts(
    spark: SparkSession, broker: BrokerProcess, topic: Make, registry: MemoryRegistry, tmp_path: Path
) -> None:
    name = topic(1)
    base = ["--bootstrap-server", broker.bootstrap, "--topic", name, "--path", str(tmp_path / "out")]
    for words, reason in (
        (["--value-format", "json-schema"], "json-schema values need --schema-registry"),
        (
            ["--value-format", "avro", "--schema-registry", "nowhere"],
            "--schema-registry: nowhere: expected the URL",
        ),
        (["--value-format", "json", "--value-subject", "s"], "a subject needs --schema-registry"),
        (
            ["--value-format", "avro", "--schema-registry", registry.url, "--value-skip-bytes", "5"],
            "bytes are not skipped",
        ),
    ):
        with pytest.raises(UsageError, match=reason):
            export.parse([*base, *words])
    options = export.parse([*base, "--value-format", "avro", "--schema-registry", registry.url])
    with pytest.raises(JobError, match=f"values of {name}: Subject '{name}-value' not found"):
        export.run(spark, options)
    registry.put(f"{name}-value", JSON_SCHEMA, "JSON")
    with pytest.raises(JobError, match="is JSON, and the format is AVRO"):
        export.run(spark, options)
