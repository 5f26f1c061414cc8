"""The pages about schemas: subjects, versions, differences, checks, refusals of the registry, and rights of users."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any
from urllib.parse import quote

import pytest

from kcli.console.pages import schemas
from kcli.console.settings import ClusterSettings
from kcli.model.acl import AclOperation
from rigs.console import Browser, browser, console
from rigs.console_rights import EVERYTHING, RightsCluster
from rigs.schema_registry import MemoryRegistry, memory_registry

ORDER = '{"type":"record","name":"Order","fields":[]}'
MORE = '{"type":"record","name":"Order","fields":[{"name":"a","type":"int"}]}'
BASE = "/api/clusters/main/schemas"


@pytest.fixture
def registry() -> Iterator[MemoryRegistry]:
    with memory_registry() as served:
        served.put("orders", ORDER)
        served.put("orders", MORE)
        served.put("a/b", '{"type":"array","items":"Order"}', references=[_reference("orders", 1)])
        yield served


def _reference(subject: str, version: int) -> dict[str, object]:
    return {"name": "Order", "subject": subject, "version": version}


Story = Callable[[Browser], Coroutine[Any, Any, None]]


def walk(
    story: Story,
    url: str | None,
    *,
    operations: frozenset[AclOperation] = EVERYTHING,
    properties: dict[str, str] | None = None,
    **settings: Any,
) -> None:
    async def run() -> None:
        cluster = RightsCluster(operations)
        with cluster.server as server:
            own = {"bootstrap.servers": server.address, **(properties or {})}
            main = ClusterSettings(name="main", properties=own, schema_registry=url)
            async with console(main, **settings) as address, browser(address) as page:
                await page.open()
                await story(page)

    asyncio.run(run())


def test_subjects_are_listed_with_their_latest_versions(registry: MemoryRegistry) -> None:
    async def story(page: Browser) -> None:
        head = await page.get(BASE)
        assert (head["registry"], head["level"], head["mode"]) == (registry.url, "BACKWARD", "READWRITE")
        found = await page.get(f"{BASE}/subjects?limit=1&order=desc&sort=subject")
        assert found["total"] == 2
        [row] = found["rows"]
        assert (row["subject"], row["version"], row["id"], row["type"]) == ("orders", 2, 2, "AVRO")
        assert (await page.get(f"{BASE}/subjects?search=A"))["rows"][0]["subject"] == "a/b"

    walk(story, registry.url)


def test_a_subject_has_versions_texts_references_and_users(registry: MemoryRegistry) -> None:
    async def story(page: Browser) -> None:
        subject = await page.get(f"{BASE}/subjects/orders")
        assert (subject["versions"], subject["level"], subject["mode"]) == ([2, 1], "BACKWARD", "READWRITE")
        first = await page.get(f"{BASE}/subjects/orders/versions/1")
        assert first["text"].startswith('{\n  "type": "record"')
        assert first["used_by"] == [{"subject": "a/b", "version": 1}]
        user = await page.get(f"{BASE}/subjects/{quote('a/b', safe='')}/versions/latest")
        assert user["references"] == [_reference("orders", 1)]
        found = await page.get(f"{BASE}/subjects/orders/diff?from=1&to=2")
        changes = [line["line"].strip() for line in found["lines"] if line["change"] == "+"]
        assert '"name": "a",' in changes
        assert (await page.get(f"{BASE}/subjects/orders/diff"))["lines"] == []
        assert (await page.get(f"{BASE}/ids/3"))["versions"] == [{"subject": "a/b", "version": 1}]
        guid = registry.subjects["a/b"][0]["guid"]
        assert (await page.get(f"{BASE}/ids/{guid}"))["versions"] == [{"subject": "a/b", "version": 1}]

    walk(story, registry.url)


def test_a_schema_is_checked_and_registered(registry: MemoryRegistry) -> None:
    async def story(page: Browser) -> None:
        place, body = f"{BASE}/subjects/orders/versions", {"schema": '"int"', "type": "AVRO"}
        preview = await page.post(place, {**body, "preview": True})
        assert preview["summary"] == "The schema is not compatible with orders (level BACKWARD)."
        [reason] = preview["details"]["reasons"]
        assert (reason["text"], reason["version"]) == ("it never is", 2)
        registry.check = {"is_compatible": True}
        preview = await page.post(place, {**body, "preview": True})
        assert preview["details"]["is_compatible"]
        assert len(registry.subjects["orders"]) == 2, "a preview changes nothing"
        done = await page.post(place, body)
        assert done["summary"] == "Registered the schema of orders with the id 4."
        assert done["command"].startswith("kcli schemas put schema.avsc --subject orders --registry http")
        preview = await page.post(place, {**body, "preview": True})
        assert preview["summary"] == "Version 3 of orders has this schema already."

    walk(story, registry.url)


def test_hostile_requests_are_refused_and_reach_no_registry(registry: MemoryRegistry) -> None:
    async def story(page: Browser) -> None:
        before = len(registry.calls)
        place = f"{BASE}/subjects/orders/versions"
        for body in (
            {},
            {"schema": 1},
            {"schema": "x", "type": "XML"},
            {"schema": "x", "references": {}},
            {"schema": "x", "references": [1]},
            {"schema": "x", "references": [_reference("a", 1)] * (schemas.REFERENCES_MAX + 1)},
        ):
            await page.post(place, {**body, "preview": True})
            assert page.status == 400, body
        for path in ("/subjects/orders/versions/0", "/subjects/orders/versions/x", "/ids/x"):
            await page.get(BASE + path)
            assert page.status == 400, path
        await page.get(f"{BASE}/subjects/{'a' * (schemas.NAME_MAX + 1)}")
        assert page.status == 400
        assert len(registry.calls) == before
        await page.get(f"{BASE}/subjects/..%2F..%2Fconfig")
        assert registry.calls[-1].target.startswith("/subjects/..%2F..%2Fconfig/versions")

    walk(story, registry.url)


def test_errors_of_the_registry_are_answers(registry: MemoryRegistry) -> None:
    async def story(page: Browser) -> None:
        answer = await page.get(f"{BASE}/subjects/nothing")
        assert (page.status, answer["error"]) == (404, "REGISTRY_REFUSED")
        registry.failures = [(401, {}, b'{"error_code":401,"message":"Unauthorized"}')]
        answer = await page.get(f"{BASE}/subjects/orders")
        assert (page.status, answer["message"]) == (502, "Unauthorized"), "a 401 would log the browser out"
        registry.failures = [(200, {}, b"<html>")]
        answer = await page.get(f"{BASE}/subjects/orders")
        assert (page.status, answer["error"]) == (502, "NO_REGISTRY")

    walk(story, registry.url)


def test_a_console_without_a_registry_says_so() -> None:
    async def story(page: Browser) -> None:
        assert (await page.get(BASE))["registry"] is None
        answer = await page.get(f"{BASE}/subjects")
        assert (page.status, answer["error"]) == (404, "NO_REGISTRY")

    walk(story, None)


@pytest.mark.parametrize(
    ("operations", "statuses"),
    [
        (frozenset(), (403, 403, 403)),
        (frozenset({AclOperation.DESCRIBE_CONFIGS}), (200, 200, 403)),
        (EVERYTHING, (200, 200, 200)),
    ],
)
def test_rights_on_the_cluster_are_needed(
    operations: frozenset[AclOperation], statuses: tuple[int, ...], registry: MemoryRegistry
) -> None:
    async def story(page: Browser) -> None:
        found = []
        await page.get(f"{BASE}/subjects")
        found.append(page.status)
        for preview in (True, False):
            await page.post(f"{BASE}/subjects/new/versions", {"schema": '"int"', "preview": preview})
            found.append(page.status)
        assert tuple(found) == statuses

    walk(story, registry.url, operations=operations)


def test_a_console_that_only_reads_registers_nothing(registry: MemoryRegistry) -> None:
    async def story(page: Browser) -> None:
        answer = await page.post(f"{BASE}/subjects/orders/versions", {"schema": '"int"'})
        assert (page.status, answer["error"]) == (403, "READ_ONLY")
        assert len(registry.subjects["orders"]) == 2

    walk(story, registry.url, is_read_only=True)


def test_passwords_are_in_no_answer(registry: MemoryRegistry) -> None:
    url = registry.url.replace("http://", "http://ann:s3cret@")

    async def story(page: Browser) -> None:
        registry.check = {"is_compatible": True}
        texts = [
            await page.get(BASE),
            await page.post(f"{BASE}/subjects/new/versions", {"schema": '"int"', "preview": True}),
        ]
        assert "s3cret" not in str(texts)
        assert registry.calls[-1].headers["Authorization"].startswith("Basic ")

    walk(story, url)
