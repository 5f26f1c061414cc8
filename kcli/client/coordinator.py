"""Finds the coordinators of groups, transactional ids and share partitions, and sends requests to them.

`find_request` and `coordinators_in` build the request and read the answer without input or output. So clients with
connections of their own use them too. The other functions need a `Client`.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from kcli.client.client import Node, error_of, looking_up
from kcli.errors import ErrorCode, KafkaError, UnsupportedVersionException, error_for
from kcli.model.request_values import CoordinatorType
from kcli.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kcli.protocol.wire.api import ApiKey

if TYPE_CHECKING:
    from kcli.client.client import Client

T = TypeVar("T")

GROUPS_PER_REQUEST = 500
"""The most groups of one request.

A request of this size has some tens of kilobytes, and the answer comes long before the time-out.
"""

COORDINATORS_MAX = 1_000
"""The most coordinators that a client remembers. This is far more than any program uses at a time."""

BATCHED_SINCE = 4
"""The first version of FindCoordinator with several keys (KIP-699)."""

_FIRST_VERSION = {
    CoordinatorType.GROUP: 0,
    CoordinatorType.TRANSACTION: 1,  # KIP-98
    CoordinatorType.SHARE: 6,  # KIP-932
}
_DENIED = (ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)

Answers = Mapping[str, T | KafkaError]


def find_request(keys: Sequence[str], key_type: CoordinatorType) -> FindCoordinatorRequest:
    """Returns the request for the coordinators of `keys`. Versions before BATCHED_SINCE have only the first key."""
    return FindCoordinatorRequest(key=keys[0], key_type=key_type, coordinator_keys=tuple(keys))


def coordinators_in(
    response: FindCoordinatorResponse, keys: Sequence[str], key_type: CoordinatorType
) -> dict[str, Node | KafkaError]:
    """Returns the coordinator of each key in an answer of any version, or the error of the key."""
    entries = {entry.key: entry for entry in response.coordinators}
    if not entries:
        entries = {
            keys[0]: Coordinator(
                node_id=response.node_id,
                host=response.host,
                port=response.port,
                error_code=response.error_code,
                error_message=response.error_message,
            )
        }
    missing = Coordinator(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, error_message=None)
    return {key: _node_or_error(key, key_type, entries.get(key, missing)) for key in keys}


def _node_or_error(key: str, key_type: CoordinatorType, entry: Coordinator) -> Node | KafkaError:
    """Returns the server of an entry, or its error. A missing permission has the text of Java's client."""
    if entry.error_code is ErrorCode.NONE:
        return Node(entry.node_id, entry.host, entry.port)
    message = entry.error_message
    if entry.error_code in _DENIED:
        kind = "groupId" if key_type is CoordinatorType.GROUP else "transactionalId"
        shown = f"CoordinatorKey(idValue='{key}', type={key_type.name})"
        message = f"FindCoordinator request for {kind} `{shown}` failed due to authorization failure"
    error = error_of(entry.error_code, message)
    assert error is not None
    return error


async def find_coordinator(
    client: Client, key: str, key_type: CoordinatorType = CoordinatorType.GROUP
) -> Node:
    """Returns the coordinator of a key, from memory if it is known.

    Raises a retriable error if no coordinator exists at the moment.
    """
    node = client.coordinators.get((key_type, key))
    if node is None:
        answer = (await _look_up(client, [key], key_type, _FIRST_VERSION[key_type]))[key]
        if isinstance(answer, KafkaError):
            raise answer
        if len(client.coordinators) >= COORDINATORS_MAX:
            client.coordinators.clear()
        node = client.coordinators[key_type, key] = answer
    client.add_node(node)  # a later metadata response may have removed the coordinator
    return node


def forget_coordinator(client: Client, key: str, key_type: CoordinatorType = CoordinatorType.GROUP) -> None:
    """Makes the next call look up the coordinator again, because the known broker does not serve the key."""
    client.coordinators.pop((key_type, key), None)


