"""Subscriptions by regular expression (RE2): when they are resolved to topics, and how the result is used.

Matching every topic with every expression takes time, so the server does this work outside the coordinator. To request
the work, the coordinator puts a `ResolveRegexes` into the `Ready` of a heartbeat (`coordinator.runtime`). The request
`REGEXES_RESOLVED` returns the topics that were found. All expressions of a group are resolved together,
so that a new topic causes only one rebalance. The expressions are resolved if one of them is not resolved yet, if there
are new topics, or if the last result is old. They are resolved at most once in `MIN_REFRESH_MS`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from kcli.coordinator.group.consumer.state.group import NEVER_MS, ConsumerGroup
from kcli.coordinator.group.consumer.state.log import Writer
from kcli.coordinator.group.consumer.state.member import ConsumerMember
from kcli.coordinator.group.consumer.state.records import regex_tombstone
from kcli.coordinator.group.consumer.state.shard import ConsumerShard
from kcli.coordinator.group.topics import TopicsView, VisibleTopics
from kcli.coordinator.patterns import PATTERN_MAX_CHARS, Pattern, compiled_pattern
from kcli.errors import InvalidRegularExpression

MIN_REFRESH_MS = 10_000
"""The shortest time after which the expressions of a group are resolved again, as in Kafka. Without this limit, many
members with many expressions could keep the broker busy."""
NAMES_PER_STEP = 200
"""The names that are matched with one usual expression in a step. A name takes 2 to 10 µs."""
INSTRUCTIONS_PER_NAME = 100
"""The size of the program of a usual expression. With a program of twice this size, a name counts as two, because the
time of a match may grow with the size."""


@dataclass(frozen=True, slots=True)
class ResolveRegexes:
    """Asks the server to find the topics that match these expressions, and to send the result to the shard as a
    `RegexesResolved`.

    A heartbeat caused the request. The result has only the topics that the client of this heartbeat may describe.
    """

    group_id: str
    regexes: tuple[str, ...]
    topics: TopicsView
    visible: VisibleTopics | None = None


@dataclass(frozen=True, slots=True)
class RegexesResolved:
    """The topics that match the expressions of a `ResolveRegexes`. `version` is the version of the metadata in which
    the topics were found. If `matches` is None, the search failed."""

    group_id: str
    matches: Mapping[str, tuple[str, ...]] | None
    version: int


class RegexChange(Enum):
    NONE = 0
    UPDATED = 1
    RESOLVED = 2
    """The topics of the member's new expression are already known, so a new target can be computed at once."""


def compiled(regex: str) -> Pattern:
    """Compiles an expression. Raises INVALID_REGULAR_EXPRESSION if RE2 refuses it, or if it is too complex."""
    pattern = compiled_pattern(regex)
    if isinstance(pattern, str):
        shown = f"`{regex}` " if len(regex) <= PATTERN_MAX_CHARS else ""
        raise InvalidRegularExpression(
            f"SubscribedTopicRegex {shown}is not a valid regular expression: {pattern}."
        )
    return pattern


def matching(
    regexes: Iterable[str], names: Iterable[str]
) -> Generator[int, None, dict[str, tuple[str, ...]]]:
    """Finds the topics that each expression matches. Yields after some names, with the weight of this step, so that the
    caller can pause. An expression must match the whole name of a topic. If an expression that another broker has
    accepted cannot be compiled here, it matches no topics."""
    known = tuple(names)
    matches: dict[str, tuple[str, ...]] = {}
    for regex in regexes:
        matched: list[str] = []
        try:
            pattern = compiled(regex)
        except InvalidRegularExpression:
            matches[regex] = ()
            yield 1
            continue
        weight = 1 + pattern.programsize // INSTRUCTIONS_PER_NAME
        per_step = max(1, NAMES_PER_STEP // weight)
        for begin in range(0, len(known), per_step):
            part = known[begin : begin + per_step]
            matched += filter(pattern.fullmatch, part)
            yield len(part) * weight
        matches[regex] = tuple(matched)
    return matches


def check_regex(group: ConsumerGroup, before: ConsumerMember, regex: str | None) -> None:
    """Raises INVALID_REGULAR_EXPRESSION if `regex` is new to the group and invalid. Call this function before any
    write."""
    if regex and regex != before.topic_regex and not group.subscribers_of(regex):
        compiled(regex)


def update_regex(writer: Writer, before: ConsumerMember, member: ConsumerMember) -> RegexChange:
    """Returns how the member's expression changed. If no member has the old expression any more, writes a tombstone for
    it. Call this function after the member is written."""
    group = writer.group
    old, new = before.topic_regex, member.topic_regex
    if old == new:
        return RegexChange.NONE
    if old and not group.subscribers_of(old):
        writer.put(regex_tombstone(group.group_id, old))
    if new:
        return RegexChange.RESOLVED if new in group.regexes else RegexChange.UPDATED
    return RegexChange.RESOLVED if old else RegexChange.UPDATED


def resolution_due(shard: ConsumerShard, group: ConsumerGroup, now_ms: int) -> ResolveRegexes | None:
    """The request to resolve the group's expressions, or None if they need not be resolved now. After a request, the
    group waits for the result."""
    regexes = group.subscribed_regexes
    if not regexes or group.is_resolving:
        return None
    last_ms = max((regex.timestamp_ms for regex in group.regexes.values()), default=NEVER_MS)
    if now_ms <= max(last_ms, group.regexes_failed_ms) + MIN_REFRESH_MS:
        return None
    version = max((regex.version for regex in group.regexes.values()), default=-1)
    if (
        len(regexes) == len(group.regexes)
        and version >= shard.new_topics_version
        and now_ms <= last_ms + shard.config.regex_refresh_interval_ms
    ):
        return None
    group.is_resolving = True
    return ResolveRegexes(group.group_id, regexes, shard.topics)


def changed(group: ConsumerGroup, matches: Mapping[str, tuple[str, ...]]) -> bool:
    """Whether at least one of the expressions matches other topics than before."""
    for regex, names in matches.items():
        known = group.regexes.get(regex)
        if (() if known is None else known.topic_names) != names:
            return True
    return False
