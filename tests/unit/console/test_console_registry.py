"""The schemas of a registry: only from the one address, with limits, and only if their values can be decoded safely."""

from __future__ import annotations

import asyncio
import base64
import json
import uuid
from collections.abc import Iterator

import pytest

from kcli.config.definition import ConfigError
from kcli.console.messages import look_ups
from kcli.console.messages import registry as registries
from kcli.console.messages.decoding import Decoder, Format, SchemaCodec
from kcli.console.messages.fetching import Fetched
from kcli.console.messages.filters.record_filter import RecordFilter
from kcli.console.messages.look_ups import LookUps
from kcli.console.messages.matching import Selection, Stop, first_matches, last_matches
from kcli.console.messages.record import ReadRecord
from kcli.console.messages.registry import SchemaRegistry
from kcli.console.messages.rows import Decoders, row
from kcli.formats.codec import FormatError
from kcli.formats.registry.framing import VALUE_HEADER, SchemaKey, guid_prefix
from kcli.protocol.batches.batch import encode_batch
from rigs.console_topics import record
from rigs.schema_registry import MemoryRegistry, memory_registry

AVRO = json.dumps({"type": "record", "name": "O", "fields": [{"name": "n", "type": "int"}]})


@pytest.fixture
def registry() -> Iterator[MemoryRegistry]:
    with memory_registry() as registry:
        yield registry


def schemas_of(registry: MemoryRegistry, login: str = "") -> SchemaRegistry:
    return SchemaRegistry(registry.url.replace("//", f"//{login}"))


def test_an_avro_value_is_decoded_and_its_schema_is_requested_once(registry: MemoryRegistry) -> None:
    registry.put("s", AVRO)
    decoder = Decoder(Format.AUTO, schemas_of(registry, "me:p%40ss@").find)
    for _ in range(3):
        shown = decoder.preview(b"\x00\x00\x00\x00\x01\x54")
        assert (shown.text, shown.format, shown.schema_id) == ('{"n": 42}', "avro", 1)
    assert registry.targets == ["GET /schemas/ids/1"]
    login = "Basic " + base64.b64encode(b"me:p@ss").decode()
    assert registry.calls[0].headers["Authorization"] == login


def test_values_with_references_are_decoded_in_each_language(registry: MemoryRegistry) -> None:
    registry.put("n", '{"type":"record","name":"N","fields":[{"name":"n","type":"int"}]}')
    used = [{"name": "N", "subject": "n", "version": 1}]
    registry.put("avro", '{"type":"record","name":"R","fields":[{"name":"a","type":"N"}]}', references=used)
    registry.put("a.proto", 'syntax = "proto3"; message A { int32 n = 1; }', "PROTOBUF")
    text = 'syntax = "proto3"; import "a.proto"; message B { A a = 1; message C { A b = 2; } }'
    registry.put("b", text, "PROTOBUF", [{"name": "a.proto", "subject": "a.proto", "version": 1}])
    decoder = Decoder(Format.AUTO, schemas_of(registry).find)
    for raw, kind, text in (
        (b"\0\0\0\0\2\x54", "avro", '{"a": {"n": 42}}'),
        (b"\0\0\0\0\4\0\x0a\2\x08\x2a", "protobuf", '{"a": {"n": 42}}'),
        (b"\0\0\0\0\4\2\0\x0a\2\x08\x2a", "protobuf", '{"a": {"n": 42}}'),
        (b"\0\0\0\0\4\4\0\0\x12\2\x08\x2a", "protobuf", '{"b": {"n": 42}}'),
    ):
        shown = decoder.preview(raw)
        assert (shown.format, shown.text) == (kind, text)
    wrong = decoder.preview(b"\0\0\0\0\4\2\x20zzz")
    assert wrong.format == "hex"


def test_the_guid_in_a_header_names_the_schema(registry: MemoryRegistry) -> None:
    registry.put("s", AVRO)
    guid = uuid.UUID(registry.subjects["s"][0]["guid"])
    headers = ((VALUE_HEADER, guid_prefix(guid)),)
    schemas = schemas_of(registry)
    value, key = Decoder(Format.AUTO, schemas.find), Decoder(Format.AUTO, schemas.find, is_key=True)
    record = ReadRecord(partition=0, offset=0, timestamp_ms=0, key=b"\x54", value=b"\x54", headers=headers)
    fields = row(record, Decoders(key, value))
    assert fields["value"] == {"format": "avro", "size": 1, "text": '{"n": 42}', "schema_id": str(guid)}
    assert fields["key"] == {"format": "text", "size": 1, "text": "T"}, "the header is that of the value"
    assert value.tree(b"\x54", headers) == {"n": 42}
    selection = Selection(decoders=Decoders(key, value), record_filter=RecordFilter("value.n == 42"), limit=1)
    assert selection.holds(record)
    shown = value.full(b"\x54", ((VALUE_HEADER, b"\x01short"),))
    assert shown.format == "text", "a header without a guid is no schema"