async def find_coordinators(
    client: Client, keys: Sequence[str], key_type: CoordinatorType = CoordinatorType.GROUP
) -> dict[str, Node | KafkaError]:
    """Looks up the coordinator of each key. Returns the coordinators and the errors.

    Brokers before Apache Kafka 3.0 get one request for each key.
    """
    least = max(BATCHED_SINCE, _FIRST_VERSION[key_type])
    coordinators: dict[str, Node | KafkaError] = {}
    try:
        for part in _parts(keys):
            coordinators |= await _look_up(client, part, key_type, least)
    except UnsupportedVersionException:
        for key in keys:
            coordinators |= await _look_up(client, [key], key_type, _FIRST_VERSION[key_type])
    for node in coordinators.values():
        if isinstance(node, Node):
            client.add_node(node)
    return coordinators


async def _look_up(
    client: Client, keys: Sequence[str], key_type: CoordinatorType, at_least: int
) -> dict[str, Node | KafkaError]:
    request = find_request(keys, key_type)
    response = await client.send(request, ApiKey.FIND_COORDINATOR, at_least=at_least)
    assert isinstance(response, FindCoordinatorResponse)
    return coordinators_in(response, keys, key_type)


async def at_coordinator(
    client: Client,
    name: str,
    key: str,
    ask: Callable[[Node], Awaitable[T]],
    key_type: CoordinatorType = CoordinatorType.GROUP,
) -> T:
    """Calls `ask` with the coordinator of a key until it succeeds or its error is final.

    After an error, the next attempt looks up the coordinator again.
    """

    async def attempt() -> T:
        with looking_up():
            node = await find_coordinator(client, key, key_type)
        try:
            return await ask(node)
        except KafkaError:
            forget_coordinator(client, key, key_type)
            raise

    return await client.call(_call_name(name), attempt)


async def at_coordinators(
    client: Client,
    name: str,
    group_ids: Iterable[str],
    ask: Callable[[Node, Sequence[str]], Awaitable[Answers[T]]],
) -> dict[str, T | KafkaError]:
    """Calls `ask` with each coordinator and its groups. Returns the answer or the error for each group.

    If a group has a retriable error, the call looks up the coordinator and sends the request again, until the time-out
    of the call.
    """
    unique_ids = tuple(dict.fromkeys(group_ids))
    results: dict[str, T | KafkaError] = {}

    def take(groups: Iterable[str], answers: Answers[T]) -> list[KafkaError]:
        """Stores final answers in `results`. Returns the errors that can be retried."""
        again = []
        for group in groups:
            answer = answers.get(group) if group in answers else _no_answer(group)
            if isinstance(answer, KafkaError) and answer.retriable:
                again.append(answer)
            else:
                results[group] = answer  # type: ignore[assignment]  # T, which may be None
        return again

    async def ask_about(node: Node, groups: Sequence[str]) -> list[KafkaError]:
        try:
            answers = await ask(node, groups)
        except KafkaError as error:
            answers = dict.fromkeys(groups, error)
        return take(groups, answers)

    async def attempt() -> None:
        left = [group for group in unique_ids if group not in results]
        with looking_up():
            nodes = await find_coordinators(client, left)
        unknown = {group: node for group, node in nodes.items() if isinstance(node, KafkaError)}
        homeless = take(unknown, unknown)
        by_node: dict[Node, list[str]] = {}
        for group, node in nodes.items():
            if isinstance(node, Node):
                by_node.setdefault(node, []).append(group)
        failed = await asyncio.gather(
            *(ask_about(node, part) for node, groups in by_node.items() for part in _parts(groups))
        )
        for error in itertools.chain(*failed):
            raise error
        with looking_up():
            for error in homeless:
                raise error

    try:
        await client.call(_call_name(name), attempt)
    except KafkaError as error:
        return {group: results.get(group, error) for group in unique_ids}
    return {group: results[group] for group in unique_ids}


def _parts(groups: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(groups), GROUPS_PER_REQUEST):
        yield groups[start : start + GROUPS_PER_REQUEST]


def _no_answer(group: str) -> KafkaError:
    return error_for(
        ErrorCode.UNKNOWN_SERVER_ERROR, f"The coordinator's answer does not mention group {group}."
    )


def _call_name(name: str) -> str:
    return f"{name}(api=FIND_COORDINATOR)"
