"""Sends requests about groups to their coordinators until each group has an answer. All groups of a coordinator are in
one request."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from kcli.client.client import looking_up
from kcli.errors import ErrorCode, KafkaError, error_for

if TYPE_CHECKING:
    from kcli.client.client import Client, Node

T = TypeVar("T")

GROUPS_PER_REQUEST = 500
"""The most groups of one request.

A request of this size has some tens of kilobytes, and the answer comes long before the time-out.
"""

Answers = Mapping[str, T | KafkaError]


async def at_coordinator(client: Client, name: str, group_id: str, ask: Callable[[Node], Awaitable[T]]) -> T:
    """Calls `ask` with a group's coordinator. Each attempt looks up the coordinator again."""

    async def attempt() -> T:
        with looking_up():
            node = await client.coordinator(group_id)
        return await ask(client.node(node))

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
    wanted = tuple(dict.fromkeys(group_ids))
    found: dict[str, T | KafkaError] = {}

    def take(groups: Iterable[str], answers: Answers[T]) -> list[KafkaError]:
        """Stores final answers in `found`. Returns the errors that can be retried."""
        again = []
        for group in groups:
            answer = answers.get(group) if group in answers else _no_answer(group)
            if isinstance(answer, KafkaError) and answer.retriable:
                again.append(answer)
            else:
                found[group] = answer  # type: ignore[assignment]  # T, which may be None
        return again

    async def ask_about(node: Node, groups: Sequence[str]) -> list[KafkaError]:
        try:
            answers = await ask(node, groups)
        except KafkaError as error:
            answers = dict.fromkeys(groups, error)
        return take(groups, answers)

    async def attempt() -> None:
        left = [group for group in wanted if group not in found]
        with looking_up():
            nodes = await _coordinators(client, left)
        unknown = {group: node for group, node in nodes.items() if isinstance(node, KafkaError)}
        homeless = take(unknown, unknown)
        by_node: dict[int, list[str]] = {}
        for group, node in nodes.items():
            if not isinstance(node, KafkaError):
                by_node.setdefault(node, []).append(group)
        failed = await asyncio.gather(
            *(
                ask_about(client.node(node), part)
                for node, groups in by_node.items()
                for part in _parts(groups)
            )
        )
        for error in itertools.chain(*failed):
            raise error
        with looking_up():
            for error in homeless:
                raise error

    try:
        await client.call(_call_name(name), attempt)
    except KafkaError as error:
        return {group: found.get(group, error) for group in wanted}
    return {group: found[group] for group in wanted}


async def _coordinators(client: Client, groups: Sequence[str]) -> dict[str, int | KafkaError]:
    found: dict[str, int | KafkaError] = {}
    for part in _parts(groups):
        found |= await client.coordinators(part)
    return found


def _parts(groups: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(groups), GROUPS_PER_REQUEST):
        yield groups[start : start + GROUPS_PER_REQUEST]


def _no_answer(group: str) -> KafkaError:
    return error_for(
        ErrorCode.UNKNOWN_SERVER_ERROR, f"The coordinator's answer does not mention group {group}."
    )


def _call_name(name: str) -> str:
    return f"{name}(api=FIND_COORDINATOR)"
