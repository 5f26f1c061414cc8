"""The request of a consumer group to resolve regular expressions, which the server does outside the shard."""

from __future__ import annotations

from dataclasses import dataclass

from kcli.coordinator.group.topics import TopicsView


@dataclass(frozen=True, slots=True)
class ResolveRegexes:
    """A request to match these expressions with the names of all topics, and to call `GroupShard.regexes_resolved` with
    the result."""

    group_id: str
    regexes: tuple[str, ...]
    topics: TopicsView
