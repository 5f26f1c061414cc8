"""The client of a schema registry: its operations, several URLs, repetitions, logins and limits."""

from __future__ import annotations

import asyncio
import base64
import json
import uuid
from collections.abc import Coroutine, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest

from kcli.formats.codec import FormatError
from kcli.formats.registry import references
from kcli.formats.registry.blocking import waited
from kcli.formats.registry.client import RegistryClient
from kcli.formats.registry.contexts import context_of
from kcli.formats.registry.documents import ConfigDocument, ConfigUpdate, RegisterRequest, SchemaDefinition
from kcli.formats.registry.errors import RegistryError, RegistryRefused, RegistrySilent
from kcli.formats.registry.references import in_context, resolved_references
from kcli.formats.registry.settings import RegistrySettings, RegistryUrl
from kcli.formats.registry.subjects import Strategy, Subjects, plain_subject, strategy_of
from kcli.formats.registry.transport import Transport
from kcli.formats.schemas import SchemaReference
from rigs.certificates import make_certificates
from rigs.schema_registry import MemoryRegistry, memory_registry
from rigs.tls import server_context_of

T = TypeVar("T")

RECORD = '{"type":"record","name":"Order","fields":[]}'
ERROR_503 = (503, {}, b'{"error_code": 50301, "message": "later"}')


@pytest.fixture
def registry() -> Iterator[MemoryRegistry]:
    with memory_registry() as registry:
        yield registry


def settings(*urls: str, **others: str) -> RegistrySettings:
    properties = {"schema.registry.url": ",".join(urls), "retries.wait.ms": "1", **others}
    return RegistrySettings.of({name.replace("_", "."): text for name, text in properties.items()})


def client_of(registry: MemoryRegistry, **others: str) -> RegistryClient:
    return RegistryClient(settings(registry.url, **others))


def run(coroutine: Coroutine[object, None, T]) -> T:
    return asyncio.run(coroutine)


def test_a_schema_is_registered_looked_up_and_read(registry: MemoryRegistry) -> None:
    client, request = client_of(registry), RegisterRequest(SchemaDefinition(RECORD))
    made = run(client.register("a/b c", request, normalize=True))
    assert (made.id, made.version) == (1, 1) and made.guid is not None
    assert registry.targets == ["POST /subjects/a%2Fb%20c/versions?normalize=true"]
    assert registry.calls[0].headers["Content-Type"] == "application/vnd.schemaregistry.v1+json"
    assert run(client.look_up("a/b c", request.definition)).id == 1
    assert run(client.schema_by_id(1, subject="a/b c", format="resolved")).definition.text == RECORD
    assert registry.targets[-1] == "GET /schemas/ids/1?subject=a%2Fb%20c&format=resolved"
    assert run(client.schema_by_guid(uuid.UUID(made.guid))).definition.text == RECORD
    assert run(client.version("a/b c")).version == 1
    assert run(client.version("a/b c", 1)).definition == request.definition
    assert run(client.versions("a/b c")) == (1,)
    assert run(client.subjects()) == ("a/b c",)
    assert [(held.subject, held.version) for held in run(client.versions_of_id(1))] == [("a/b c", 1)]
    assert run(client.ids_of_guid(uuid.UUID(made.guid)))[0].id == 1


