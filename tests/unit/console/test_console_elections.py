"""The election of preferred leaders on the console."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from kcli.errors import ErrorCode
from kcli.protocol.messages import elect_leaders, metadata
from kcli.protocol.wire.api import ApiKey
from rigs.console import scripted
from rigs.scripted_cluster import ScriptedCluster
from rigs.scripted_server import ScriptedAnswer

ELECT = "/api/clusters/main/leaders/elect"

PARTITIONS = {
    0: (1, (1, 2), (1, 2)),
    1: (2, (1, 2), (1, 2)),
    2: (2, (3, 2), (2,)),
    3: (-1, (2, 1), (2,)),
}
"""The leader, the replicas and the ISR of each partition."""


class UnevenCluster(ScriptedCluster):
    """Two partitions need an election. The preferred replica of a third one is not in sync."""

    def __init__(self) -> None:
        self.errors: dict[int, ErrorCode] = {1: ErrorCode.ELECTION_NOT_NEEDED}
        super().__init__()

    def script(self) -> dict[ApiKey, ScriptedAnswer]:
        return {**super().script(), ApiKey.ELECT_LEADERS: self.elect}

    def metadata(self, request: Any, version: int) -> metadata.MetadataResponse:
        partitions = tuple(
            metadata.MetadataResponsePartition(
                partition_index=number, leader_id=leader, replica_nodes=replicas, isr_nodes=isr
            )
            for number, (leader, replicas, isr) in PARTITIONS.items()
        )
        here = metadata.MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.server.port)
        topic = metadata.MetadataResponseTopic(name="t", partitions=partitions)
        return metadata.MetadataResponse(brokers=(here,), controller_id=1, topics=(topic,))

    def elect(self, request: Any, _version: int) -> Any:
        (topic,) = request.topic_partitions
        results = tuple(
            elect_leaders.PartitionResult(
                partition_id=number, error_code=self.errors.get(number, ErrorCode.NONE), error_message="no"
            )
            for number in topic.partitions
        )
        topics = (elect_leaders.ReplicaElectionResult(topic="t", partition_result=results),)
        return elect_leaders.ElectLeadersResponse(replica_election_results=topics)


def test_the_preview_shows_which_leaders_change_and_the_action_elects_them(tmp_path: Path) -> None:
    audit = tmp_path / "audit.jsonl"

    async def story() -> None:
        cluster = UnevenCluster()
        async with scripted(cluster, audit_file=str(audit)) as page:
            seen = await page.post(ELECT, {"preview": True})
            assert [
                (change["partition"], change["leader"], change["preferred"])
                for change in seen["details"]["changes"]
            ] == [
                (1, 2, 1),
                (3, None, 2),
            ]
            assert seen["details"]["brokers"] == [
                {"broker": 1, "before": 1, "after": 2},
                {"broker": 2, "before": 2, "after": 2},
            ]
            assert seen["summary"] == (
                "The preferred leader would lead 2 partitions again. 1 partition keeps its leader, because the "
                "preferred replica is not in sync."
            )
            assert seen["command"].endswith("--election-type preferred --all-topic-partitions")
            assert not cluster.server.sent(ApiKey.ELECT_LEADERS)
            assert not audit.read_text(encoding="utf-8")
            await page.post(ELECT, {})
            (request,) = cluster.server.sent(ApiKey.ELECT_LEADERS)
            assert request.topic_partitions[0].partitions == (1, 3)
            cluster.errors[3] = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
            failed = await page.post(ELECT, {})
            assert (page.status, failed["message"]) == (400, "1 of 2 elections failed. t-3: no")

    asyncio.run(story())
    results = [json.loads(line)["result"] for line in audit.read_text(encoding="utf-8").splitlines()]
    assert results == ["begin", "ok", "begin", "BAD_REQUEST"]


def test_a_console_that_only_reads_elects_nothing() -> None:
    async def story() -> None:
        cluster = UnevenCluster()
        async with scripted(cluster, is_read_only=True) as page:
            await page.post(ELECT, {})
            assert page.status == 403
            assert not cluster.server.sent(ApiKey.ELECT_LEADERS)

    asyncio.run(story())
