"""The request of a consumer group to find the topics that match regular expressions. The server does this work outside
the coordinator."""

from __future__ import annotations

from dataclasses import dataclass

from kcli.coordinator.group.topics import TopicsView, VisibleTopics


@dataclass(frozen=True, slots=True)
class ResolveRegexes:
    """A request to match these expressions with the names of all topics, and to call `GroupShard.regexes_resolved` with
    the result.

    A heartbeat caused the request. The result has only the topics that the client of this heartbeat may describe.
    """

    group_id: str
    regexes: tuple[str, ...]
    topics: TopicsView
    visible: VisibleTopics | None = None
