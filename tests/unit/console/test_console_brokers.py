"""The brokers on the console: the list, one broker, and its settings."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from kcli.protocol.messages import describe_cluster, metadata
from kcli.protocol.wire.api import ApiKey
from rigs.console import scripted
from rigs.scripted_cluster import ScriptedCluster, quorum_led_by


def test_the_list_has_what_each_broker_leads_and_stores() -> None:
    async def story() -> None:
        async with scripted() as browser:
            answer = await browser.get("/api/clusters/main/brokers")
            assert answer["total"] == 1
            (row,) = answer["rows"]
            assert (row["id"], row["rack"], row["leaders"]) == (1, "rack-a", 3)
            assert row["size_bytes"] == 630
            assert 0 <= answer["age_ms"] < 10_000

    asyncio.run(story())


@pytest.mark.parametrize(("leader", "is_controller"), [(1, True), (100, False)])
def test_the_controller_is_the_leader_of_the_quorum(leader: int, is_controller: bool) -> None:
    async def story() -> None:
        cluster = ScriptedCluster()  # its DescribeCluster names broker 1
        cluster.server.script = {**cluster.script(), ApiKey.DESCRIBE_QUORUM: quorum_led_by(leader)}
        async with scripted(cluster) as browser:
            (row,) = (await browser.get("/api/clusters/main/brokers"))["rows"]
            assert row["is_controller"] is is_controller
            assert (await browser.get("/api/clusters/main/overview"))["controller"] == leader

    asyncio.run(story())


class LostBroker(ScriptedCluster):
    """Broker 2 is fenced. A topic has a replica on broker 3, which the cluster does not list."""

    def cluster(self, request: Any, version: int) -> describe_cluster.DescribeClusterResponse:
        response = super().cluster(request, version)
        fenced = describe_cluster.DescribeClusterBroker(broker_id=2, host="gone", port=9092, is_fenced=True)
        return replace(response, brokers=(*response.brokers, fenced))

    def metadata(self, request: Any, version: int) -> metadata.MetadataResponse:
        partition = metadata.MetadataResponsePartition(leader_id=1, replica_nodes=(1, 3), isr_nodes=(1,))
        topic = metadata.MetadataResponseTopic(name="t", partitions=(partition,))
        return replace(super().metadata(request, version), topics=(topic,))


def test_brokers_without_heartbeats_are_fenced_rows_and_not_counted() -> None:
    async def story() -> None:
        async with scripted(LostBroker()) as browser:
            answer = await browser.get("/api/clusters/main/brokers")
            assert [(row["id"], row["host"], row["is_fenced"]) for row in answer["rows"]] == [
                (1, "127.0.0.1", False),
                (2, "gone", True),
                (3, "", True),
            ]
            assert [row["out_of_sync"] for row in answer["rows"]] == [0, 0, 1]
            overview = await browser.get("/api/clusters/main/overview")
            assert (overview["brokers"], overview["fenced"], overview["leaders_least"]) == (1, [2, 3], 1)

    asyncio.run(story())


def test_a_search_that_matches_nothing_is_empty() -> None:
    async def story() -> None:
        async with scripted() as browser:
            answer = await browser.get("/api/clusters/main/brokers?search=rack-b")
            assert (answer["total"], answer["rows"]) == (0, [])
            assert (await browser.get("/api/clusters/main/brokers?search=RACK-a"))["total"] == 1

    asyncio.run(story())


def test_one_broker_shows_its_directories_and_their_errors() -> None:
    async def story() -> None:
        async with scripted() as browser:
            answer = await browser.get("/api/clusters/main/brokers/1")
            assert [(directory["path"], directory["replicas"]) for directory in answer["directories"]] == [
                ("/data/a", 2),
                ("/data/b", 0),
            ]
            assert answer["directories"][1]["error"]
            for wrong in ("2", "x", "99999999999999"):
                await browser.get(f"/api/clusters/main/brokers/{wrong}")
                assert browser.status == 400

    asyncio.run(story())


def test_settings_show_their_defaults_and_hide_secrets() -> None:
    async def story() -> None:
        async with scripted() as browser:
            answer = await browser.get("/api/clusters/main/brokers/1/configs?search=password")
            assert [(row["name"], row["value"], row["is_sensitive"]) for row in answer["rows"]] == [
                ("password", None, True)
            ]
            answer = await browser.get("/api/clusters/main/brokers/1/configs")
            assert [row["name"] for row in answer["rows"]] == [
                "min.insync.replicas",
                "password",
                "retention.ms",
            ]

    asyncio.run(story())


def test_a_value_with_brackets_is_in_a_file() -> None:
    async def story() -> None:
        cluster = ScriptedCluster()
        async with scripted(cluster) as browser:
            path = "/api/clusters/main/brokers/1/configs"
            pattern = {"settings": {"metrics.jmx.include": "a[bc]='x'"}, "preview": True}
            command = (await browser.post(path, pattern))["command"]
            assert command.startswith(
                """printf '%s' 'metrics.jmx.include=a[bc]='"'"'x'"'"'\n' | kcli configs"""
            )
            assert command.endswith("--entity-name 1 --add-config-file /dev/stdin")

    asyncio.run(story())


def test_a_preview_of_a_change_asks_the_cluster_and_changes_nothing() -> None:
    async def story() -> None:
        cluster = ScriptedCluster()
        async with scripted(cluster) as browser:
            path = "/api/clusters/main/brokers/1/configs"
            body = {
                "settings": {
                    "log.cleaner.threads": "2",
                    "log.cleanup.policy": "a,b",
                    "log.retention.ms": None,
                }
            }
            answer = await browser.post(path, {**body, "preview": True})
            assert answer["preview"] is True
            assert answer["command"].endswith(
                "configs --bootstrap-server "
                f"{cluster.server.address} --alter --entity-type brokers --entity-name 1 "
                "--add-config 'log.cleaner.threads=2,log.cleanup.policy=[a,b]' --delete-config log.retention.ms"
            )
            assert [
                request.validate_only for key, _, request in cluster.server.requests if "ALTER" in key.name
            ] == [True]
            assert (await browser.post(path, body))["preview"] is False
            assert not cluster.server.requests[-1][2].validate_only

    asyncio.run(story())


def test_a_secret_is_not_in_the_command() -> None:
    async def story() -> None:
        cluster = ScriptedCluster()
        async with scripted(cluster) as browser:
            path = "/api/clusters/main/brokers/1/configs"
            names = (
                "listener.name.plaintext.ssl.keystore.password",
                "listener.name.sasl.scram-sha-256.sasl.jaas.config",
                "ssl.key.password",
                "my.plugin.token",
            )
            settings = dict.fromkeys(names, "s3cret,x")
            for is_preview in (True, False):
                answer = await browser.post(path, {"settings": settings, "preview": is_preview})
                assert "s3cret" not in str(answer)
                assert answer["command"].endswith(
                    ",".join([*(f"{name}=PASSWORD" for name in names[:3]), "my.plugin.token=VALUE"])
                )
            sent = cluster.server.requests[-1][2].resources[0].configs
            assert {op.value for op in sent} == {"s3cret,x"}

    asyncio.run(story())


def test_the_clusters_error_reaches_the_page() -> None:
    async def story() -> None:
        async with scripted() as browser:
            answer = await browser.post(
                "/api/clusters/main/brokers/1/configs", {"settings": {"bad": "1"}, "preview": True}
            )
            assert browser.status == 400
            assert answer == {"error": "INVALID_CONFIG", "message": "Unknown topic config name: bad"}
            await browser.post("/api/clusters/main/brokers/1/configs", {"settings": {}})
            assert browser.status == 400

    asyncio.run(story())
