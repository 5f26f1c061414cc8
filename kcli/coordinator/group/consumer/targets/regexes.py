"""Subscriptions by regular expression (RE2): when they are resolved, and what becomes of the answer.

Matching every topic against every expression takes time, so it is done outside the shard: a `ResolveRegexes` goes out
with a heartbeat's answer, and `ConsumerProtocol.regexes_resolved` takes the result. All the expressions of a group are
resolved together, so that a new topic makes one rebalance. That happens at most every `MIN_REFRESH_MS`, and only if an
expression is not resolved yet, there are new topics, or the last time is long ago.
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
"""Kafka's: many members with many expressions must not keep the broker matching."""
_NEVER_MS = -(2**63)
_CACHED_PATTERNS = 1_000
"""Compiled expressions kept at hand; one costs a few kilobytes."""


class RegexChange(Enum):
    NONE = 0
    UPDATED = 1
    RESOLVED = 2
    """Updated, to something whose topics are known, so that a new target can be computed at once."""


class Pattern(Protocol):
    def fullmatch(self, text: str) -> object | None: ...


@functools.lru_cache(maxsize=_CACHED_PATTERNS)
def compiled(regex: str) -> Pattern:
    """Raises INVALID_REGULAR_EXPRESSION."""
    import re2  # imported late: few groups subscribe by regex

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
    """The topics that each expression stands for: its whole name must match. One that another broker took and RE2 does
    not stands for none."""
    known = tuple(names)
    found: dict[str, tuple[str, ...]] = {}
    for regex in regexes:
        try:
            found[regex] = tuple(filter(compiled(regex).fullmatch, known))
        except InvalidRegularExpression:
            found[regex] = ()
    return found


class Regexes:
    """`new_topics_version`: of the last metadata that had a topic more than the one before."""

    def __init__(self, config: GroupConfig) -> None:
        self._config = config
        self.new_topics_version = -1

    def check(self, group: ConsumerGroup, before: ConsumerMember, regex: str | None) -> None:
        """Before anything is written: a regex that is new to the group must be one."""
        if regex and regex != before.topic_regex and not group.subscribers_of(regex):
            compiled(regex)

    def update(self, writer: Writer, before: ConsumerMember, member: ConsumerMember) -> RegexChange:
        """The member has been written with its present regex; takes note of the change, if it is one."""
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
        """The expressions that should be resolved now; the group then waits for the answer."""
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
    """Whether an expression stands for other topics than it did."""
    for regex, names in found.items():
        known = group.regexes.get(regex)
        if (() if known is None else known.topic_names) != names:
            return True
    return False
