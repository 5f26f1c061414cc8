"""Each API with no right, with Describe only, with the rights that it asks for, and with a denial of these rights."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kcli.cli.missing_rights import refused
from kcli.errors import ErrorCode
from kcli.model.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from kcli.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest
from kcli.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kcli.protocol.wire.api import ApiKey
from kcli.server.requests.access import OPEN
from kcli.server.requests.apis import APIS
from rigs.loops import on_a_loop, until
from rigs.node import RunningNode, connect, create, running
from rigs.recorded_rights import secured, user
from rigs.rights_sweep import NAMES, REFUSALS, SWEEP, Grant, Row
from rigs.sasl import log_in
from rigs.two_roles import Apart, running_apart
from rigs.wire_client import Client

NOTHING, DESCRIBES = 0, 1
"""The user without rights, and the user who may describe everything."""
USERS = 2 + 2 * len(SWEEP)
SETTINGS = {
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "auto.create.topics.enable": "false",
}
HINTED_INSTEAD = {
    (ApiKey.DELETE_TOPICS, "DESCRIBE TOPIC"): (AclOperation.DELETE, ResourceType.TOPIC),
    (ApiKey.WRITE_TXN_MARKERS, "CLUSTER_ACTION CLUSTER"): (AclOperation.ALTER, ResourceType.CLUSTER),
}
"""Rows whose hint is another right that is also enough."""
DESCRIPTIONS = tuple((AclOperation.DESCRIBE, kind) for kind in NAMES if kind is not ResourceType.USER)


def test_the_sweep_has_every_api_that_asks_for_rights() -> None:
    asking = {key for key, api in APIS.items() if api.access != OPEN}
    assert {row.key for row in SWEEP} == asking


@pytest.mark.parametrize("is_forwarded", [False, True], ids=["combined", "forwarded"])
@on_a_loop
async def test_each_api_asks_for_its_rights(
    tmp_path: Path, is_forwarded: bool, caplog: pytest.LogCaptureFixture
) -> None:
    settings = SETTINGS | secured(USERS)
    if is_forwarded:
        async with running_apart(tmp_path, **settings) as nodes:
            assert not (wrong := await _wrong(nodes)), "\n".join(wrong)
    else:
        async with running(tmp_path, **settings) as node:
            assert not (wrong := await _wrong(Apart(node, node))), "\n".join(wrong)
    assert "Unexpected error" not in caplog.text, "no handler fails, also not one that needs a task too early"


async def _wrong(nodes: Apart) -> list[str]:
    """Describes each answer that does not follow the table."""
    admin = await connect(nodes.broker)
    await _set_stage(admin)
    await _allow(nodes, admin)
    clients: dict[tuple[str, int], Client] = {}

    async def answer(row: Row, place: str, number: int) -> Any:
        if (place, number) not in clients:
            clients[place, number] = await _logged_in(_node(nodes, place), place, number)
        return await clients[place, number].call(row.message(), row.key, row.version)

    wrong = []
    for nth, row in enumerate(SWEEP):
        exact, denied = _users_of(nth)
        expected = {
            NOTHING: row.refusal,
            DESCRIBES: row.described_refusal,
            denied: row.refusal,
            exact: None,
        }
        for place in row.places():
            for number, code in expected.items():
                response = await answer(row, place, number)
                if not _is_expected(row, response, code):
                    wrong.append(f"{row.key.name} {row.grants} on {place}, expected {code}: {response}")
                if code is not None and (hint := _wrong_hint(row, response)):
                    wrong.append(f"{row.key.name} {row.grants} on {place}: the tools would show {hint}")
    return wrong


def _is_expected(row: Row, response: Any, code: ErrorCode | None) -> bool:
    found = set(_codes(response)) & set(REFUSALS.values())
    if row.shows:
        return not found and bool(getattr(response, row.shows)) == (code is None)
    return found == (set() if code is None else {code})


def _wrong_hint(row: Row, response: Any) -> str:
    """The rights that a tool shows after this answer, if they are not exactly rights that are missing."""
    if row.shows or row.key is ApiKey.ADD_PARTITIONS_TO_TXN:  # no tool sends this API
        return ""
    hints = set(refused(row.key, row.message(), response))
    is_right = hints and all(
        (each.operation, each.resource_type) in (*row.needs, HINTED_INSTEAD.get((row.key, row.grants)))
        and each.name in NAMES[each.resource_type]
        for each in hints
    )
    return "" if is_right else f"{hints or 'nothing'}"


def _codes(value: Any) -> Iterator[ErrorCode]:
    """Every error code in a message."""
    if isinstance(value, ErrorCode):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from _codes(each)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            if field.name != "topic_config_error_code":  # it hides only the configs of a new topic
                yield from _codes(getattr(value, field.name))


def _users_of(nth: int) -> tuple[int, int]:
    """The user with exactly the grants of a row, and the user who also has a denial of each of them."""
    return 2 + 2 * nth, 3 + 2 * nth


def _node(nodes: Apart, place: str) -> RunningNode:
    return nodes.broker if place == "SASL" else nodes.controller


async def _logged_in(node: RunningNode, place: str, number: int) -> Client:
    client = await connect(node, place)
    assert (await log_in(client, user(number))).error_code is ErrorCode.NONE
    return client


async def _set_stage(admin: Client) -> None:
    """Makes the resources that the requests name."""
    for name in ("t", "t2"):
        await create(admin, name)
    for kind, key in enumerate(("g", "x")):
        await admin.call(FindCoordinatorRequest(key=key, key_type=kind), ApiKey.FIND_COORDINATOR, 3)
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=0)
    topics = (OffsetCommitRequestTopic(name="t", partitions=(part,)),)
    await admin.call(OffsetCommitRequest(group_id="g", topics=topics), ApiKey.OFFSET_COMMIT, 8)
    init = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000)
    await admin.call(init, ApiKey.INIT_PRODUCER_ID, 3)


async def _allow(nodes: Apart, admin: Client) -> None:
    allow, deny = AclPermissionType.ALLOW, AclPermissionType.DENY
    creations = [_acl(DESCRIBES, grant, allow, name) for grant in DESCRIPTIONS for name in NAMES[grant[1]]]
    for nth, row in enumerate(SWEEP):
        exact, denied = _users_of(nth)
        for grant in row.needs:
            for name in NAMES[grant[1]]:
                creations += [_acl(number, grant, allow, name) for number in (exact, denied)]
                creations.append(_acl(denied, grant, deny, name))
    response = await admin.call(CreateAclsRequest(creations=tuple(creations)), ApiKey.CREATE_ACLS, 3)
    assert {result.error_code for result in response.results} == {ErrorCode.NONE}
    await until(lambda: len(nodes.broker.metadata.acls) == len(creations))
    await until(lambda: len(nodes.controller.metadata.acls) == len(creations))


def _acl(number: int, grant: Grant, permission: AclPermissionType, name: str) -> AclCreation:
    operation, kind = grant
    return AclCreation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=PatternType.LITERAL,
        principal=f"User:{user(number).username}",
        host="*",
        operation=operation,
        permission_type=permission,
    )
