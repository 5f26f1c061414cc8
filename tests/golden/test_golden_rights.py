"""The answers of Apache Kafka 4.1 to clients with few rights, recorded for each API and each set of ACLs.

There is a user for each of the 51 sets. Each request is sent once by each user, who has logged in with SASL/PLAIN.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcli.errors import ErrorCode
from kcli.model.acl import AclPermissionType, PatternType
from kcli.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kcli.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from kcli.protocol.wire.api import API, ApiKey
from kcli.security.acls.audit import AUDIT_LOG
from rigs.loops import on_a_loop, until
from rigs.node import RunningNode, connect, running
from rigs.recorded_rights import (
    ADMIN,
    COVERED,
    AuditLog,
    Row,
    Stage,
    acl_sets,
    audit_lines,
    grants,
    is_served,
    rows,
    secured,
    user,
)
from rigs.sasl import log_in
from rigs.two_roles import Apart, running_apart
from rigs.wire_client import Client

SHARE = "share groups are not built"
DIFFERENT = {
    "FindCoordinator v6: share key": SHARE,
    "ListConfigResources v1: all types": SHARE + ", so their internal topic is missing",
    "ListConfigResources v1: topics only": SHARE + ", so their internal topic is missing",
    "ApiVersions v4: ": SHARE + ", and telemetry is not built",
}
"""request -> why its answers differ from Kafka's."""

WRITES = frozenset({ApiKey.PRODUCE, ApiKey.WRITE_TXN_MARKERS})
"""These requests are sent last, because Kafka's topics were empty when the other requests were recorded."""


TWO_IDS = "the controller is another node here, with another id"
WITH_ANOTHER_CONTROLLER = DIFFERENT | {
    "DescribeQuorum v2: cluster metadata": TWO_IDS,
    "DescribeQuorum v2 on the controller: straight to the controller": TWO_IDS,
    "DescribeCluster v2 on the controller: controllers, straight to the controller": TWO_IDS,
    "UpdateRaftVoter v0 on the controller: wrong cluster id": TWO_IDS,
}

SETTINGS = {"transaction_state_log_replication_factor": "1", "transaction_state_log_min_isr": "1"}
SOME = pytest.mark.parametrize("sets_per_answer", [2, pytest.param(99, marks=pytest.mark.full)])
"""The number of sets with the same answer that send each request."""


@SOME
@on_a_loop
async def test_each_set_of_acls_gets_the_answers_of_kafka(
    tmp_path: Path, golden: Path, caplog: pytest.LogCaptureFixture, sets_per_answer: int
) -> None:
    caplog.set_level(logging.INFO, "kcli")  # Kafka's logger "kafka" had this level
    async with running(tmp_path, **SETTINGS, **secured(len(acl_sets(golden)))) as node:
        different = await differences(golden, tmp_path, Apart(node, node), sets_per_answer)
    assert different.keys() - DIFFERENT.keys() == set(), _first_of_each(different)
    assert DIFFERENT.keys() - different.keys() == set(), "these answers have become equal"


@SOME
@on_a_loop
async def test_the_answers_are_equal_if_a_broker_forwards_requests(
    tmp_path: Path, golden: Path, caplog: pytest.LogCaptureFixture, sets_per_answer: int
) -> None:
    caplog.set_level(logging.INFO, "kcli")
    async with running_apart(tmp_path, **SETTINGS, **secured(len(acl_sets(golden)))) as nodes:
        different = await differences(golden, tmp_path / "broker", nodes, sets_per_answer)
    assert different.keys() - WITH_ANOTHER_CONTROLLER.keys() == set(), _first_of_each(different)
    assert WITH_ANOTHER_CONTROLLER.keys() - different.keys() == set(), "these answers have become equal"


LOGGED_OTHERWISE = {
    "DescribeDelegationToken v3: owner User:owner (one token exists)": "the lines contain ids of tokens",
    "DescribeDelegationToken v3: all": "the lines contain ids of tokens",
    "DescribeTopicPartitions v0: all topics": SHARE + ", so their internal topic is missing",
    "CreateDelegationToken v3: for owner User:owner": "Kafka's broker and controller both write the line",
}
"""request -> why its lines in the audit log differ from Kafka's."""


