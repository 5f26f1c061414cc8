"""Subscriptions by regular expression (RE2): when they are resolved to topics, and how the result is used.

Matching every topic with every expression takes time, so the server does this work outside the coordinator. To request
the work, the coordinator puts a `ResolveRegexes` into the `Ready` of a heartbeat (`coordinator.runtime`).
`ConsumerProtocol.regexes_resolved` gets the topics that were found. All expressions of a group are resolved together,
so that a new topic causes only one rebalance. The expressions are resolved if one of them is not resolved yet, if there
are new topics, or if the last result is old. They are resolved at most once in `MIN_REFRESH_MS`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Protocol

from kcli.coordinator.group.config import GroupConfig
from kcli.coordinator.group.consumer.resolve_regexes import ResolveRegexes
from kcli.coordinator.group.consumer.state.group import ConsumerGroup
from kcli.coordinator.group.consumer.state.log import Writer
from kcli.coordinator.group.consumer.state.member import ConsumerMember
from kcli.coordinator.group.consumer.state.records import regex_tombstone
from kcli.coordinator.group.topics import TopicsView
from kcli.errors import InvalidRegularExpression

MIN_REFRESH_MS = 10_000
"""The shortest time after which the expressions of a group are resolved again, as in Kafka. Without this limit, many
members with many expressions could keep the broker busy."""
_NEVER_MS = -(2**63)
_CACHED_PATTERNS = 1_000
"""The size of the cache of compiled expressions. An expression takes a few kilobytes."""


class RegexChange(Enum):
    NONE = 0
    UPDATED = 1
    RESOLVED = 2
    """The topics of the member's new expression are already known, so a new target can be computed at once."""


class Pattern(Protocol):
    def fullmatch(self, text: str) -> object | None: ...


@functools.lru_cache(maxsize=_CACHED_PATTERNS)
def compiled(regex: str) -> Pattern:
    """Compiles an expression. Raises INVALID_REGULAR_EXPRESSION if RE2 refuses it."""
    import re2  # imported late, because few groups subscribe by regular expression

    options = re2.Options()
    options.log_errors = False
    try:
        pattern: Pattern = re2.compile(regex, options)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        said = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise InvalidRegularExpression(
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {said}."
        ) from None
    return pattern


def matching(regexes: Iterable[str], names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The topics that each expression matches. An expression must match the whole name of a topic. If RE2 refuses an
    expression that another broker has accepted, the expression matches no topics."""
    known = tuple(names)
    found: dict[str, tuple[str, ...]] = {}
    for regex in regexes:
        try:
            found[regex] = tuple(filter(compiled(regex).fullmatch, known))
        except InvalidRegularExpression:
            found[regex] = ()
    return found


class Regexes:
    """The regular expressions of the groups of one partition of `__consumer_offsets`. `new_topics_version` is the
    version of the last metadata with a new topic."""

    def __init__(self, config: GroupConfig) -> None:
        self._config = config
        self.new_topics_version = -1

    def check(self, group: ConsumerGroup, before: ConsumerMember, regex: str | None) -> None:
        """Raises INVALID_REGULAR_EXPRESSION if `regex` is new to the group and invalid. Call this method before any
        write."""
        if regex and regex != before.topic_regex and not group.subscribers_of(regex):
            compiled(regex)

    def update(self, writer: Writer, before: ConsumerMember, member: ConsumerMember) -> RegexChange:
        """Returns how the member's expression changed. If no member has the old expression any more, writes a tombstone
        for it. Call this method after the member is written."""
        group = writer.group
        old, new = before.topic_regex, member.topic_regex
        if old == new:
            return RegexChange.NONE
        if old and not group.subscribers_of(old):
            record = regex_tombstone(group.group_id, old)
            writer.put(record.key, record.value)
        if new:
            return RegexChange.RESOLVED if new in group.regexes else RegexChange.UPDATED
        return RegexChange.RESOLVED if old else RegexChange.UPDATED

    def resolution_due(self, group: ConsumerGroup, topics: TopicsView, now_ms: int) -> ResolveRegexes | None:
        """The request to resolve the group's expressions, or None if they need not be resolved now. After a request,
        the group waits for the result."""
        wanted = group.subscribed_regexes
        if not wanted or group.is_resolving:
            return None
        last_ms = max((each.timestamp_ms for each in group.regexes.values()), default=_NEVER_MS)
        if now_ms <= last_ms + MIN_REFRESH_MS:
            return None
        version = max((each.version for each in group.regexes.values()), default=-1)
        if (
            len(wanted) == len(group.regexes)
            and version >= self.new_topics_version
            and now_ms <= last_ms + self._config.regex_refresh_interval_ms
        ):
            return None
        group.is_resolving = True
        return ResolveRegexes(group.group_id, wanted, topics)


def changed(group: ConsumerGroup, found: Mapping[str, tuple[str, ...]]) -> bool:
    """Whether at least one of the expressions matches other topics than before."""
    for regex, names in found.items():
        known = group.regexes.get(regex)
        if (() if known is None else known.topic_names) != names:
            return True
    return False
