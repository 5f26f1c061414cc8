"""Requests to the coordinators of groups: one per coordinator about all of its groups, until every group has an
answer."""

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
"""Groups per request: some tens of kilobytes, answered well before a request's timeout."""

Answers = Mapping[str, T | KafkaError]


async def at_coordinator(client: Client, name: str, group_id: str, ask: Callable[[Node], Awaitable[T]]) -> T:
    """Runs `ask` against a group's coordinator, with a new look-up for each attempt."""

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
    """The answer to `ask` for each group, from its coordinator. Groups with a retriable error are tried again at their
    coordinator of that time, until the call's timeout."""
    wanted = tuple(dict.fromkeys(group_ids))
    found: dict[str, T | KafkaError] = {}

    def take(groups: Iterable[str], answers: Answers[T]) -> list[KafkaError]:
        """Keeps the answers; returns the errors to retry."""
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