@on_a_loop
async def test_the_audit_log_has_the_lines_of_kafka(
    tmp_path: Path, golden: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Sends each request once for each recorded answer, and compares the lines about the user."""
    caplog.set_level(logging.DEBUG, AUDIT_LOG.name)
    sets, recorded, log = acl_sets(golden), audit_lines(golden), AuditLog()
    different: set[str] = set()
    async with running(tmp_path, **SETTINGS, **secured(len(sets))) as node:
        stage, clients = await prepared(golden, Apart(node, node))
        AUDIT_LOG.addHandler(log)
        try:
            for row in filter(is_served, rows(golden, node.metadata.cluster_id or "", tmp_path)):
                for number, words in enumerate(sets):
                    lines = recorded.get((API[row.key].name, row.words, words))
                    if lines is None:
                        continue
                    await stage.reset(row.key)
                    log.taken()
                    client = clients["CONTROLLER" if row.on_controller else "SASL"][number]
                    await client.call(stage.message(row), row.key, row.version)
                    if log.taken() != lines:
                        different.add(row.name)
        finally:
            AUDIT_LOG.removeHandler(log)
    assert different == LOGGED_OTHERWISE.keys()


async def prepared(golden: Path, nodes: Apart) -> tuple[Stage, dict[str, list[Client]]]:
    """The stage of the recording, and a client for each listener and set of ACLs."""
    sets = acl_sets(golden)
    stage = Stage(await connect(nodes.broker))
    await stage.set()
    await allow(nodes, sets)
    await make_token(nodes.broker)
    return stage, {
        place: [await logged_in(node, place, number) for number in range(len(sets))]
        for place, node in (("SASL", nodes.broker), ("CONTROLLER", nodes.controller))
    }


async def differences(
    golden: Path, log_directory: Path, nodes: Apart, per_answer: int
) -> dict[str, list[str]]:
    """Sends each recorded request with some sets of ACLs. Returns the requests whose answers differ."""
    sets = acl_sets(golden)
    wrong: dict[str, list[str]] = {}
    stage, clients = await prepared(golden, nodes)
    recorded = rows(golden, nodes.broker.metadata.cluster_id or "", log_directory)
    for row in sorted(filter(is_served, recorded), key=lambda row: row.key in WRITES):
        for number, words in chosen(row, sets, per_answer):
            await stage.reset(row.key)
            client = clients["CONTROLLER" if row.on_controller else "SASL"][number]
            ours = await client.call(stage.message(row), row.key, row.version)
            wrong.setdefault(row.name, []).extend(
                f"{words}{each}" for each in stage.differences(row.answers[words], ours)
            )
    return {name: found for name, found in wrong.items() if found}


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


async def allow(nodes: Apart, sets: tuple[str, ...]) -> None:
    """Gives each user its set of ACLs."""
    creations = tuple(
        AclCreation(
            resource_type=kind,
            resource_name=name,
            resource_pattern_type=PatternType.LITERAL,
            principal=f"User:{user(number).username}",
            host="*",
            operation=operation,
            permission_type=AclPermissionType.ALLOW,
        )
        for number, words in enumerate(sets)
        for operation, kind in grants(words)
        for name in COVERED[kind]
    )
    client = await connect(nodes.broker)
    response = await client.call(CreateAclsRequest(creations=creations), ApiKey.CREATE_ACLS, 3)
    assert {result.error_code for result in response.results} == {ErrorCode.NONE}
    await until(lambda: len(nodes.broker.metadata.acls) == len(creations))
    await until(lambda: len(nodes.controller.metadata.acls) == len(creations))


def _first_of_each(different: dict[str, list[str]]) -> str:
    return "\n".join(
        f"{name}: {len(found)} differences, such as {found[0][:400]}"
        for name, found in different.items()
        if name not in DIFFERENT
    )
