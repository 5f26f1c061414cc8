"""Look-ups of coordinators: versions, the memory of a client, and the errors after which it looks again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from kcli.client.client import Client, Node
from kcli.client.config import ClientConfig
from kcli.client.coordinator import (
    COORDINATORS_MAX,
    at_coordinator,
    coordinators_in,
    find_coordinator,
    find_coordinators,
    find_request,
)
from kcli.errors import ErrorCode, KafkaError, UnsupportedVersionException, error_for
from kcli.model.addresses import Address
from kcli.model.request_values import CoordinatorType
from kcli.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kcli.protocol.wire.api import ApiKey
from kcli.protocol.wire.codec import decode_request, decode_request_header, encode_request
from rigs.scripted_server import ScriptedServer

T = TypeVar("T")
GROUP, TRANSACTION, SHARE = CoordinatorType


def answer(request: FindCoordinatorRequest, version: int) -> FindCoordinatorResponse:
    """The coordinator of a key is the broker whose id is the length of the key."""
    if version < 4:
        return FindCoordinatorResponse(node_id=len(request.key), host="h", port=9092)
    found = (Coordinator(key=key, node_id=len(key), host="h", port=9092) for key in request.coordinator_keys)
    return FindCoordinatorResponse(coordinators=tuple(reversed(list(found))))


def called(
    call: Callable[[Client], Awaitable[T]], versions: tuple[int, int] = (0, 6)
) -> tuple[T, list[FindCoordinatorRequest]]:
    server = ScriptedServer({ApiKey.FIND_COORDINATOR: answer}, versions={ApiKey.FIND_COORDINATOR: versions})

    async def main() -> T:
        config = ClientConfig(servers=(Address("127.0.0.1", server.port),), retry_backoff_ms=1)
        async with Client(config) as client:
            return await call(client)

    with server:
        return asyncio.run(main()), server.sent(ApiKey.FIND_COORDINATOR)


def test_one_look_up_serves_the_later_calls() -> None:
    async def twice(client: Client) -> list[Node]:
        return [await find_coordinator(client, "gg"), await find_coordinator(client, "gg")]

    nodes, requests = called(twice)
    assert nodes == [Node(2, "h", 9092)] * 2
    assert len(requests) == 1


def test_a_group_and_a_transactional_id_of_one_name_are_two_keys() -> None:
    async def both(client: Client) -> None:
        await find_coordinator(client, "a", GROUP)
        await find_coordinator(client, "a", TRANSACTION)

    assert [request.key_type for request in called(both)[1]] == [GROUP, TRANSACTION]


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_a_call_after_an_error_looks_up_the_coordinator_again(code: ErrorCode) -> None:
    codes = iter([ErrorCode.NONE, code, ErrorCode.NONE])

    async def ask(node: Node) -> int:
        if (given := next(codes)) is not ErrorCode.NONE:
            raise error_for(given)
        return node.id

    async def twice(client: Client) -> list[int]:
        return [await at_coordinator(client, "test", "abc", ask) for _ in range(2)]

    ids, requests = called(twice)
    assert ids == [3, 3]
    assert len(requests) == 2, "one for the first call, one after the error"


@pytest.mark.parametrize("newest", [3, 4, 6])
def test_many_keys_are_one_request_since_version_4(newest: int) -> None:
    found, requests = called(lambda client: find_coordinators(client, ["a", "bb", "ccc"]), (0, newest))
    assert [node.id if isinstance(node, Node) else node for node in found.values()] == [1, 2, 3]
    assert len(requests) == (3 if newest < 4 else 1)


def test_coordinators_of_share_partitions_need_version_6() -> None:
    key = "group:AAAAAAAAAAAAAAAAAAAAAQ:0"
    node, requests = called(lambda client: find_coordinator(client, key, SHARE))
    assert node.id == len(key)
    assert requests[0].key_type == SHARE
    with pytest.raises(UnsupportedVersionException, match=r"version in range \[6,6\]"):
        called(lambda client: find_coordinator(client, key, SHARE), (0, 5))


@pytest.mark.parametrize("version", range(7))
def test_every_version_has_the_key_in_its_own_field(version: int) -> None:
    request = find_request(["a", "b"], GROUP)
    frame = encode_request(request, ApiKey.FIND_COORDINATOR, version, 1, "c")[4:]
    offset = decode_request_header(frame).body_offset
    read = decode_request(ApiKey.FIND_COORDINATOR, version, frame, offset)
    assert isinstance(read, FindCoordinatorRequest)
    assert (read.key, read.coordinator_keys) == (("a", ()) if version < 4 else ("", ("a", "b")))


def test_an_answer_has_an_error_for_each_key_without_a_coordinator() -> None:
    response = FindCoordinatorResponse(
        coordinators=(
            Coordinator(key="a", error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED),
            Coordinator(key="c", node_id=1, host="h", port=9092),
        )
    )
    found = coordinators_in(response, ["a", "b", "c"], GROUP)
    denied, missing = found["a"], found["b"]
    assert isinstance(denied, KafkaError) and isinstance(missing, KafkaError)
    assert denied.message == (
        "FindCoordinator request for groupId `CoordinatorKey(idValue='a', type=GROUP)` failed due to authorization "
        "failure"
    )
    assert (missing.code, missing.retriable) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, True)
    assert found["c"] == Node(1, "h", 9092)


def test_a_client_remembers_a_limited_number_of_coordinators() -> None:
    async def many(client: Client) -> int:
        client.coordinators.update({(GROUP, f"g{nth}"): Node(1, "h", 1) for nth in range(COORDINATORS_MAX)})
        await find_coordinator(client, "one more")
        return len(client.coordinators)

    assert called(many)[0] == 1
