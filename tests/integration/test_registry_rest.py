"""Every resource of the REST API of a registry on a real broker, with right, wrong and missing parts.

The schemas are those of a small language, in which `{"a":null}` has a field that readers require.
"""

from __future__ import annotations

import asyncio
import gc
import json
import threading
from pathlib import Path
from typing import NamedTuple

import pytest

from kcli.http.rest.routing import Call, Reply
from kcli.registry.decisions import schemas
from kcli.registry.decisions.decision import Decision
from kcli.registry.decisions.errors import RegistryError
from kcli.registry.decisions.rules import Rules
from kcli.registry.registry import REGISTER
from kcli.runtime.network import SystemNetwork
from kcli.server.beans.exposition.program_endpoint import MetricsServer
from rigs import node
from rigs.connect_programs import request
from rigs.loops import on_a_loop
from rigs.registry_programs import TYPE, Program, registry
from rigs.small_schemas import small_language


@pytest.fixture(autouse=True)
def small_languages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas, "language_of", small_language)


class Step(NamedTuple):
    """A request and its answer: the whole JSON, the members that are checked, or the code of an error."""

    request: str
    body: object = None
    answer: object = None
    status: int = 200


class Error(NamedTuple):
    code: int
    text: str = ""


class Has(NamedTuple):
    """Members that the answer has among others. None stands for a member that is missing."""

    members: dict[str, object]


A, AB, B = '{"a":1}', '{"a":1,"b":2}', '{"c":null}'
NOT_FOUND = Error(404, "HTTP 404 Not Found")

REGISTRATIONS = (
    Step("GET /", answer={}),
    Step("POST /", {}, {}),
    Step("GET /subjects", answer=[]),
    Step("GET /schemas", answer=[]),
    Step("GET /subjects/s/versions", answer=Error(40401, "Subject 's' not found."), status=404),
    Step("POST /subjects/s/versions", {"schema": A}, Has({"id": 1, "version": 1, "schema": A, "schemaType": "AVRO"})),
    Step("POST /subjects/s/versions/", {"schema": A, "unknown": [1]}, Has({"id": 1, "version": 1})),
    Step("POST /subjects/s/versions?normalize=False", {"schema": AB}, Has({"id": 2, "version": 2})),
    Step("POST /subjects/t/versions", {"schema": A}, Has({"id": 1, "version": 1})),
    Step("POST /subjects/s/versions", {"schema": B}, Error(409, "is incompatible with an earlier schema"), 409),
    Step("POST /subjects/s/versions?force=True", {"schema": B}, Has({"id": 3, "version": 3})),
    Step("POST /subjects/s/versions", {"schema": "{"}, Error(42201, "Invalid schema of type AVRO, details:"), 422),
    Step("POST /subjects/s/versions", {"schema": A, "schemaType": "X"}, Error(42201, "Invalid schema type X"), 422),
    Step("POST /subjects/s/versions", {"schema": A, "id": 7}, Error(42205, "is not in import mode"), 422),
    Step("POST /subjects/s/versions", {"schema": A, "version": "x"}, Error(400, "version"), 400),
    Step("POST /subjects/a%0Ab/versions", {"schema": A}, Error(42208), 422),
    Step("POST /subjects/new/versions", {}, Error(42201, "Empty schema"), 422),
    Step("POST /subjects/x%2Fy%20z/versions", {"schema": A}, Has({"id": 1})),
    Step("GET /subjects", answer=["s", "t", "x/y z"]),
    Step("GET /subjects?subjectPrefix=x&offset=0&limit=1", answer=["x/y z"]),
    Step("GET /subjects?offset=1&limit=1", answer=["t"]),
    Step("GET /subjects?offset=9", answer=[]),
    Step("GET /subjects?offset=x", answer=NOT_FOUND, status=404),
    Step("GET /subjects/s/versions", answer=[1, 2, 3]),
    Step("GET /subjects/s/versions?limit=2", answer=[1, 2]),
    Step("GET /subjects/s/versions/1", answer=Has({"subject": "s", "version": 1, "id": 1, "schema": A})),
    Step("GET /subjects/s/versions/latest", answer=Has({"version": 3, "id": 3})),
    Step("GET /subjects/s/versions/-1", answer=Has({"version": 3})),
    Step("GET /subjects/s/versions/9", answer=Error(40402, "Version 9 not found."), status=404),
    Step("GET /subjects/s/versions/0", answer=Error(42202), status=422),
    Step("GET /subjects/s/versions/x", answer=Error(42202, "version 'x' is not a valid version id"), status=422),
    Step("GET /subjects/no/versions/1", answer=Error(40401), status=404),
    Step("GET /subjects/s/versions/1/schema", answer=json.loads(A)),
    Step("GET /subjects/s/versions/9/schema", answer=Error(40402), status=404),
    Step("GET /subjects/s/versions/2/schema?format=resolved", answer=json.loads(AB)),
)  # fmt: skip