def test_the_other_operations_have_their_endpoints(registry: MemoryRegistry) -> None:
    client = client_of(registry)
    for nth in range(3):
        registry.put("s", f'"{("int", "long", "string")[nth]}"')
    user = registry.put("t", RECORD, references=[{"name": "x", "subject": "s", "version": 2}])

    async def everything() -> None:
        assert await client.referenced_by("s", 2) == (user,)
        assert [held.id async for held in client.all_schemas()] == [1, 2, 3, 4]
        assert await client.delete_version("s", 1) == 1
        assert await client.delete_subject("s", permanent=True) == (2, 3)
        assert (await client.version("s", 3, deleted=True)).id == 3
        assert await client.schema_types() == ("JSON", "PROTOBUF", "AVRO")
        assert await client.contexts() == (".",)
        answer = await client.check("s", SchemaDefinition('"int"'), "latest")
        assert (answer.is_compatible, answer.messages) == (False, ("it never is",))
        update = ConfigUpdate(ConfigDocument(compatibility_level="FULL"))
        assert await client.set_config(update, "s") == update
        assert (await client.config("s", default_to_global=True)).compatibility_level == "FULL"
        assert (await client.delete_config("s")).compatibility_level == "FULL"
        assert (await client.config()).compatibility_level == "BACKWARD"
        assert (await client.set_mode("IMPORT", "s", force=True)).mode == "IMPORT"
        assert (await client.mode("s")).mode == "IMPORT"
        assert (await client.delete_mode("s")).mode == "IMPORT"
        registry.subjects["t"][0]["metadata"] = {"properties": {"a": "1", "b": "2", "c": "3"}}
        assert (await client.latest_with_metadata("t", {"a": "1", "b": "2"})).id == user
        assert registry.targets[-1] == "GET /subjects/t/metadata?key=a&key=b&value=1&value=2"

    run(everything())


