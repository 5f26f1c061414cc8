"""The schemas of a registry: only from the one address, with limits, and only if their values can be decoded safely."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable

import pytest

from kcli.console.messages import look_ups
from kcli.console.messages import registry as registries
from kcli.console.messages.decoding import Decoder, Format, SchemaCodec
from kcli.console.messages.fetching import Fetched
from kcli.console.messages.look_ups import LookUps
from kcli.console.messages.matching import Selection, Stop, first_matches, last_matches
from kcli.console.messages.registry import InvalidRegistry, SchemaRegistry, registry_address
from kcli.console.messages.rows import Decoders
from kcli.formats.codec import FormatError
from kcli.http.server import HttpServer, Request, Response, get
from kcli.protocol.batches.batch import encode_batch
from kcli.runtime.network import SystemNetwork
from rigs.console_topics import record
from rigs.protobuf import descriptors

AVRO = json.dumps({"type": "record", "name": "O", "fields": [{"name": "n", "type": "int"}]})


class Registry:
    """A registry with the answers of a test, which counts requests."""

    def __init__(self, answers: dict[str, object]) -> None:
        self.answers, self.asked = answers, []

    async def handle(self, request: Request) -> Response:
        self.asked.append(request.path_qs)
        self.authorization = request.headers.get("Authorization")
        answer = self.answers.get(request.path_qs)
        if isinstance(answer, Response):
            return answer
        return Response(status=404 if answer is None else 200, body=json.dumps(answer).encode())


def with_registry(
    answers: dict[str, object], use: Callable[[SchemaRegistry, Registry], Awaitable[None]], login: str = ""
) -> None:
    async def run() -> None:
        registry = Registry(answers)
        server = HttpServer([get("/{path:.*}", registry.handle)], SystemNetwork())
        port = await server.start("127.0.0.1", 0)
        try:
            schemas = SchemaRegistry(registry_address(f"http://{login}127.0.0.1:{port}/base/"))
            schemas.start()
            await use(schemas, registry)
        finally:
            await server.stop()

    asyncio.run(run())


def test_an_avro_value_is_decoded_and_its_schema_is_requested_once() -> None:
    async def use(schemas: SchemaRegistry, registry: Registry) -> None:
        decoder = Decoder(Format.AUTO, schemas.find)
        for _ in range(3):
            shown = await asyncio.to_thread(decoder.preview, b"\x00\x00\x00\x00\x05\x54")
            assert (shown.text, shown.format, shown.schema_id) == ('{"n": 42}', "avro", 5)
        assert registry.asked == ["/base/schemas/ids/5"]
        assert registry.authorization == "Basic " + base64.b64encode(b"me:p@ss").decode()

    with_registry({"/base/schemas/ids/5": {"schema": AVRO}}, use, "me:p%40ss@")


def test_a_protobuf_value_is_decoded_with_its_imports() -> None:
    from google.protobuf import descriptor_pb2, message_factory
    from google.protobuf.descriptor_pool import DescriptorPool

    files = descriptor_pb2.FileDescriptorSet.FromString(descriptors())
    own = files.file[1]
    pool = DescriptorPool()
    for file in files.file:
        pool.Add(file)
    order = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))(id=7, tags=["a"])
    answers = {
        "/base/schemas/ids/9": {"schemaType": "PROTOBUF", "schema": "…"},
        "/base/schemas/ids/9?format=serialized": {
            "schema": base64.b64encode(own.SerializeToString()).decode()
        },
    }

    async def use(schemas: SchemaRegistry, registry: Registry) -> None:
        decoder = Decoder(Format.AUTO, schemas.find)
        for path in (b"\x00", b"\x02\x00"):
            raw = b"\x00\x00\x00\x00\x09" + path + order.SerializeToString()
            shown = await asyncio.to_thread(decoder.preview, raw)
            assert shown.format == "protobuf" and json.loads(shown.text)["id"] == 7
        wrong = await asyncio.to_thread(decoder.preview, b"\x00\x00\x00\x00\x09\x02\x20zzz")
        assert wrong.format == "hex"

    with_registry(answers, use)


def test_failures_are_errors_of_the_format_and_are_remembered() -> None:
    async def use(schemas: SchemaRegistry, registry: Registry) -> None:
        for number in (1, 1, 1, 2, 3, 4, 5, 6, 7):
            with pytest.raises(FormatError):
                await asyncio.to_thread(schemas.find, number)
        assert len(registry.asked) == 7

    answers: dict[str, object] = {
        "/base/schemas/ids/2": Response(status=302, headers={"Location": "http://169.254.169.254/"}),
        "/base/schemas/ids/3": Response(body=b"[" * 100_000),
        "/base/schemas/ids/4": {"schema": "{"},
        "/base/schemas/ids/5": {"schemaType": "CUSTOM"},
        "/base/schemas/ids/6": {"schemaType": "PROTOBUF", "references": [{"name": "a"}]},
        "/base/schemas/ids/7": {"schema": "[7]"},
    }
    with_registry(answers, use)


def test_a_mute_registry_gets_one_request_and_then_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registries, "REQUEST_SECONDS", 0.05)

    async def run() -> None:
        lookups = 0

        async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal lookups
            lookups += 1
            await reader.read()
            writer.close()

        server = await asyncio.start_server(mute, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        schemas = SchemaRegistry(registry_address(f"http://127.0.0.1:{port}"))
        schemas.start()
        for schema_id in range(50):
            with pytest.raises(FormatError, match="no answer in time"):
                await asyncio.to_thread(schemas.find, schema_id)
        assert lookups == 1
        server.close()

    asyncio.run(run())


def test_after_the_pause_one_look_up_asks_the_registry_again() -> None:
    async def use(schemas: SchemaRegistry, registry: Registry) -> None:
        schemas._note_silence("no answer")
        with pytest.raises(FormatError, match="no answer"):
            await asyncio.to_thread(schemas.find, 5)
        assert registry.asked == []
        schemas._silence = (0.0, "no answer")  # the pause is over
        schemas._try_again()
        with pytest.raises(FormatError, match="no answer"):
            schemas.known(6)  # another thread does not wait meanwhile
        schemas._silence = (0.0, "no answer")
        assert (await asyncio.to_thread(schemas.find, 5)).kind == "avro"
        assert schemas.known(6) is None, "the registry has answered, so the pause is over for all"

    with_registry({"/base/schemas/ids/5": {"schema": AVRO}}, use)


def test_a_request_looks_up_only_some_schemas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look_ups, "LOOK_UPS_MAX", 3)

    async def use(schemas: SchemaRegistry, registry: Registry) -> None:
        finder = LookUps(schemas)
        assert (await asyncio.to_thread(finder.find, 5)).kind == "avro"
        for schema_id in (1, 1, 1, 2, 3, 4, 6):
            with pytest.raises(FormatError):
                await asyncio.to_thread(finder.find, schema_id)
        assert len(registry.asked) == 3
        assert finder.find(5).kind == "avro", "a known schema needs no look-up"
        monkeypatch.setattr(look_ups, "LOOK_UPS_SECONDS", 0.0)
        with pytest.raises(FormatError, match="does not know"):
            await asyncio.to_thread(finder.find, 4)

    with_registry({"/base/schemas/ids/5": {"schema": AVRO}}, use)


def test_the_work_stops_after_a_look_up_if_the_page_is_closed() -> None:
    ids: list[int] = []
    stop = Stop(float("inf"))

    def find(schema_id: int) -> SchemaCodec:
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


def test_an_answer_that_is_too_large_is_refused() -> None:
    async def use(schemas: SchemaRegistry, registry: Registry) -> None:
        with pytest.raises(FormatError, match="cannot be read"):
            await schemas.codec(1)

    with_registry({"/base/schemas/ids/1": Response(body=b" " * (5 << 20))}, use)


@pytest.mark.parametrize(
    "url", ["", "localhost:8081", "ftp://a:1", "http://", "http://a:99999", "http://a:1/?x=1", "file:///etc"]
)
def test_an_address_that_is_no_http_server_is_refused(url: str) -> None:
    with pytest.raises(InvalidRegistry):
        registry_address(url)


def test_addresses_have_default_ports_and_do_not_show_passwords() -> None:
    address = registry_address("https://u:secret@registry.example/path/")
    assert (address.address.port, address.path, address.credentials) == (443, "/path", "u:secret")
    assert "secret" not in repr(address)
