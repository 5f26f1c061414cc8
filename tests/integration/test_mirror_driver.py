"""MirrorMaker between two brokers: its groups, its topics, its connectors and its exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.client.admin.admin import AdminClient
from kcli.client.config import ClientConfig
from kcli.model.addresses import Address
from rigs.loops import on_a_loop
from rigs.mirror_driver import DriverHere, DriverProcess, keep_rules_of_collections, properties, two_brokers

# A connector of files stands for those of MirrorMaker, because these tests are about their configurations only.
FILES = "A->B.connector.class = org.apache.kafka.connect.file.FileStreamSourceConnector\nA->B.topic = lines\n"
SOURCE = "MirrorSourceConnector"


@on_a_loop
async def test_a_flow_has_its_group_and_topics_and_its_second_start_changes_nothing(tmp_path: Path) -> None:
    async with two_brokers(tmp_path) as (a, b):
        file = tmp_path / "mm2.properties"
        file.write_text(properties(a, b, FILES + f"A->B.file = {tmp_path}/none\n"))
        first = DriverProcess(file)
        await first.start()
        for _ in range(3):
            await first.reaches("connector configured for A->B.")
        await first.reaches("Creating task MirrorHeartbeatConnector-0")
        assert await first.stop() == 143
        assert "Kafka MirrorMaker stopped. (org.apache.kafka.connect.mirror.MirrorMaker)" in first.lines[-1]
        async with AdminClient(ClientConfig(servers=(Address("127.0.0.1", b),))) as admin:
            topics = await admin.list_topics()
            groups = await admin.list_groups()
        internal = {f"mm2-{name}.A.internal" for name in ("configs", "offsets", "status")}
        assert internal <= {topic.name for topic in topics}
        assert [(group.group_id, group.protocol) for group in groups] == [("A-mm2", "connect")]
        second = DriverProcess(file)
        await second.start()
        for _ in range(3):
            await second.reaches("is already up to date.")
        assert await second.stop() == 143


@on_a_loop
async def test_a_signal_ends_the_wait_for_a_target_that_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    keep_rules_of_collections(monkeypatch)
    file = tmp_path / "mm2.properties"
    file.write_text(properties(1, 1))
    driver = DriverHere(file, caplog)
    await driver.reaches("creating herder for A->B")
    assert await driver.stop() == 143