def test_all_schemas_are_read_page_by_page(registry: MemoryRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcli.formats.registry.client.PAGE_SCHEMAS", 2)
    for nth in range(5):
        registry.put(f"s{nth}", f'{{"type":"enum","name":"E{nth}","symbols":[]}}')

    async def ids() -> list[int]:
        return [held.id async for held in client_of(registry).all_schemas()]

    assert run(ids()) == [1, 2, 3, 4, 5]
    assert len(registry.calls) == 4, (
        "a short page may be the limit of the registry, so an empty page is the end"
    )
    whole = json.dumps([held for versions in registry.subjects.values() for held in versions]).encode()
    registry.failures += [(200, {}, whole)] * 2
    assert run(ids()) == [1, 2, 3, 4, 5], "a registry that ignores offset and limit sends all each time"


def test_errors_of_the_registry_have_its_code_and_text(registry: MemoryRegistry) -> None:
    with pytest.raises(RegistryRefused, match=r"Subject 's' not found\.") as refused:
        run(client_of(registry).version("s"))
    assert (refused.value.status, refused.value.code) == (404, 40401)
    registry.failures.append((302, {"Location": "http://169.254.169.254/"}, b""))
    with pytest.raises(RegistryRefused, match="redirects are not followed"):
        run(client_of(registry).subjects())
    registry.failures.append((401, {}, b"<html>no</html>"))
    with pytest.raises(RegistryRefused, match=r"answered with status 401$"):
        run(client_of(registry).subjects())
    registry.failures.append((403, {}, b" no \n rights "))
    with pytest.raises(RegistryRefused, match=r"status 403: no rights$"):
        run(client_of(registry).subjects())


@pytest.mark.parametrize("body", [b"{}", b"[1]", b'"a"', b"7", b'[{"subject": 1}]'])
def test_an_answer_of_another_form_is_an_error(registry: MemoryRegistry, body: bytes) -> None:
    registry.failures.append((200, {}, body))
    with pytest.raises(RegistryError, match="is invalid: "):
        run(client_of(registry).subjects())


@pytest.mark.parametrize("body", [b"<html>", b"[" * 100_000, b"\xff"])
def test_an_answer_without_json_is_an_error(registry: MemoryRegistry, body: bytes) -> None:
    registry.failures.append((200, {}, body))
    with pytest.raises(RegistryError, match="is not a schema registry"):
        run(client_of(registry).subjects())
    assert len(registry.calls) == 1, "another attempt would get the same answer"


def test_a_long_answer_is_refused_and_not_repeated(registry: MemoryRegistry) -> None:
    registry.failures.append((200, {}, b" " * 200_000))
    client = RegistryClient(settings(registry.url), answer_max_bytes=100_000)
    with pytest.raises(RegistryError, match="more than 100000 bytes"):
        run(client.subjects())
    assert len(registry.calls) == 1


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_request_is_repeated_after_a_passing_error(registry: MemoryRegistry, status: int) -> None:
    registry.failures += [(status, {}, b"")] * 3
    assert run(client_of(registry).subjects()) == ()
    assert len(registry.calls) == 4
    registry.failures += [(status, {}, b'{"error_code": 50001, "message": "disk"}')] * 4
    with pytest.raises(RegistryRefused, match="disk"):
        run(client_of(registry).subjects())
    assert len(registry.calls) == 8


def test_the_next_url_is_tried_and_the_one_that_answered_comes_first(registry: MemoryRegistry) -> None:
    client = RegistryClient(
        settings("http://127.0.0.1:1", registry.url, "http://127.0.0.1:2", max_retries="0")
    )
    assert run(client.subjects()) == ()
    assert client._transport._first == 1
    registry.failures.append(ERROR_503)
    with pytest.raises(RegistryRefused, match="later"):
        run(client.subjects())
    with pytest.raises(RegistrySilent, match=r"http://127.0.0.1:1 cannot be reached: "):
        run(RegistryClient(settings("http://127.0.0.1:1", max_retries="0")).subjects())


def test_a_mute_registry_is_given_up() -> None:
    async def mute() -> None:
        is_closed = asyncio.Event()

        async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()
            await writer.wait_closed()
            is_closed.set()

        server = await asyncio.start_server(wait, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        chosen = replace(settings(f"http://127.0.0.1:{port}", max_retries="0"), request_seconds=0.05)
        with pytest.raises(RegistrySilent, match=r"no answer within 0.05 s"):
            await RegistryClient(chosen).subjects()
        await is_closed.wait()
        server.close()

    run(mute())


def test_pauses_double_up_to_their_limit() -> None:
    transport = Transport(settings("http://a", retries_wait_ms="100", retries_max_wait_ms="250"))
    for attempt, limit_s in ((0, 0.1), (1, 0.2), (2, 0.25), (99, 0.25)):
        assert all(0 <= transport._pause_s(attempt) <= limit_s for _ in range(50))


@pytest.mark.parametrize(
    ("user", "properties", "login"),
    [
        ("me:p%40ss@", {}, "me:p@ss"),
        ("", {"basic_auth_user_info": "u:p:w"}, "u:p:w"),
        ("me:x@", {"basic_auth_credentials_source": "USER_INFO", "basic_auth_user_info": "u:p"}, "u:p"),
        ("", {"schema_registry_basic_auth_user_info": "u:p"}, "u:p"),
        (
            "",
            {
                "basic_auth_credentials_source": "SASL_INHERIT",
                "sasl_mechanism": "PLAIN",
                "sasl_jaas_config": 'PlainLoginModule required username="s" password="q";',
            },
            "s:q",
        ),
    ],
)
def test_logins_with_a_password(
    registry: MemoryRegistry, user: str, properties: dict[str, str], login: str
) -> None:
    chosen = settings(registry.url.replace("//", f"//{user}"), **properties)
    assert login not in repr(chosen) and login not in chosen.shown
    run(RegistryClient(chosen).subjects())
    assert registry.calls[-1].headers["Authorization"] == f"Basic {base64.b64encode(login.encode()).decode()}"


def test_bearer_tokens_and_other_headers(registry: MemoryRegistry) -> None:
    others = {
        "bearer_auth_credentials_source": "STATIC_TOKEN",
        "bearer_auth_token": "secret",
        "bearer_auth_logical_cluster": "lsrc-1",
        "request_header_X-Team": "orders",
    }
    chosen = settings(registry.url, **others)
    assert "secret" not in repr(chosen)
    run(RegistryClient(chosen).subjects())
    headers = registry.calls[-1].headers
    assert headers["Authorization"] == "Bearer secret"
    assert (headers["target-sr-cluster"], headers["X-Team"]) == ("lsrc-1", "orders")


def test_a_token_comes_from_an_endpoint(registry: MemoryRegistry) -> None:
    others = {
        "bearer_auth_credentials_source": "OAUTHBEARER",
        "bearer_auth_issuer_endpoint_url": f"{registry.url}/token",
        "bearer_auth_client_id": "me",
        "bearer_auth_client_secret": "s",
    }
    with pytest.raises(RegistryError, match="no token for the schema registry"):
        run(
            client_of(
                registry, **others | {"bearer_auth_issuer_endpoint_url": "http://127.0.0.1:1"}
            ).subjects()
        )
    registry.failures.append((200, {}, json.dumps({"access_token": "made"}).encode()))
    run(client_of(registry, **others).subjects())
    assert registry.calls[0].target == "/token"
    assert registry.calls[-1].headers["Authorization"] == "Bearer made"


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"schema.registry.url": ""}, "expected 1 to 100 URLs"),
        ({"schema.registry.url": "localhost:8081"}, "localhost:8081: expected the URL"),
        ({"schema.registry.url": "ftp://a"}, "expected the URL"),
        ({"schema.registry.url": "http://u:secret@a:0"}, "^a:0: expected the URL"),
        ({"schema.registry.url": "http://a/?x=1"}, "expected the URL"),
        ({}, 'Missing required configuration "schema.registry.url"'),
        ({"proxy.host": "p"}, "proxy.host"),
        ({"basic.auth.credentials.source": "FILE"}, "basic.auth.credentials.source"),
        ({"basic.auth.credentials.source": "USER_INFO"}, "expected user:password"),
        ({"bearer.auth.credentials.source": "STATIC_TOKEN"}, "expected a token"),
        ({"bearer.auth.credentials.source": "CUSTOM"}, "bearer.auth.credentials.source"),
        ({"bearer.auth.credentials.source": "OAUTHBEARER"}, "bearer.auth.client.id is not set"),
        ({"max.retries": "-1"}, "Value must be at least 0"),
        ({"request.header.A": "b\r\nc"}, "without control characters"),
        ({"schema.registry.url": "https://a", "schema.registry.ssl.keystore.type": "x"}, "keystore.type"),
    ],
)
def test_wrong_settings_are_named(properties: dict[str, str], reason: str) -> None:
    usual = {} if not properties else {"schema.registry.url": "http://a"}
    with pytest.raises(ValueError, match=reason) as wrong:
        RegistrySettings.of({**usual, **properties})
    assert "secret" not in str(wrong.value)


