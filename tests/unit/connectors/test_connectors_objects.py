"""The tasks of object connectors, and the formats of their objects."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import resource
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from kcli.connectors.interface import Offset, Partition
from kcli.connectors.objects import source as source_module
from kcli.connectors.objects import writing
from kcli.connectors.objects.codecs import encoder, read_values
from kcli.connectors.objects.formats import FormatSettings, format_of_object
from kcli.connectors.objects.sink import ObjectSinkTask
from kcli.connectors.objects.source import ObjectSourceConnector, ObjectSourceTask
from kcli.connectors.records import SinkRecord
from kcli.formats.connect import schema as schemas
from kcli.formats.connect.errors import ConnectException, DataException
from kcli.formats.connect.schema import (
    Schema,
    SchemaType,
    array_schema,
    decimal_schema,
    map_schema,
    struct_schema,
)
from kcli.formats.connect.structs import Struct
from kcli.formats.connect.values import Float32, Instant
from kcli.model.topic_partition import TopicPartition
from rigs.full_disk import files_limited_to

pytest.importorskip("fsspec")
pytest.importorskip("pyarrow")
pytest.importorskip("fastavro")

PARTITION = TopicPartition("t", 0)
INNER = struct_schema({"x": schemas.INT64_SCHEMA, "y": schemas.OPTIONAL_STRING_SCHEMA}, optional=True)
WIDE = struct_schema(
    {
        "i8": schemas.INT8_SCHEMA,
        "i16": schemas.OPTIONAL_INT16_SCHEMA,
        "i32": Schema(SchemaType.INT32, default=7),
        "i64": schemas.INT64_SCHEMA,
        "f32": schemas.FLOAT32_SCHEMA,
        "f64": schemas.OPTIONAL_FLOAT64_SCHEMA,
        "flag": schemas.BOOLEAN_SCHEMA,
        "text": schemas.OPTIONAL_STRING_SCHEMA,
        "raw": schemas.OPTIONAL_BYTES_SCHEMA,
        "date": schemas.DATE_SCHEMA,
        "time": schemas.TIME_SCHEMA,
        "moment": Schema(SchemaType.INT64, name=schemas.TIMESTAMP, version=1, optional=True),
        "price": decimal_schema(2, optional=True),
        "inner": INNER,
        "list": array_schema(schemas.OPTIONAL_STRING_SCHEMA, optional=True),
        "structs": array_schema(INNER),
        "map": map_schema(schemas.STRING_SCHEMA, schemas.INT32_SCHEMA, optional=True),
        "keys": map_schema(schemas.INT32_SCHEMA, INNER),
    },
    name="com.example.Wide",
    version=3,
)


def wide(number: int) -> Struct:
    is_null = number % 2 == 1
    inner = Struct(INNER, {"x": number, "y": None})
    values: dict[str, Any] = {
        "i8": -number, "i32": 7 + number, "i64": 2**62, "f32": Float32(0.5), "flag": is_null,
        "date": Instant(86_400_000),
        "time": Instant(1_000), "structs": [inner, None], "keys": {number: inner, -5: None},
    }  # fmt: skip
    optional: dict[str, Any] = {
        "i16": 300, "f64": 1.25, "text": "é\n", "raw": b"\x00\xff", "moment": Instant(-1), "price": Decimal("-12.30"),
        "inner": inner, "list": ["a", None], "map": {"k": 1},
    }  # fmt: skip
    return Struct(WIDE, values | ({} if is_null else optional))


class Memory(io.BytesIO):
    """An upload to memory."""

    def finish(self) -> None: ...

    def abort(self) -> None: ...


def written(settings: FormatSettings, schema: Schema | None, *batches: Sequence[object]) -> bytes:
    target = Memory()
    writer = encoder(settings, schema, target, "name")
    for values in batches:
        writer.add(values)
    writer.finish()
    return target.getvalue()


def read(settings: FormatSettings, data: bytes, position: int = 0) -> list[Any]:
    return list(read_values(settings, io.BytesIO(data), position))


@pytest.mark.parametrize("kind", ["avro", "parquet"])
def test_every_type_of_a_struct_comes_back(kind: str) -> None:
    settings = FormatSettings(kind)
    values = [wide(number) for number in range(5)]
    data = written(settings, WIDE, values[:3], values[3:])
    assert data == written(settings, WIDE, values[:3], values[3:]), (
        "an object that is written again is the same"
    )
    assert [value for _, value in read(settings, data)] == values
    assert {schema for schema, _ in read(settings, data)} == {WIDE}
    assert [value for _, value in read(settings, data, 4)] == values[4:]


def test_parquet_of_other_programs_gets_a_schema_from_its_columns() -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {
        "a": pa.array([1, None], pa.uint16()),
        "when": pa.array([1_500, 2_999], pa.timestamp("us")),
        "kind": pa.array(["x", "y"]).dictionary_encode(),
        "list": pa.array([[1.5], None], pa.list_(pa.float32())),
        "map": pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int64())),
    }
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    first, second = (value for _, value in read(FormatSettings("parquet"), file.getvalue()))
    assert first.schema.fields[0].schema == schemas.OPTIONAL_INT32_SCHEMA
    assert first.values == [1, 1, "x", [1.5], {"k": 1}]
    assert second.values == [None, 2, "y", None, {}]


def test_avro_of_other_programs_gets_a_schema_of_connect() -> None:
    import fastavro

    declared = {
        "type": "record",
        "name": "A",
        "fields": [
            {"name": "kind", "type": {"type": "enum", "name": "E", "symbols": ["P", "Q"]}, "default": "P"},
            {"name": "when", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {
                "name": "next",
                "type": ["null", {"type": "record", "name": "B", "fields": []}],
                "default": None,
            },
        ],
    }
    file = io.BytesIO()
    fastavro.writer(file, fastavro.parse_schema(declared), [{"kind": "Q", "when": 1_999, "next": {}}])
    ((schema, value),) = read(FormatSettings("avro"), file.getvalue())
    assert (schema.name, value.values[:2]) == ("A", ["Q", Instant(1)])
    assert schema.field("kind").schema.default == "P"


def test_json_lines_and_csv_and_bytes_come_back() -> None:
    maps = [{"a": 1, "b": [True, None]}, {"a": "é"}]
    lines = written(FormatSettings("json"), None, maps)
    assert lines == '{"a":1,"b":[true,null]}\n{"a":"é"}\n'.encode()
    assert read(FormatSettings("json"), lines) == [(None, maps[0]), (None, maps[1])]
    packed = written(FormatSettings("json", gzip_level=6), None, maps)
    assert gzip.decompress(packed) == lines
    assert read(FormatSettings("json"), packed, 1) == [(None, maps[1])]
    schema = struct_schema({"n": schemas.OPTIONAL_INT32_SCHEMA, "t": schemas.STRING_SCHEMA, "s": INNER})
    rows = [
        Struct(schema, {"n": 1, "t": 'a,"b\n', "s": Struct(INNER, {"x": 5})}),
        Struct(schema, {"n": None, "t": "c"}),
    ]
    table = written(FormatSettings("csv"), schema, rows[:1], rows[1:])
    assert table == b'n,t,s\n1,"a,""b\n","{""x"":5,""y"":null}"\n,c,\n'
    assert [value.values for _, value in read(FormatSettings("csv"), table)] == [
        ["1", 'a,"b\n', '{"x":5,"y":null}'],
        [None, "c", None],
    ]
    settings = FormatSettings("bytes", separator=b"||")
    assert written(settings, schemas.BYTES_SCHEMA, [b"a\n", b"b"]) == b"a\n||b||"
    assert [value for _, value in read(settings, b"a\n||b||c")] == [b"a\n", b"b", b"c"]


def test_a_format_refuses_values_that_it_cannot_have() -> None:
    for kind in ("avro", "parquet", "csv"):
        with pytest.raises(ConnectException, match="needs values"):
            written(FormatSettings(kind), None, [{}])
    with pytest.raises(DataException, match="ByteArrayConverter"):
        written(FormatSettings("bytes"), None, ["text"])
    assert format_of_object("a/b.snappy.parquet") == "parquet"
    assert format_of_object("a/b.json.gz") == "json"
    assert format_of_object("a/json") is None


# Tasks.


@dataclass
class Reporter:
    errors: list[tuple[int, str]] = field(default_factory=list)

    def report(self, record: SinkRecord, error: Exception) -> None:
        self.errors.append((record.offset, str(error)))


@dataclass
class SinkContext:
    errant_record_reporter: Reporter | None = None
    rewinds: dict[TopicPartition, int] = field(default_factory=dict)

    def offset(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.rewinds |= offsets


def sink(directory: Path, **keys: str) -> Any:
    task: Any = ObjectSinkTask()
    task.context = SinkContext()
    config = {
        "kcli.store.url": directory.as_uri(),
        "format.class": "json",
        "flush.size": "3",
        "s3.retry.backoff.ms": "0",
    }
    task.start(config | {name.replace("_", "."): value for name, value in keys.items()})
    task.open([PARTITION])
    return task


def records(first: int, end: int, **more: Any) -> list[SinkRecord]:
    return [
        SinkRecord("t", 0, n, {"n": n}, original_topic="t", original_partition=0, original_offset=n, **more)
        for n in range(first, end)
    ]


def contents(directory: Path) -> dict[str, list[int]]:
    """The numbers in each object, by name."""
    files = sorted(path for path in directory.rglob("*") if path.is_file() and path.name[0] != ".")
    return {path.name: [json.loads(line)["n"] for line in path.read_text().splitlines()] for path in files}


def test_only_offsets_of_stored_records_are_committed(tmp_path: Path) -> None:
    task = sink(tmp_path)
    task.put(records(10, 12))
    assert task.pre_commit({PARTITION: 12}) == {PARTITION: 10}
    assert contents(tmp_path) == {}
    task.put(records(12, 17))
    assert task.pre_commit({PARTITION: 17}) == {PARTITION: 16}
    task.close([PARTITION])
    stored = {"t+0+0000000010.json": [10, 11, 12], "t+0+0000000013.json": [13, 14, 15]}
    assert contents(tmp_path) == stored
    task.open([PARTITION])
    task.put(records(13, 19))
    task.stop()
    assert contents(tmp_path) == stored | {"t+0+0000000016.json": [16, 17, 18]}


def test_the_objects_of_all_directories_are_stored_together(tmp_path: Path) -> None:
    task = sink(tmp_path, partitioner_class="field", partition_field_name="n", flush_size="4")
    some = records(0, 8)
    for item in some:
        item.value = {"n": item.offset % 2}
    task.put(some[:7])
    assert task.pre_commit({}) == {PARTITION: 4}
    names = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.json"))
    assert names == ["topics/t/n=0/t+0+0000000000.json", "topics/t/n=1/t+0+0000000001.json"]
    task.stop()


def test_many_directories_need_few_open_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "OBJECTS_MAX", 60)
    task = sink(tmp_path, partitioner_class="field", partition_field_name="n", flush_size="100000")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 10, hard))
    try:
        task.put(records(0, 65))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert task.pre_commit({}) == {PARTITION: 60}
    assert sum(1 for _ in tmp_path.rglob("*.json")) == 60
    task.stop()


def test_topics_that_get_one_name_do_not_replace_the_objects_of_each_other(tmp_path: Path) -> None:
    task = sink(tmp_path, flush_size="1")
    other = TopicPartition("u", 0)
    task.open([other])
    for topic in ("t", "u"):
        task.put(
            [SinkRecord("all", 0, 0, {"n": 1}, original_topic=topic, original_partition=0, original_offset=0)]
        )
    assert contents(tmp_path / "topics/all") == {"t+0+0000000000.json": [1], "u+0+0000000000.json": [1]}


def test_another_schema_begins_a_new_object(tmp_path: Path) -> None:
    task = sink(tmp_path, flush_size="100")
    one, two = (struct_schema({"n": kind}) for kind in (schemas.INT32_SCHEMA, schemas.INT64_SCHEMA))
    some = records(0, 3)
    for item, schema in zip(some, (one, one, two), strict=True):
        item.value, item.value_schema = Struct(schema, {"n": item.offset}), schema
    task.put(some)
    assert contents(tmp_path)["t+0+0000000000.json"] == [0, 1]
    assert task.pre_commit({}) == {PARTITION: 2}
    task.stop()


def test_a_record_without_a_value_is_an_error_or_left_out(tmp_path: Path) -> None:
    null = SinkRecord("t", 0, 0, original_topic="t", original_partition=0, original_offset=0)
    task = sink(tmp_path)
    with pytest.raises(ConnectException, match="Null valued"):
        task.put([null])
    task = sink(tmp_path)
    task.context = SinkContext(Reporter())
    task.put([null])
    assert task.context.errant_record_reporter.errors[0][0] == 0
    task = sink(tmp_path, behavior_on_null_values="ignore")
    task.put([null])
    assert task.pre_commit({}) == {PARTITION: 1}


def test_records_are_read_again_after_an_error_of_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = sink(tmp_path, s3_part_retries="2")

    def no_space(*_: object) -> None:
        raise OSError("No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(os, "replace", no_space)
        for _ in range(2):
            task.put(records(0, 5))
            assert task.context.rewinds == {PARTITION: 0}
        with pytest.raises(ConnectException, match="The store failed 3 times: No space left"):
            task.put(records(0, 5))
    assert not any(path.is_file() for path in tmp_path.rglob("*")), "no part of an object remains"
    task = sink(tmp_path)
    task.put(records(0, 5))
    task.stop()
    assert contents(tmp_path) == {"t+0+0000000000.json": [0, 1, 2]}


@pytest.mark.parametrize(
    ("kind", "compression"),
    [("json", "none"), ("json", "gzip"), ("csv", "none"), ("avro", "none"), ("parquet", "none")],
)
def test_a_full_disk_leaves_no_part_of_an_object_and_loses_no_record(
    tmp_path: Path, kind: str, compression: str
) -> None:
    schema = struct_schema({"n": schemas.STRING_SCHEMA})
    keys = {"format_class": kind, "s3_compression_type": compression, "parquet_codec": "none"}
    task = sink(tmp_path, s3_part_retries="3", **keys)
    some, numbers = records(0, 4), [random.Random(n).randbytes(50_000).hex() for n in range(4)]
    for item, number in zip(some, numbers, strict=True):
        item.value, item.value_schema = Struct(schema, {"n": number}), schema
    with files_limited_to(120_000):
        for _ in range(3):
            task.put(some)
            assert task.context.rewinds == {PARTITION: 0}
            assert task.pre_commit({}) == {PARTITION: 0}
            assert not any(path.is_file() for path in tmp_path.rglob("*"))
    task.put(some)
    assert task.pre_commit({}) == {PARTITION: 3}
    task.stop()
    values = [item.value for item in polled(source(SourceContext(), tmp_path))]
    texts = [value["n"] if isinstance(value, dict) else value.get("n") for value in values]
    assert texts == numbers[:3]


def test_a_topic_that_begins_again_is_written_from_its_first_record(tmp_path: Path) -> None:
    task = sink(tmp_path)
    task.put(records(10, 14))
    task.put(records(0, 3))
    assert contents(tmp_path) == {"t+0+0000000000.json": [0, 1, 2], "t+0+0000000010.json": [10, 11, 12]}
    assert task.pre_commit({}) == {PARTITION: 3}


@dataclass
class SourceOffsets:
    stored: dict[str, Offset] = field(default_factory=dict)

    def offset(self, partition: Partition) -> Offset | None:
        return self.stored.get(str(partition["object"]))

    def offsets(self, partitions: Sequence[Partition]) -> list[Offset | None]:
        return [self.offset(partition) for partition in partitions]


@dataclass
class SourceContext:
    offsets: SourceOffsets = field(default_factory=SourceOffsets)


def source(context: SourceContext, directory: Path, number: int = 0, count: int = 1, **keys: str) -> Any:
    connector = ObjectSourceConnector()
    config = {"kcli.store.url": directory.as_uri(), "s3.poll.interval.ms": "1"}
    connector.start(config | {name.replace("_", "."): value for name, value in keys.items()})
    task: Any = ObjectSourceTask()
    task.context = context
    task.start(connector.task_configs(count)[number])
    return task


def polled(task: Any, polls: int = 12) -> list[Any]:
    """The records of some polls. Their offsets are stored."""
    all_records = []
    for _ in range(polls):
        for item in task.poll() or ():
            task.context.offsets.stored[str(item.source_partition["object"])] = item.source_offset
            all_records.append(item)
    return all_records


def test_a_source_reads_what_the_sink_has_stored_and_continues(tmp_path: Path) -> None:
    writer = sink(tmp_path)
    writer.put(records(0, 6))
    context = SourceContext()
    task = source(context, tmp_path, record_batch_max_size="2")
    first = polled(task, 2)
    assert [(item.topic, item.partition, item.value) for item in first] == [
        ("t", 0, {"n": n}) for n in range(3)
    ]
    assert context.offsets.stored == {
        "topics/t/partition=0/t+0+0000000000.json": {"position": 3, "complete": True}
    }
    context.offsets.stored["topics/t/partition=0/t+0+0000000003.json"] = {"position": 1, "complete": False}
    task = source(context, tmp_path)
    assert [item.value for item in polled(task)] == [{"n": 4}, {"n": 5}]
    writer.put(records(6, 9))
    assert [item.value for item in polled(task)] == [{"n": 6}, {"n": 7}, {"n": 8}], "a new object is found"


@pytest.mark.parametrize("kind", ["json", "csv", "avro", "parquet"])
def test_each_format_comes_back_from_files(tmp_path: Path, kind: str) -> None:
    schema = struct_schema({"n": schemas.STRING_SCHEMA})
    writer = sink(tmp_path, format_class=kind, s3_compression_type="gzip", avro_codec="deflate")
    some = records(0, 3)
    for item in some:
        item.value, item.value_schema = Struct(schema, {"n": f"{item.offset}" * 200_000}), schema
    writer.put(some)
    values = [item.value for item in polled(source(SourceContext(), tmp_path))]
    texts = [value["n"] if isinstance(value, dict) else value.get("n") for value in values]
    assert texts == [f"{n}" * 200_000 for n in range(3)]


def test_each_object_has_one_task(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"f{number}.json").write_text(f'{{"n":{number}}}\n')
    (tmp_path / ".hidden.json").write_text("{}\n")
    (tmp_path / "notes.txt").write_text("text\n")
    keys = {"kcli_objects_glob": "*", "kcli_topic": "all"}
    shares = [polled(source(SourceContext(), tmp_path, number, 3, **keys), 80) for number in range(3)]
    assert all(shares)
    numbers = sorted(item.value["n"] for share in shares for item in share)
    assert numbers == list(range(20))


def test_an_invalid_object_fails_the_task_or_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"n":1}\n{"n":\n{"n":3}\n')
    (tmp_path / "b.json").write_text('{"n":4}\n')
    keys = {"kcli_objects_glob": "*.json", "kcli_topic": "all"}
    context = SourceContext()
    with pytest.raises(ConnectException, match=r"a\.json is invalid after 1 records"):
        polled(source(context, tmp_path, **keys))
    assert context.offsets.stored == {"a.json": {"position": 1, "complete": False}}
    task = source(SourceContext(), tmp_path, behavior_on_error="ignore", **keys)
    assert [item.value for item in polled(task)] == [{"n": 1}, {"n": 4}]


def test_json_may_have_blank_lines_and_csv_a_byte_order_mark() -> None:
    lines = b'{"n":1}\r\n\r\n{"n":2}\n\n'
    assert [value["n"] for _, value in read(FormatSettings("json"), lines)] == [1, 2]
    assert [value["n"] for _, value in read(FormatSettings("json"), lines, 1)] == [2]
    ((schema, _),) = read(FormatSettings("csv"), "\ufeffid,name\n1,a\n".encode())
    assert list(schema.positions) == ["id", "name"]


@pytest.mark.parametrize("kind", ["json", "csv", "avro", "parquet"])
def test_half_a_character_becomes_a_question_mark(kind: str) -> None:
    schema = struct_schema(
        {"n": schemas.STRING_SCHEMA, "map": map_schema(schemas.STRING_SCHEMA, schemas.STRING_SCHEMA)}
    )
    value = Struct(schema, {"n": "a\ud800b", "map": {"\udc00": "\ud800"}})
    ((_, item),) = read(FormatSettings(kind), written(FormatSettings(kind), schema, [value]))
    text, pairs = (item[name] if isinstance(item, dict) else item.get(name) for name in ("n", "map"))
    if kind == "json":  # which has an escape for it
        assert (text, pairs) == ("a\ud800b", {"\udc00": "\ud800"})
    elif kind == "csv":
        assert (text, pairs) == ("a?b", '{"\\uDC00":"\\uD800"}')
    else:
        assert (text, pairs) == ("a?b", {"?": "?"})


@pytest.mark.parametrize(
    ("kind", "compression"),
    [("json", "none"), ("json", "gzip"), ("csv", "none"), ("avro", "none"), ("parquet", "none")],
)
def test_an_error_of_the_store_is_no_error_of_an_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, compression: str
) -> None:
    """Each read fails once. behavior.on.error=ignore must not leave out the rest of a valid object."""
    from fsspec.implementations.local import LocalFileOpener

    schema = struct_schema({"n": schemas.STRING_SCHEMA})
    writer = sink(tmp_path, format_class=kind, s3_compression_type=compression, flush_size="4")
    some, texts = records(0, 8), [f"{n}" * 20_000 for n in range(8)]
    for item, text in zip(some, texts, strict=True):
        item.value, item.value_schema = Struct(schema, {"n": text}), schema
    writer.put(some)
    monkeypatch.setattr(source_module, "_PAUSE_S", 0)
    real_read, calls, failing = LocalFileOpener.read, 0, 0

    def read(self: Any, *args: Any) -> bytes:
        nonlocal calls
        calls += 1
        if calls == failing:
            raise TimeoutError("the store does not answer")
        return real_read(self, *args)

    monkeypatch.setattr(LocalFileOpener, "read", read)
    while failing == 0 or calls >= failing:
        calls, failing = 0, failing + 1
        task = source(SourceContext(), tmp_path, behavior_on_error="ignore", record_batch_max_size="2")
        values = [item.value for item in polled(task, 14)]
        assert [value["n"] if isinstance(value, dict) else value.get("n") for value in values] == texts
    assert failing > 3


def test_a_store_that_stays_away_fails_the_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "_PAUSE_S", 0)
    monkeypatch.setattr(source_module, "_FAILURES_MAX", 3)
    task = source(SourceContext(), tmp_path)
    monkeypatch.setattr(task._store._files, "glob", lambda *_, **__: 1 / 0)
    with pytest.raises(ConnectException, match="The store failed 4 times: ZeroDivisionError"):
        polled(task)


def test_a_user_may_set_only_offsets_that_mean_something(tmp_path: Path) -> None:
    connector = ObjectSourceConnector()
    partition = {"store": "file:///x", "object": "a"}
    assert connector.alter_offsets({}, [(partition, {"position": 1}), ({}, None)])
    for wrong in (
        (partition, {"position": -1}),
        (partition, {"position": True}),
        ({"x": 1}, {"position": 1}),
    ):
        with pytest.raises(ConnectException):
            connector.alter_offsets({}, [wrong])


def test_objects_of_a_store_in_memory_are_written_and_read() -> None:
    task = sink(Path("/unused"), kcli_store_url="memory://lake", flush_size="2", s3_part_size=str(5 * 2**20))
    task.put(records(0, 4))
    reader = source(SourceContext(), Path("/unused"), kcli_store_url="memory://lake")
    assert [item.value["n"] for item in polled(reader)] == [0, 1, 2, 3]
