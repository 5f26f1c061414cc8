"""The work that consumer groups ask of the shell."""

from __future__ import annotations

from dataclasses import dataclass

from kcli.coordinator.group.topics import TopicsView


@dataclass(frozen=True, slots=True)
class ResolveRegexes:
    """Match these against the names of all topics, and bring the answer back (`GroupShard.regexes_resolved`)."""

    group_id: str
    regexes: tuple[str, ...]
    topics: TopicsView