LOOK_UPS = (
    Step("POST /subjects/s", {"schema": A}, Has({"subject": "s", "id": 1, "version": 1})),
    Step("POST /subjects/s?normalize=TRUE", {"schema": '{"b":2,"a":1}'}, Has({"id": 2})),
    Step("POST /subjects/s", {"schema": '{"z":1}'}, Error(40403, "Schema not found"), 404),
    Step("POST /subjects/no", {"schema": A}, Error(40401, "Subject 'no' not found."), 404),
    Step("POST /subjects/s", {"schema": "{"}, Error(42201), 422),
    Step("GET /schemas/types", answer=["JSON", "PROTOBUF", "AVRO"]),
    Step("GET /schemas/ids/1", answer=Has({"schema": A, "schemaType": "AVRO", "subject": None, "maxId": None})),
    Step("GET /schemas/ids/1?subject=t&fetchMaxId=TRUE", answer=Has({"subject": "t", "version": 1, "maxId": 3})),
    Step("GET /schemas/ids/2?format=resolved", answer=Has({"schema": AB})),
    Step("GET /schemas/ids/99", answer=Error(40403, "Schema 99 not found"), status=404),
    Step("GET /schemas/ids/x", answer=NOT_FOUND, status=404),
    Step("GET /schemas/ids/1/schema", answer=json.loads(A)),
    Step("GET /schemas/ids/99/schema", answer=Error(40403), status=404),
    Step("GET /schemas/ids/1/subjects", answer=["s", "t", "x/y z"]),
    Step("GET /schemas/ids/1/subjects?limit=1&offset=1", answer=["t"]),
    Step("GET /schemas/ids/99/subjects", answer=Error(40403, "Schema not found"), status=404),
    Step("GET /schemas/ids/2/versions", answer=[{"subject": "s", "version": 2}]),
    Step("GET /schemas/ids/99/versions", answer=Error(40403), status=404),
    Step("GET /schemas/guids/no", answer=Error(40403, "Schema no not found"), status=404),
    Step("GET /schemas/guids/no/ids", answer=[]),
    Step("GET /subjects/s/metadata?key=a&value=b", answer=Error(40403), status=404),
    Step("GET /subjects/no/metadata", answer=Error(40401), status=404),
    Step("POST /subjects/m/versions", {"schema": A, "metadata": {"properties": {"a": "b"}}}, Has({"id": 4})),
    Step("GET /subjects/m/metadata?key=a&value=b", answer=Has({"id": 4, "metadata": {"properties": {"a": "b"}}})),
    Step("GET /subjects/s/versions/1/referencedby", answer=[]),
    Step(
        "POST /subjects/r/versions",
        {"schema": '{"$n":"s1"}', "references": [{"name": "s1", "subject": "s", "version": 1}]},
        Has({"id": 5}),
    ),
    Step("GET /subjects/s/versions/1/referencedby", answer=[5]),
    Step("GET /subjects/s/versions/9/referencedby", answer=Error(40402), status=404),
    Step("GET /subjects/r/versions/1?format=resolved", answer=Has({"schema": A})),
    Step("GET /schemas?subjectPrefix=s&latestOnly=true", answer=[{"subject": "s", "version": 3}]),
    Step("GET /schemas?limit=1&offset=1", answer=[{"subject": "r", "version": 1}]),
)  # fmt: skip

