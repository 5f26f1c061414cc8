"""Filters of topics, groups and configs: lists of Java's regular expressions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kcli.connectors.mirror.policy import ReplicationPolicy, comes_from, is_heartbeats
from kcli.model.java_regex import compile_java


@dataclass(frozen=True, slots=True)
class NameFilter:
    """Accepts the names that match `include` and not `exclude` (DefaultTopicFilter, DefaultGroupFilter)."""

    include: re.Pattern[str] | None
    exclude: re.Pattern[str] | None

    @classmethod
    def of(cls, include: Sequence[str], exclude: Sequence[str]) -> NameFilter:
        """Raises JavaRegexError."""
        return cls(joined(include), joined(exclude))

    def accepts(self, name: str) -> bool:
        return _matches(self.include, name) and not _matches(self.exclude, name)


@dataclass(frozen=True, slots=True)
class ConfigFilter:
    """Accepts the configs of a topic that are copied (DefaultConfigPropertyFilter)."""

    exclude: re.Pattern[str] | None
    copies_defaults: bool
    """Whether the target gets the default values of the source (use.defaults.from=source)."""

    def accepts(self, name: str) -> bool:
        return not _matches(self.exclude, name)


@dataclass(frozen=True, slots=True)
class CopiedTopics:
    """Decides which topics of the source are copied to the target."""

    topics: NameFilter
    policy: ReplicationPolicy
    target: str
    copies_heartbeats: bool = True

    def accepts(self, topic: str) -> bool:
        is_selected = self.topics.accepts(topic) or (
            self.copies_heartbeats and is_heartbeats(self.policy, topic)
        )
        return (
            is_selected
            and not self.policy.names.is_internal(topic)
            and not comes_from(self.policy, topic, self.target)
        )


def joined(expressions: Sequence[str]) -> re.Pattern[str] | None:
    """Compiles a list of expressions, of which one must match. None if the list is empty. Raises JavaRegexError."""
    return compile_java("|".join(expressions)) if expressions else None


def _matches(pattern: re.Pattern[str] | None, name: str) -> bool:
    return pattern is not None and pattern.fullmatch(name) is not None
