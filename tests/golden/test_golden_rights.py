"""The answers of Apache Kafka 4.1 to clients with few rights, recorded for each API and each set of ACLs.

There is a user for each of the 51 sets. Each request is sent once by each user, who has logged in with SASL/PLAIN.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcli.metadata.delta import MetadataDelta
from kcli.model.acl import AclPermissionType, PatternType
from kcli.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from kcli.protocol.records.metadata import AccessControlEntryRecord
from kcli.protocol.wire.api import ApiKey
from kcli.runtime.rng import SystemRng
from kcli.security.authorizer import FollowsMetadata
from rigs.loops import on_a_loop
from rigs.node import RunningNode, connect, running
from rigs.recorded_rights import (
    ADMIN,
    COVERED,
    Row,
    Stage,
    acl_sets,
    grants,
    is_served,
    rows,
    secured,
    user,
)
from rigs.sasl import log_in
from rigs.wire_client import Client

SHARE = "share groups are not built"
DIFFERENT = {
    "FindCoordinator v6: share key": SHARE,
    "ListConfigResources v1: all types": SHARE + ", so their internal topic is missing",
    "ListConfigResources v1: topics only": SHARE + ", so their internal topic is missing",
    "ApiVersions v4: ": SHARE + ", and telemetry is not built",
    "DescribeAcls v3: filter: topic nothing-there": "no authorizer with ACLs runs here",
    "DescribeAcls v3 on the controller: filter: topic nothing-there; straight to the controller": (
        "no authorizer with ACLs runs here"
    ),
    "CreateAcls v3: User:zz READ topic zz": "no authorizer with ACLs runs here",
    "DeleteAcls v3: filter: topic nothing-there": "no authorizer with ACLs runs here",
}
"""request -> why its answers differ from Kafka's."""

WRITES = frozenset({ApiKey.PRODUCE, ApiKey.WRITE_TXN_MARKERS})
"""These requests are sent last, because Kafka's topics were empty when the other requests were recorded."""


@pytest.mark.parametrize("sets_per_answer", [2, pytest.param(99, marks=pytest.mark.full)])
@on_a_loop
async def test_each_set_of_acls_gets_the_answers_of_kafka(
    tmp_path: Path, golden: Path, caplog: pytest.LogCaptureFixture, sets_per_answer: int
) -> None:
    """Sends each request with some of the sets that got the same answer, or with all of them."""
    sets = acl_sets(golden)
    caplog.set_level(logging.INFO, "kcli")  # Kafka's logger "kafka" had this level
    wrong: dict[str, list[str]] = {}
    settings = {"transaction_state_log_replication_factor": "1", "transaction_state_log_min_isr": "1"}
    async with running(tmp_path, **settings, **secured(len(sets))) as node:
        stage = Stage(await connect(node))
        await stage.set()
        allow(node, sets)
        await make_token(node)
        clients = {
            place: [await logged_in(node, place, number) for number in range(len(sets))]
            for place in ("SASL", "CONTROLLER")
        }
        recorded = rows(golden, node.ports.metadata.cluster_id or "", tmp_path)
        for row in sorted(filter(is_served, recorded), key=lambda row: row.key in WRITES):
            for number, words in chosen(row, sets, sets_per_answer):
                await stage.reset(row.key)
                client = clients["CONTROLLER" if row.on_controller else "SASL"][number]
                ours = await client.call(stage.message(row), row.key, row.version)
                wrong.setdefault(row.name, []).extend(
                    f"{words}{each}" for each in stage.differences(row.answers[words], ours)
                )
    different = {name: found for name, found in wrong.items() if found}
    assert different.keys() - DIFFERENT.keys() == set(), _first_of_each(different)
    assert DIFFERENT.keys() - different.keys() == set(), "these answers have become equal"


def test_the_recording_is_whole(golden: Path, tmp_path: Path) -> None:
    recorded = rows(golden, "", tmp_path)
    assert len(recorded) == 153
    assert sum(not is_served(row) for row in recorded) == 14, "APIs of share groups and telemetry"


def chosen(row: Row, sets: tuple[str, ...], per_answer: int) -> Iterator[tuple[int, str]]:
    """The first sets that got each of the row's answers, with their numbers. Each user makes its token, because later
    requests describe it."""
    seen: Counter[int] = Counter()
    for number, words in enumerate(sets):
        answer = id(row.answers[words])
        seen[answer] += 1
        if seen[answer] <= per_answer or row.key is ApiKey.CREATE_DELEGATION_TOKEN:
            yield number, words


async def logged_in(node: RunningNode, listener: str, number: int) -> Client:
    client = await connect(node, listener)
    await log_in(client, user(number))
    return client


async def make_token(node: RunningNode) -> None:
    """The administrator makes a token for `User:owner`."""
    client = await connect(node, "SASL")
    await log_in(client, ADMIN)
    request = CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name="owner")
    await client.call(request, ApiKey.CREATE_DELEGATION_TOKEN, 3)


def allow(node: RunningNode, sets: tuple[str, ...]) -> None:
    """Gives each user its set of ACLs."""
    rng = SystemRng(11)
    delta = MetadataDelta(node.metadata)
    for number, words in enumerate(sets):
        for operation, kind in grants(words):
            for name in COVERED[kind]:
                delta.replay(
                    AccessControlEntryRecord(
                        id=rng.uuid(),
                        resource_type=kind,
                        resource_name=name,
                        pattern_type=PatternType.LITERAL,
                        principal=f"User:{user(number).username}",
                        host="*",
                        operation=operation,
                        permission_type=AclPermissionType.ALLOW,
                    )
                )
    assert isinstance(node.authorizer, FollowsMetadata)
    node.authorizer.metadata_changed(delta, delta.apply(offset=0, epoch=0, timestamp_ms=0))


def _first_of_each(different: dict[str, list[str]]) -> str:
    return "\n".join(
        f"{name}: {len(found)} differences, such as {found[0][:400]}"
        for name, found in different.items()
        if name not in DIFFERENT
    )