CHECKS = (
    Step("POST /compatibility/subjects/s/versions", {"schema": '{"c":1}'}, {"is_compatible": True}),
    Step("POST /compatibility/subjects/s/versions", {"schema": '{"z":null}'}, {"is_compatible": False}),
    Step("POST /compatibility/subjects/s/versions/1/", {"schema": A}, {"is_compatible": True}),
    Step("POST /compatibility/subjects/s/versions/latest?verbose=true", {"schema": '{"c":1}'}, Has({"messages": []})),
    Step("POST /compatibility/subjects/s/versions/1?verbose=True", {"schema": B}, Has({"is_compatible": False})),
    Step("POST /compatibility/subjects/s/versions/9", {"schema": A}, Error(40402), 404),
    Step("POST /compatibility/subjects/s/versions/x", {"schema": A}, Error(42202), 422),
    Step("POST /compatibility/subjects/no/versions/latest", {"schema": A}, {"is_compatible": True}),
    Step("POST /compatibility/subjects/s/versions", {"schema": "{"}, Error(42201), 422),
)  # fmt: skip

SCOPES = (
    Step("GET /config", answer={"compatibilityLevel": "BACKWARD"}),
    Step("GET /config/s", answer=Error(40408), status=404),
    Step("GET /config/s?defaultToGlobal=TRUE", answer={"compatibilityLevel": "BACKWARD"}),
    Step("PUT /config/s", {"compatibility": "full"}, {"compatibility": "FULL"}),
    Step("GET /config/s", answer={"compatibilityLevel": "FULL"}),
    Step("PUT /config/s", {"compatibility": "sideways"}, Error(42203), 422),
    Step("DELETE /config/s", answer={"compatibilityLevel": "FULL"}),
    Step("DELETE /config/s", answer=Error(40401), status=404),
    Step("PUT /config", {"compatibility": "NONE"}, {"compatibility": "NONE"}),
    Step("DELETE /config", answer={"compatibilityLevel": "NONE"}),
    Step("GET /mode", answer={"mode": "READWRITE"}),
    Step("GET /mode/s", answer=Error(40409), status=404),
    Step("GET /mode/s?defaultToGlobal=true", answer={"mode": "READWRITE"}),
    Step("PUT /mode/s", {"mode": "READONLY"}, {"mode": "READONLY"}),
    Step("POST /subjects/s/versions", {"schema": '{"q":1}'}, Error(42205, "is in read-only mode"), 422),
    Step("PUT /mode/s", {"mode": "NO"}, Error(42204), 422),
    Step("DELETE /mode/s", answer={"mode": "READONLY"}),
    Step("PUT /mode", {"mode": "IMPORT"}, Error(42205, "Cannot import since found existing subjects"), 422),
    Step("PUT /mode?force=True", {"mode": "IMPORT"}, {"mode": "IMPORT"}),
    Step("POST /subjects/i/versions", {"schema": '{"i":1}', "id": 77, "version": 5}, Has({"id": 77, "version": 5})),
    Step("PUT /mode", {"mode": "READWRITE"}, {"mode": "READWRITE"}),
    Step("DELETE /mode", answer={"mode": "READWRITE"}),
)  # fmt: skip

