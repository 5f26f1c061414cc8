"""The request with which a consumer group asks the server for the topics that match regular expressions. The server
does this search outside the coordinator."""

from __future__ import annotations

from dataclasses import dataclass

from kcli.coordinator.group.topics import TopicsView, VisibleTopics


@dataclass(frozen=True, slots=True)
class ResolveRegexes:
    """Asks the server to find the topics that match these expressions, and to call `GroupShard.regexes_resolved` with
    the result.

    A heartbeat caused the request. The result has only the topics that the client of this heartbeat may describe.
    """

    group_id: str
    regexes: tuple[str, ...]
    topics: TopicsView
    visible: VisibleTopics | None = None
