"""The types of groups in one shard: finds the type of a group, of a request, of a record and of a deadline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import Any, TypeVar

from kcli.coordinator.group.group_type import GroupType, GroupTypeRow, ShardParts
from kcli.coordinator.group.records import LogRecord
from kcli.coordinator.group.requests import ArgumentT, Kind, Question, Request
from kcli.coordinator.group.step import GroupStep

AnswerT = TypeVar("AnswerT")


class TypeTable:
    def __init__(self, rows: Iterable[GroupTypeRow], parts: ShardParts) -> None:
        self._groups = parts.groups
        self._types = parts.types
        for row in rows:
            self._types[row.name] = row.create(parts)
        self._first = next(iter(self._types.values()))
        self._servers: dict[Kind, GroupType] = {}
        """For each request, the first type that serves the request."""
        self._of_timer: dict[StrEnum, GroupType] = {}
        for group_type in self._types.values():
            for kind in group_type.requests:
                self._servers.setdefault(kind, group_type)
            for timer in group_type.timers:
                assert timer not in self._of_timer, f"two types of groups have the timer {timer!r}"
                self._of_timer[timer] = group_type

    def __iter__(self) -> Iterator[GroupType]:
        return iter(self._types.values())

    def of(self, group_id: str) -> GroupType | None:
        """The type of a group. None if the group does not exist."""
        group = self._groups.get(group_id)
        return None if group is None else self._types[group.group_type]

    def of_all_groups(self) -> Iterator[tuple[str, GroupType]]:
        """Yields each group with its type. The caller may pause after a group, and groups may be deleted meanwhile."""
        for group_id in tuple(self._groups):
            group_type = self.of(group_id)
            if group_type is not None:
                yield group_id, group_type

    def of_offsets(self, group_id: str) -> GroupType:
        """The type that decides about the offsets of a group. A group that does not exist, or that has only offsets,
        belongs to the first type."""
        return self.of(group_id) or self._first

    def of_record(self, record: LogRecord) -> GroupType:
        return self._types[record.group_type]

    def of_timer(self, kind: StrEnum, group_id: str) -> GroupType | None:
        """The type that handles a deadline of a group. None if the group has another type now, because the deadline
        belongs to an earlier group with the same id."""
        group_type = self._of_timer[kind]
        return group_type if group_type is self.of(group_id) else None

    def serving(
        self, request: Request[ArgumentT], argument: ArgumentT
    ) -> Callable[[ArgumentT, GroupStep], None]:
        """The function that serves a request."""
        return self._function(request, argument.group_id)

    def answering(
        self, question: Question[ArgumentT, AnswerT], argument: ArgumentT
    ) -> Callable[[ArgumentT, int], AnswerT]:
        """The function that answers a question."""
        return self._function(question, argument.group_id)

    def _function(self, kind: Kind, group_id: str) -> Callable[..., Any]:
        group = self._groups.get(group_id)
        if group is not None and (function := self._types[group.group_type].requests.get(kind)) is not None:
            return function
        return self._servers[kind].requests[kind]