def test_a_url_keeps_its_path_and_loses_its_login() -> None:
    assert RegistryUrl.read(" https://u:p@[::1]:8/a/b/ ") == RegistryUrl("https://[::1]:8/a/b", "u:p")
    assert RegistryUrl.read("http://registry") == RegistryUrl("http://registry")


def test_tls_trusts_the_authority_of_the_settings(tmp_path: Path) -> None:
    certificates = make_certificates(str(tmp_path))
    context = server_context_of(certificates)

    async def serve() -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n["s"]')
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        trust = {"schema_registry_ssl_truststore_location": certificates.authority.pem}
        assert await RegistryClient(settings(url, **trust)).subjects() == ("s",)
        with pytest.raises(RegistrySilent, match="cannot be reached: "):
            await RegistryClient(settings(url, max_retries="0")).subjects()
        trust = {"schema_registry_ssl_truststore_location": str(tmp_path / "missing.pem")}
        with pytest.raises(RegistryError, match=r"missing\.pem"):
            await RegistryClient(settings(url, **trust)).subjects()
        server.close()

    run(serve())


def test_references_come_after_those_that_they_use(registry: MemoryRegistry) -> None:
    registry.put("c", "C")
    registry.put("b", "B", references=[{"name": "c.x", "subject": "c", "version": 1}])
    used = [{"name": "b.x", "subject": "b", "version": -1}, {"name": "c.x", "subject": "c", "version": 1}]
    registry.put("a", "A", references=used)
    run(client_of(registry).delete_subject("c"))
    references = run(client_of(registry).version("a")).definition.references
    resolved = run(resolved_references(client_of(registry), references))
    assert list(resolved.items()) == [("c.x", "C"), ("b.x", "B")]
    with pytest.raises(RegistryRefused, match="Subject 'd' not found"):
        run(resolved_references(client_of(registry), [SchemaReference("d", "d", 1)]))