CONTEXTS = (
    Step("GET /contexts", answer=["."]),
    Step("POST /subjects/:.team:s/versions", {"schema": A}, Has({"id": 1, "version": 1})),
    Step("POST /contexts/.team/subjects/u/versions", {"schema": B}, Has({"id": 2, "version": 1})),
    Step("GET /contexts", answer=[".", ".team"]),
    Step("GET /contexts/team/subjects", answer=[":.team:s", ":.team:u"]),
    Step("GET /contexts/.team/schemas/ids/2", answer=Has({"schema": B})),
    Step("GET /contexts/.team/schemas/ids/2?subject=u", answer=Has({"subject": ":.team:u"})),
    Step("GET /contexts/.team/schemas?latestOnly=true&limit=1", answer=[{"subject": ":.team:s", "version": 1}]),
    Step("POST /contexts/.team/compatibility/subjects/u/versions", {"schema": B}, {"is_compatible": True}),
    Step("PUT /contexts/.team/config", {"compatibility": "NONE"}, {"compatibility": "NONE"}),
    Step("GET /config/:.team:", answer={"compatibilityLevel": "NONE"}),
    Step("PUT /contexts/.team/mode/u", {"mode": "READONLY"}, {"mode": "READONLY"}),
    Step("GET /mode/:.team:u", answer={"mode": "READONLY"}),
    Step("DELETE /contexts/.team/mode/u", answer={"mode": "READONLY"}),
    Step("GET /contexts/a:b/subjects", answer=Error(400, "cannot contain a colon"), status=400),
    Step("DELETE /contexts/.team", answer=Error(42211), status=422),
    Step("DELETE /contexts/.team/subjects/u", answer=[1]),
    Step("DELETE /contexts/.team/subjects/u?permanent=true", answer=[1]),
    Step("DELETE /subjects/:.team:s", answer=[1]),
    Step("DELETE /subjects/:.team:s?permanent=true", answer=[1]),
    Step("DELETE /contexts/.team", status=204),
    Step("GET /contexts", answer=["."]),
)  # fmt: skip

DELETIONS = (
    Step("DELETE /subjects/no", answer=Error(40401), status=404),
    Step("DELETE /subjects/s/versions/1", answer=Error(42206), status=422),
    Step("DELETE /subjects/s/versions/9", answer=Error(40402), status=404),
    Step("DELETE /subjects/s/versions/x", answer=Error(42202), status=422),
    Step("DELETE /subjects/s/versions/latest?permanent=true", answer=Error(40407), status=404),
    Step("DELETE /subjects/s/versions/latest", answer=3),
    Step("DELETE /subjects/s/versions/3", answer=Error(40406), status=404),
    Step("GET /subjects/s/versions?deleted=TRUE", answer=[1, 2, 3]),
    Step("GET /subjects/s/versions?deletedOnly=true", answer=[3]),
    Step("GET /subjects/s/versions?deletedAsNegative=true", answer=[1, 2, -3]),
    Step("GET /subjects/s/versions/3?deleted=true", answer=Has({"deleted": True})),
    Step("GET /schemas/ids/3", answer=Has({"schema": B})),
    Step("DELETE /subjects/s/versions/3?permanent=True", answer=3),
    Step("GET /schemas/ids/3", answer=Error(40403), status=404),
    Step("DELETE /subjects/t?permanent=true", answer=Error(40405), status=404),
    Step("DELETE /subjects/t", answer=[1]),
    Step("DELETE /subjects/t", answer=Error(40404), status=404),
    Step("GET /subjects?deletedOnly=true", answer=["t"]),
    Step("DELETE /subjects/t?permanent=true", answer=[1]),
    Step("GET /subjects?deleted=true", answer=["i", "m", "r", "s", "x/y z"]),
)  # fmt: skip

REST = (
    Step("GET /v1/metadata/version", answer=Has({"version": "8.1.1"})),
    Step("GET /v1/metadata/deployment", answer={"attributes": []}),
    Step("GET /health", answer={"status": "healthy", "message": "This registry is the leader."}),
    Step("GET /associations/resources/-/t?resourceType=topic", answer=NOT_FOUND, status=404),
    Step("POST /associations", {}, NOT_FOUND, 404),
    Step("GET /nothing", answer=NOT_FOUND, status=404),
    Step("PUT /subjects/s", {}, Error(405, "HTTP 405 Method Not Allowed"), 405),
    Step("PATCH /config", {}, Error(405), 405),
    Step("POST /subjects/s/versions/1/tags", {}, NOT_FOUND, 404),
)


