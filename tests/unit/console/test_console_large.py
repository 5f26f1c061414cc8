"""The list of topics on a cluster with very many topics. bench/console.py measures its times."""

from __future__ import annotations

import asyncio

from kcli.console.settings import ClusterSettings
from rigs.console import browser, console
from rigs.large_cluster import large_cluster

TOPICS = "/api/clusters/main/topics"


def test_the_list_is_cut_from_one_answer_and_finds_the_topics_with_problems() -> None:
    async def story(servers: str) -> None:
        main = ClusterSettings(name="main", properties={"bootstrap.servers": servers})
        async with console(main) as address, browser(address) as page:
            await page.open()
            answer = await page.get(f"{TOPICS}?limit=1000&offset=900&sort=name&order=desc")
            assert (answer["total"], len(answer["rows"])) == (1000, 100)
            # Each 97th topic has an under-replicated partition, and each 991st an offline one.
            answer = await page.get(f"{TOPICS}?problems=1&sort=under_replicated&order=desc&limit=1")
            assert answer["total"] == 12
            answer = await page.get(f"{TOPICS}?sort=size_bytes&order=desc&limit=1")
            assert answer["rows"][0]["name"] == "team-39.events-00999"
            overview = await page.get("/api/clusters/main/overview")
            assert (overview["partitions"], overview["offline"], overview["brokers"]) == (2000, 2, 6)

    with large_cluster(1000, 2) as servers:
        asyncio.run(story(servers))