def test_endless_references_end(registry: MemoryRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    registry.put("a", "A", references=[{"name": "b", "subject": "b", "version": 1}])
    registry.put("b", "B", references=[{"name": "a", "subject": "a", "version": 1}])
    assert run(resolved_references(client_of(registry), [SchemaReference("a", "a", 1)])) == {
        "b": "B",
        "a": "A",
    }
    for limit, reason in (
        ("REFERENCES_MAX", "refers to more than 1 schemas"),
        ("DEPTH_MAX", "more than 0 refer"),
    ):
        monkeypatch.setattr(references, limit, 1 if limit == "REFERENCES_MAX" else 0)
        with pytest.raises(FormatError, match=reason):
            run(resolved_references(client_of(registry), [SchemaReference("a", "a", 1)]))


def test_references_stay_in_the_context_of_their_schema() -> None:
    assert context_of(":.eu:orders") == ".eu" and context_of("orders") == "." and context_of(":x") == "."
    assert in_context("item", ":.eu:orders") == ":.eu:item"
    assert in_context(":.us:item", ":.eu:orders") == ":.us:item"
    assert in_context("item", "orders") == in_context("item", None) == "item"


def test_the_plain_strategies() -> None:
    assert plain_subject(Strategy.TOPIC, "t", None, is_key=True) == "t-key"
    assert plain_subject(Strategy.TOPIC, "t", None, is_key=False) == "t-value"
    assert plain_subject(Strategy.RECORD, "t", "a.B", is_key=False) == "a.B"
    assert plain_subject(Strategy.TOPIC_RECORD, "t", "a.B", is_key=False) == "t-a.B"
    with pytest.raises(FormatError, match="needs a schema with a name"):
        plain_subject(Strategy.RECORD, "t", None, is_key=False)
    assert strategy_of("io.confluent.kafka.serializers.subject.RecordNameStrategy") is Strategy.RECORD
    assert strategy_of("associated") is Strategy.ASSOCIATED
    with pytest.raises(FormatError, match=r"unknown subject name strategy x\.Mine"):
        strategy_of("x.Mine")


def test_an_association_is_asked_for_once(registry: MemoryRegistry) -> None:
    registry.associations = {"t": ["orders"], "u": ["a", "b"], "v": []}
    subjects = Subjects(client_of(registry))
    for _ in range(2):
        assert run(subjects.subject("t", None, is_key=False)) == "orders"
        assert run(subjects.subject("v", None, is_key=False)) == "v-value"
        assert run(subjects.subject("none", None, is_key=True)) == "none-key", "404 is no error"
    assert registry.targets == [
        f"GET /associations/resources/-/{topic}?resourceType=topic&associationType={kind}"
        for topic, kind in (("t", "value"), ("v", "value"), ("none", "key"))
    ]
    with pytest.raises(FormatError, match="associated with the subjects a, b"):
        run(subjects.subject("u", None, is_key=False))
    strict = Subjects(client_of(registry), fallback=Strategy.NONE)
    with pytest.raises(FormatError, match="no subject is associated with the values of v"):
        run(strict.subject("v", None, is_key=False))


def test_code_on_an_event_loop_can_wait_too(registry: MemoryRegistry) -> None:
    client = client_of(registry)
    assert waited(client.subjects()) == ()

    async def on_a_loop() -> tuple[str, ...]:
        return waited(client.subjects())

    assert run(on_a_loop()) == ()
    with pytest.raises(RegistryRefused):
        waited(client.version("s"))