@on_a_loop
async def test_each_resource_answers_as_that_of_confluent(tmp_path: Path) -> None:
    async with node.running(tmp_path) as broker, registry(broker.port()) as it:
        for step in (*REGISTRATIONS, *LOOK_UPS, *CHECKS, *SCOPES, *CONTEXTS, *DELETIONS, *REST):
            await check(it, step)
        status, body = await it.json("GET", "/v1/metadata/id")
        assert (status, body) == (
            200,
            {
                "scope": {
                    "path": [],
                    "clusters": {
                        "kafka-cluster": it.server.registry.store.cluster_id,
                        "schema-registry-cluster": "schema-registry",
                    },
                },
                "id": "",
            },
        )


async def check(it: Program, step: Step) -> None:
    method, path = step.request.split(" ")
    status, body = await it.json(method, path, step.body)
    match step.answer:
        case Error(code, text):
            assert isinstance(body, dict), (step, body)
            actual: object = (body["error_code"], text in body["message"])
            expected: object = (code, True)
        case Has(members):
            assert isinstance(body, dict), (step, body)
            actual, expected = {name: body.get(name) for name in members}, members
        case [{"subject": _}, *_]:
            assert isinstance(body, list), (step, body)
            expected = step.answer
            actual = [{name: schema[name] for name in ("subject", "version")} for schema in body]
        case _:
            actual, expected = body, step.answer
    assert (status, actual) == (step.status, expected), (step, body)


@on_a_loop
async def test_requests_have_the_types_and_headers_of_http(tmp_path: Path) -> None:
    properties = {
        "access.control.allow.origin": "http://ui.example",
        "response.http.headers.config": "set X-Frame-Options:DENY",
        "size.limit.filter.enabled": "true",
        "size.limit.filter.max.request.body.size": "1000",
    }
    async with node.running(tmp_path) as broker, registry(broker.port(), properties) as it:
        for accept, shown in (
            ("", TYPE),
            ("*/*", TYPE),
            ("application/json", "application/json"),
            (f"{TYPE}, application/vnd.schemaregistry+json, application/json", TYPE),
            ("text/html, application/vnd.schemaregistry+json;q=0.9", "application/vnd.schemaregistry+json"),
        ):
            for path in ("/subjects", "/subjects/no/versions"):
                answer = await it.request("GET", path, headers={"Accept": accept})
                assert answer.headers["Content-Type"] == shown
        assert (await it.request("GET", "/subjects", headers={"Accept": "text/html"})).status == 406
        register = "/subjects/s/versions"
        body = json.dumps({"schema": A}).encode()
        for sent in (TYPE, "application/json; charset=utf-8", "application/octet-stream"):
            assert (await it.request("POST", register, body, headers={"Content-Type": sent})).status == 200
        refused = await it.request("POST", register, body, headers={"Content-Type": "text/plain"})
        assert (refused.status, json.loads(refused.body)["error_code"]) == (415, 415)
        # Other bodies.
        for content, status in ((b"", 422), (b"null", 422), (b"{", 400), (b"[]", 400), (b"\xff", 400)):
            answer = await it.request("POST", register, content)
            assert (answer.status, json.loads(answer.body)["error_code"]) == (status, status)
        long = await it.request("POST", register, b"x" * 1001)
        assert (long.status, json.loads(long.body)["error_code"]) == (413, 413)
        head = await it.request("HEAD", "/subjects")
        assert (head.status, head.body) == (200, b"")
        options = await it.request("OPTIONS", "/subjects/s", headers={"Accept": "application/json"})
        assert (options.status, options.headers["Allow"]) == (200, "DELETE,POST,OPTIONS")
        cross = await it.request("GET", "/subjects", headers={"Origin": "http://ui.example"})
        assert cross.headers["Access-Control-Allow-Origin"] == "http://ui.example"
        assert cross.headers["X-Frame-Options"] == "DENY"


@on_a_loop
async def test_an_alias_stands_for_another_subject(tmp_path: Path) -> None:
    async with node.running(tmp_path) as broker, registry(broker.port()) as it:
        for step in (
            Step("PUT /config/short", {"alias": "a-long-name"}, {"alias": "a-long-name"}),
            Step("POST /subjects/short/versions", {"schema": A}, Has({"id": 1})),
            Step("GET /subjects", answer=["a-long-name"]),
            Step("GET /subjects/short/versions/1", answer=Has({"subject": "a-long-name"})),
            Step("GET /schemas/ids/1?subject=short", answer=Has({"subject": "a-long-name"})),
            Step("POST /compatibility/subjects/short/versions", {"schema": B}, {"is_compatible": False}),
            Step("GET /config/short", answer=Has({"alias": "a-long-name"})),
        ):
            await check(it, step)


