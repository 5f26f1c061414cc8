"""The quotas on the console: the list, changes, and their command lines."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kcli.protocol.messages import alter_client_quotas as alter
from kcli.protocol.messages import describe_client_quotas as describe
from kcli.protocol.wire.api import ApiKey
from rigs.console import scripted
from rigs.scripted_cluster import ScriptedCluster

QUOTAS = "/api/clusters/main/quotas"


class QuotaCluster(ScriptedCluster):
    def __init__(self) -> None:
        super().__init__()
        self.server.script = {
            **self.server.script,
            ApiKey.DESCRIBE_CLIENT_QUOTAS: self.describe_quotas,
            ApiKey.ALTER_CLIENT_QUOTAS: self.alter_quotas,
        }

    def describe_quotas(self, _request: Any, _version: int) -> describe.DescribeClientQuotasResponse:
        def entry(rate: float, **entity: str | None) -> describe.EntryData:
            return describe.EntryData(
                entity=tuple(
                    describe.EntityData(entity_type=kind.replace("_", "-"), entity_name=name)
                    for kind, name in entity.items()
                ),
                values=(describe.ValueData(key="producer_byte_rate", value=rate),),
            )

        entries = (entry(100.0, user="bob", client_id=None), entry(2000.0, user="alice"))
        return describe.DescribeClientQuotasResponse(entries=entries)

    def alter_quotas(self, request: Any, _version: int) -> alter.AlterClientQuotasResponse:
        return alter.AlterClientQuotasResponse(
            entries=tuple(
                alter.ResponseEntryData(
                    entity=tuple(
                        alter.ResponseEntityData(
                            entity_type=component.entity_type, entity_name=component.entity_name
                        )
                        for component in entry.entity
                    )
                )
                for entry in request.entries
            )
        )


def test_quotas_are_listed_and_sorted() -> None:
    async def story() -> None:
        async with scripted(QuotaCluster()) as browser:
            rows = (await browser.get(QUOTAS))["rows"]
            assert [(row["user"], row["has_client_id"], row["client_id"], row["limits"]) for row in rows] == [
                ("alice", False, None, {"producer_byte_rate": 2000.0}),
                ("bob", True, None, {"producer_byte_rate": 100.0}),
            ]
            rows = (await browser.get(f"{QUOTAS}?sort=producer_byte_rate"))["rows"]
            assert [row["user"] for row in rows] == ["bob", "alice"]
            assert (await browser.get(f"{QUOTAS}?search=any%20other"))["total"] == 1

    asyncio.run(story())


@pytest.mark.parametrize(
    ("entity", "limits", "words"),
    [
        (
            {"user": "alice"},
            {"producer_byte_rate": 1048576, "consumer_byte_rate": None},
            (
                "--entity-type users --entity-name alice --add-config producer_byte_rate=1048576 "
                "--delete-config consumer_byte_rate"
            ),
        ),
        (
            {"client-id": "app 1", "user": None},
            {"request_percentage": 12.5},
            (
                "--entity-type users --entity-default --entity-type clients --entity-name 'app 1' "
                "--add-config request_percentage=12.5"
            ),
        ),
        (
            {"user": "-x"},
            {"controller_mutation_rate": 1234567.25},
            "--entity-type users --entity-name=-x --add-config controller_mutation_rate=1234567.25",
        ),
        (
            {"user": "a'b"},
            {"request_percentage": 123456.789},
            """--entity-type users --entity-name 'a'"'"'b' --add-config request_percentage=123456.789""",
        ),
        (
            {"ip": "10.0.0.1"},
            {"connection_creation_rate": 5},
            "--entity-type ips --entity-name 10.0.0.1 --add-config connection_creation_rate=5",
        ),
    ],
)
def test_a_quota_is_previewed_and_changed(
    entity: dict[str, str | None], limits: dict[str, float | None], words: str
) -> None:
    async def story() -> None:
        cluster = QuotaCluster()
        async with scripted(cluster) as browser:
            body = {"entity": entity, "limits": limits}
            preview = await browser.post(QUOTAS, {**body, "preview": True})
            outcome = await browser.post(QUOTAS, body)
            assert browser.status == 200
            assert preview["command"] == outcome["command"]
            assert preview["command"].endswith(f"--alter {words}")
        first, second = cluster.server.sent(ApiKey.ALTER_CLIENT_QUOTAS)
        assert (first.validate_only, second.validate_only) == (True, False)
        assert {op.key: None if op.remove else op.value for op in second.entries[0].ops} == limits

    asyncio.run(story())


@pytest.mark.parametrize(
    "body",
    [
        {"entity": {}, "limits": {"producer_byte_rate": 1}},
        {"entity": {"user": ""}, "limits": {"producer_byte_rate": 1}},
        {"entity": {"user": "a", "ip": "10.0.0.1"}, "limits": {"producer_byte_rate": 1}},
        {"entity": {"host": "a"}, "limits": {"producer_byte_rate": 1}},
        {"entity": {"user": "a"}, "limits": {}},
        {"entity": {"user": "a"}, "limits": {"producer_byte_rate": 0}},
        {"entity": {"user": "a"}, "limits": {"producer_byte_rate": "1"}},
        {"entity": {"user": "a"}, "limits": {"producer_byte_rate": True}},
        {"entity": {"user": "a"}, "limits": {"connection_creation_rate": 1}},
        {"entity": {"user": "a"}, "limits": [1]},
    ],
)
def test_a_quota_that_makes_no_sense_is_refused(body: dict[str, Any]) -> None:
    async def story() -> None:
        cluster = QuotaCluster()
        async with scripted(cluster) as browser:
            await browser.post(QUOTAS, body)
            assert browser.status == 400
        assert not cluster.server.sent(ApiKey.ALTER_CLIENT_QUOTAS)

    asyncio.run(story())
