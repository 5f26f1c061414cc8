"""A list of 10,000 groups on the console: only the visible groups are described."""

from __future__ import annotations

import asyncio
from typing import Any

from kcli.protocol.messages import describe_groups, find_coordinator, list_groups, offset_fetch
from kcli.protocol.wire.api import ApiKey
from rigs.console import scripted
from rigs.scripted_cluster import ScriptedCluster
from rigs.scripted_server import ScriptedAnswer

GROUPS = 10_000
LOOKED_AT = 1_000
VISIBLE = 50


class ManyGroups(ScriptedCluster):
    """Each group has committed the offset 1 of t-0."""

    def script(self) -> dict[ApiKey, ScriptedAnswer]:
        return {
            **super().script(),
            ApiKey.LIST_GROUPS: self.list_groups,
            ApiKey.FIND_COORDINATOR: self.coordinators,
            ApiKey.DESCRIBE_GROUPS: self.describe_groups,
            ApiKey.OFFSET_FETCH: self.fetch,
        }

    def list_groups(self, _request: Any, _version: int) -> Any:
        return list_groups.ListGroupsResponse(
            groups=tuple(
                list_groups.ListedGroup(
                    group_id=f"group-{number:05}",
                    protocol_type="consumer",
                    group_state="Empty",
                    group_type="classic",
                )
                for number in range(GROUPS)
            )
        )

    def coordinators(self, request: Any, _version: int) -> Any:
        return find_coordinator.FindCoordinatorResponse(
            coordinators=tuple(
                find_coordinator.Coordinator(key=key, node_id=1, host="127.0.0.1", port=self.server.port)
                for key in request.coordinator_keys
            )
        )

    def describe_groups(self, request: Any, _version: int) -> Any:
        return describe_groups.DescribeGroupsResponse(
            groups=tuple(
                describe_groups.DescribedGroup(group_id=group, group_state="Empty", protocol_type="consumer")
                for group in request.groups
            )
        )

    def fetch(self, request: Any, _version: int) -> Any:
        row = offset_fetch.OffsetFetchResponsePartitions(partition_index=0, committed_offset=1)
        topics = (offset_fetch.OffsetFetchResponseTopics(name="t", partitions=(row,)),)
        return offset_fetch.OffsetFetchResponse(
            groups=tuple(
                offset_fetch.OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)
                for group in request.groups
            )
        )


def test_only_the_visible_groups_are_described() -> None:
    async def story() -> None:
        cluster = ManyGroups()
        async with scripted(cluster) as browser:
            answer = await browser.get(f"/api/clusters/main/groups?offset=5000&limit={VISIBLE}")
            assert (answer["total"], len(answer["rows"])) == (GROUPS, VISIBLE)
            assert (answer["rows"][0]["group"], answer["rows"][0]["members"]) == ("group-05000", 0)
            described = [
                group for request in cluster.server.sent(ApiKey.DESCRIBE_GROUPS) for group in request.groups
            ]
            fetched = [
                group for request in cluster.server.sent(ApiKey.OFFSET_FETCH) for group in request.groups
            ]
            assert (len(described), len(fetched)) == (VISIBLE, VISIBLE)
            await browser.get("/api/clusters/main/groups?search=group-09999")
            assert len(cluster.server.sent(ApiKey.LIST_GROUPS)) == 1, "the list is kept"

    asyncio.run(story())


def test_the_consumers_of_a_topic_are_looked_for_in_a_limited_number_of_groups() -> None:
    async def story() -> None:
        async with scripted(ManyGroups()) as page:
            answer = await page.get("/api/clusters/main/topics/t/consumers")
            assert (answer["total"], answer["left_out"]) == (LOOKED_AT, GROUPS - LOOKED_AT)

    asyncio.run(story())