@on_a_loop
async def test_lists_have_the_limits_of_the_configuration(tmp_path: Path) -> None:
    limits = {
        f"{what}.search.{kind}.limit": text
        for what in ("schema", "subject", "subject.version", "context")
        for kind, text in (("default", "1"), ("max", "2"))
    }
    async with node.running(tmp_path) as broker, registry(broker.port(), limits) as it:
        for number in range(3):
            for subject in (f"s{number}", ":.t:s", "v"):
                body = {"schema": f'{{"f{number}":1}}'}
                assert (await it.json("POST", f"/subjects/{subject}/versions?force=true", body))[0] == 200
        for path in ("/subjects", "/schemas", "/subjects/v/versions", "/contexts"):
            for query, count in (
                ("", 1),
                ("?limit=2", 2),
                ("?limit=3", 1),
                ("?limit=0", 1),
                ("?limit=-5", 1),
            ):
                status, body = await it.json("GET", path + query)
                assert isinstance(body, list)
                assert (status, len(body)) == (200, count)


@on_a_loop
async def test_metrics_have_the_names_of_confluent(tmp_path: Path) -> None:
    async with node.running(tmp_path) as broker, registry(broker.port()) as it:
        assert (await it.json("POST", "/subjects/s/versions", {"schema": A}))[0] == 200
        assert (await it.json("POST", "/subjects/s/versions", {"schema": AB, "schemaType": "JSON"}))[0] == 409
        assert (await it.json("POST", "/subjects/t/versions", {"schema": AB, "schemaType": "JSON"}))[0] == 200
        assert (await it.json("DELETE", "/subjects/t/versions/1"))[0] == 200
        metrics = MetricsServer(it.server.beans, SystemNetwork(), "127.0.0.1", 0)
        await metrics.start()
        try:
            page = (await request(metrics.port, "GET", "/metrics")).body.decode()
            beans = json.loads((await request(metrics.port, "GET", "/jmx")).body)["beans"]
        finally:
            await metrics.stop()
    prefix = "kafka_schema_registry_"
    for name, value in (
        ("master_slave_role", 1),
        ("node_count", 1),
        ("registered_count", 2),
        ("deleted_count", 1),
        ("avro_schemas_created", 1),
        ("json_schemas_deleted", 1),
        ("api_success_count", 3),
        ("api_failure_count", 1),
    ):
        assert f"\n{prefix}{name}_{name} {value}\n" in page
    resource = '{resource="POST /subjects/{subject}/versions"}'
    assert f"{prefix}requests_request_total{resource} 3\n" in page
    assert f"{prefix}requests_request_error_total{resource} 1\n" in page
    assert {"name": "kafka.schema.registry:type=master-slave-role", "master-slave-role": 1} in beans


@on_a_loop
async def test_a_refusal_that_no_client_reads_is_not_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with node.running(tmp_path) as broker, registry(broker.port()) as it:
        loop, is_gone = asyncio.get_running_loop(), threading.Event()
        clients: list[asyncio.Task[Reply]] = []

        def leave() -> None:
            clients.pop().cancel()
            loop.call_soon(is_gone.set)

        def refuse(rules: Rules) -> Decision[None]:
            loop.call_soon_threadsafe(leave)
            assert is_gone.wait(10)
            raise RegistryError(40401, "no")

        call = Call({}, {}, {}, {}, b"", "POST", "/")
        # A decision about so long schemas is in a thread.
        clients.append(
            asyncio.create_task(it.server.registry.change(call, REGISTER, refuse, str, 10_000_000))
        )
        await asyncio.wait(clients)
        assert (await it.json("GET", "/subjects"))[0] == 200
        gc.collect()
    assert "never retrieved" not in caplog.text