def test_failures_are_errors_of_the_format_and_are_remembered(registry: MemoryRegistry) -> None:
    schemas = schemas_of(registry)
    for answer in (
        (404, {}, b'{"error_code": 40403, "message": "Schema 1 not found"}'),
        (302, {"Location": "http://169.254.169.254/"}, b""),
        (200, {}, b"[" * 100_000),
        (200, {}, b'{"schema": "{"}'),
        (200, {}, b'{"schema": "x", "schemaType": "CUSTOM"}'),
        (200, {}, b'{"schema": "x", "schemaType": "PROTOBUF", "references": [{"name": "a"}]}'),
        (200, {}, b'{"schema": "[7]"}'),
        (200, {}, b" " * (5 << 20)),
    ):
        registry.failures.append(answer)
    for number in (1, 1, 1, 2, 3, 4, 5, 6, 7, 8):
        with pytest.raises(FormatError):
            schemas.find(number)
    assert len(registry.calls) == 8


def test_a_mute_registry_gets_one_request_and_then_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registries, "REQUEST_SECONDS", 0.05)

    async def run() -> None:
        lookups = 0
        is_closed = asyncio.Event()

        async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal lookups
            lookups += 1
            await reader.read()
            writer.close()
            await writer.wait_closed()
            is_closed.set()

        server = await asyncio.start_server(mute, "127.0.0.1", 0)
        schemas = SchemaRegistry(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        for schema_id in range(50):
            with pytest.raises(FormatError, match=r"no answer within 0\.05 s"):
                await asyncio.to_thread(schemas.find, schema_id)
        assert lookups == 1
        await is_closed.wait()
        server.close()

    asyncio.run(run())


def test_a_slow_schema_is_given_up(registry: MemoryRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registries, "SCHEMA_SECONDS", 0.0)
    with pytest.raises(FormatError, match="did not send schema 1 within 0 s"):
        schemas_of(registry).find(1)


def test_after_the_pause_one_look_up_asks_the_registry_again(registry: MemoryRegistry) -> None:
    registry.put("s", AVRO)
    schemas = schemas_of(registry)
    schemas._note_silence("no answer")
    with pytest.raises(FormatError, match="no answer"):
        schemas.find(1)
    assert registry.calls == []
    schemas._silence = (0.0, "no answer")  # the pause is over
    schemas._try_again()
    with pytest.raises(FormatError, match="no answer"):
        schemas.known(6)  # another thread does not wait meanwhile
    schemas._silence = (0.0, "no answer")
    assert schemas.find(1).kind == "avro"
    assert schemas.known(6) is None, "the registry has answered, so the pause is over for all"


def test_a_request_looks_up_only_some_schemas(
    registry: MemoryRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(look_ups, "LOOK_UPS_MAX", 3)
    registry.put("s", AVRO)
    finder = LookUps(schemas_of(registry))
    assert finder.find(1).kind == "avro"
    for schema_id in (2, 2, 2, 3, 4, 5, 6):
        with pytest.raises(FormatError):
            finder.find(schema_id)
    assert len(registry.calls) == 3
    assert finder.find(1).kind == "avro", "a known schema needs no look-up"
    monkeypatch.setattr(look_ups, "LOOK_UPS_SECONDS", 0.0)
    with pytest.raises(FormatError, match="Schema 5 not found"):
        finder.find(5)


def test_the_work_stops_after_a_look_up_if_the_page_is_closed() -> None:
    ids: list[SchemaKey] = []
    stop = Stop(float("inf"))

    def find(schema_id: SchemaKey) -> SchemaCodec:
        ids.append(schema_id)
        stop.close()  # the page is closed during the look-up
        raise FormatError("unknown")

    values = tuple(b"\0" + bytes((0, 0, 0, n)) + b"x" for n in range(20))
    batch = encode_batch([record(n, value=value) for n, value in enumerate(values)])
    selection = Selection(decoders=Decoders(Decoder(Format.TEXT), Decoder(Format.AUTO, find)), limit=20)
    fetched = Fetched(partition=0, offset=0, records=batch, aborted=None, end=20)
    assert first_matches(fetched, 20, selection, stop).records == 1
    stop = Stop(float("inf"))
    assert last_matches([fetched, fetched], 20, selection, stop).records == 1
    assert ids == [0, 0]


@pytest.mark.parametrize(
    "url",
    ["", "localhost:8081", "a:1", "ftp://a:1", "http://", "http://a:99999", "http://a:1/?x=1", "file:///etc"],
)
def test_an_address_that_is_no_http_server_is_refused(url: str) -> None:
    with pytest.raises(ConfigError):
        SchemaRegistry(url)
