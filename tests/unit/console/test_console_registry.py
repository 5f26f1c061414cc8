"""The schemas of a registry: only from the one address, with limits, and only if their values can be decoded safely."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable

import pytest

from kcli.console.messages.avro_arrays import without_endless_arrays
from kcli.console.messages.decoding import Decoder, Format
from kcli.console.messages.registry import InvalidRegistry, SchemaRegistry, registry_address
from kcli.formats.codec import FormatError
from kcli.http.server import HttpServer, Request, Response, get
from kcli.runtime.network import SystemNetwork
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
    found = registry_address("https://u:secret@registry.example/path/")
    assert (found.address.port, found.path, found.credentials) == (443, "/path", "u:secret")
    assert "secret" not in repr(found)


@pytest.mark.parametrize(
    "items",
    [
        "null",
        {"type": "record", "name": "E", "fields": []},
        {"type": "record", "name": "E", "fields": [{"name": "a", "type": "null"}]},
        {"type": "fixed", "name": "F", "size": 0},
    ],
)
def test_an_array_whose_elements_have_no_bytes_is_refused(items: object) -> None:
    for schema in (
        {"type": "array", "items": items},
        ["null", {"type": "map", "values": {"type": "array", "items": items}}],
        {"type": "record", "name": "R", "fields": [{"name": "a", "type": {"type": "array", "items": items}}]},
    ):
        with pytest.raises(FormatError, match="no bytes"):
            without_endless_arrays(schema)


def test_an_array_of_a_named_type_without_bytes_is_refused() -> None:
    empty = {"type": "record", "name": "E", "namespace": "a", "fields": [{"name": "x", "type": "null"}]}
    outer = {
        "type": "record",
        "name": "F",
        "fields": [{"name": "e", "type": empty}, {"name": "f", "type": "a.E"}],
    }
    fields = [{"name": "a", "type": outer}, {"name": "b", "type": {"type": "array", "items": "F"}}]
    with pytest.raises(FormatError, match="no bytes"):
        without_endless_arrays({"type": "record", "name": "R", "fields": fields})


def test_usual_schemas_are_accepted() -> None:
    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "a", "type": {"type": "array", "items": ["null", "string"]}},
            {"name": "b", "type": ["null", "R"]},
            {"name": "c", "type": {"type": "array", "items": {"type": "fixed", "name": "F", "size": 4}}},
        ],
    }
    assert without_endless_arrays(schema) is schema
