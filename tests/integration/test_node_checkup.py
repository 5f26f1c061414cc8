"""The rules of the check-up on a running node in which faults were planted, without a fault of other nodes."""

from __future__ import annotations

import asyncio
import datetime
import shutil
from pathlib import Path

import pytest

from kcli.client.admin.admin import AdminClient
from kcli.client.admin.groups import CommittedOffset
from kcli.client.config import client_config
from kcli.client.diagnosis.checkup.finding import CheckupFinding
from kcli.client.diagnosis.checkup.gather import Looks, gather
from kcli.client.diagnosis.checkup.rules import check_up
from kcli.http.checkup_metrics import named_metrics
from kcli.model.addresses import Address
from kcli.model.request_values import UpgradeType
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import encode_batch
from kcli.protocol.messages import api_versions, produce
from kcli.protocol.wire.api import ApiKey
from kcli.runtime.clock import SystemClock
from kcli.runtime.disk import SystemDisk
from kcli.runtime.rng import SystemRng
from kcli.server.formatting.format import Machine, ensure_formatted
from rigs import console_topics as topics
from rigs.certificates import LOOPBACK_HOSTS, make_certificates
from rigs.console_topics import record
from rigs.groups import Speaker
from rigs.node import RunningNode, config_of, connect, running
from rigs.tls import LISTENERS
from rigs.transactions import SETTINGS, Session

BEHIND_MS = 120_000
"""The clock of the node is so much behind the clock of the check-up."""

SEGMENTS = 110
BROKEN = "broken"

FINDINGS = {
    "clocks": "the controller is behind",
    "features": "group.version: level 0, supported 1",
    "certificates": "valid until",
    "offline-directory": "log directory",
    "small-segments": f"many-0: {SEGMENTS} segments",
    "rebalances": "CompletingRebalance, 1 member",
    "stopped-group": f"many-0: up to {SEGMENTS} unread records",
    "hanging-transaction": "producer id 4242, first offset 0",
    "long-transaction": "state Ongoing, time-out 0.001 s",
    "unused-topics": "hangs: last record",
    "old-clients": "librdkafka 1.9.2: 1 connection",
}
"""The checks, and a text of their evidence."""


def settings(directory: Path) -> dict[str, str]:
    """A node with two log directories and a certificate that expires soon."""
    certificates = make_certificates(str(directory))
    soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=3)
    server = certificates.authority.issue("soon", (("CN", "soon"),), hosts=LOOPBACK_HOSTS, end=soon)
    return {
        **SETTINGS,
        **LISTENERS,
        **certificates.broker_config(server),
        **{f"client.{name}": value for name, value in certificates.client_config().items()},
        "log_dirs": f"{directory / 'data'},{directory / BROKEN}",
        "kcli_metrics_listener": "127.0.0.1:0",
        "transaction_partition_verification_enable": "false",
        # The coordinator must not end the transaction whose time is over.
        "transaction_abort_timed_out_transaction_cleanup_interval_ms": "3600000",
    }


def lose_directory(directory: Path, given: dict[str, str]) -> None:
    """Formats the directories, and then puts a file in the place of one."""
    machine = Machine(SystemDisk(), SystemClock(), SystemRng(1))
    ensure_formatted(config_of(directory / "data", **given), machine, lambda _text: None)
    shutil.rmtree(directory / BROKEN)
    (directory / BROKEN).write_text("not a directory")


async def plant(node: RunningNode, admin: AdminClient) -> None:
    await topics.create(admin, "t")
    await topics.create(admin, "many", segment_ms="1")
    for number in range(SEGMENTS):
        await topics.produce(admin, "many", [record(number)])
    await admin.alter_group_offsets("idle", {TopicPartition("many", 0): CommittedOffset(offset=0)})
    await topics.create(admin, "empty")
    await topics.create(admin, "hangs")
    await hang(node)
    session = Session(node, await connect(node))
    await session.init(timeout_ms=1)
    await session.add(0)
    speaker = Speaker(node, await connect(node), node.port())
    await speaker.find()
    joined = await speaker.join()
    await speaker.join(member=joined.member_id)  # and never sends SyncGroup
    old = api_versions.ApiVersionsRequest(client_software_name="librdkafka", client_software_version="1.9.2")
    await (await connect(node)).call(old, ApiKey.API_VERSIONS, 3)
    await admin.update_features({"group.version": 0}, UpgradeType.SAFE_DOWNGRADE)


async def hang(node: RunningNode) -> None:
    """Writes an old record of a transaction that no coordinator knows."""
    batch = encode_batch([record(0)], transactional=True, producer_id=4242, producer_epoch=0, base_sequence=0)
    data = produce.TopicProduceData(
        name="hangs", partition_data=(produce.PartitionProduceData(index=0, records=batch),)
    )
    request = produce.ProduceRequest(
        transactional_id="nobody", acks=-1, timeout_ms=10_000, topic_data=(data,)
    )
    answer = await (await connect(node)).call(request, ApiKey.PRODUCE, 9)
    assert not answer.responses[0].partition_responses[0].error_code


async def checked(directory: Path) -> dict[str, CheckupFinding]:
    given = settings(directory)
    client = {
        name.removeprefix("client."): given.pop(name) for name in list(given) if name.startswith("client.")
    }
    lose_directory(directory, given)
    async with running(directory / "data", **given) as node:
        config = client_config(client | {"bootstrap.servers": f"127.0.0.1:{node.port('SSL')}"})
        async with AdminClient(config) as admin:
            await plant(node, admin)
            assert node.metrics_endpoint is not None
            endpoint = Address("127.0.0.1", node.metrics_endpoint.port)
            snapshot = await gather(admin, looks=Looks(2, 0.1), metrics=named_metrics((endpoint,)))
    return {each.check: each for each in check_up(snapshot)}


def test_planted_faults_are_found_with_their_evidence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ms = SystemClock.now_ms
    monkeypatch.setattr(SystemClock, "now_ms", lambda clock: now_ms(clock) - BEHIND_MS)
    found = asyncio.run(checked(tmp_path))
    assert found.keys() == FINDINGS.keys(), found
    for check, text in FINDINGS.items():
        assert text in "\n".join((*found[check].evidence, found[check].text)), check
