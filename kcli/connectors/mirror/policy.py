"""The names of topics in the target cluster, and the topics of MirrorMaker itself (ReplicationPolicy)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

HEARTBEATS = "heartbeats"
DEFAULT_SEPARATOR = "."


class ReplicationPolicy(Protocol):
    """Names remote topics, which are copies in the target cluster."""

    @property
    def names(self) -> InternalNames: ...

    def remote_topic(self, source: str, topic: str) -> str:
        """The name in the target of a topic of the cluster `source`."""
        ...

    def topic_source(self, topic: str) -> str | None:
        """The alias of the cluster from which a remote topic comes, or None for any other topic."""
        ...

    def upstream_topic(self, topic: str) -> str | None:
        """The name of a remote topic in the cluster from which it comes, or None for any other topic."""
        ...

    def original_topic(self, topic: str) -> str:
        """The name of a remote topic in the first cluster of its way."""
        ...


@dataclass(frozen=True, slots=True)
class InternalNames:
    """The names of MirrorMaker's own topics."""

    separator: str = DEFAULT_SEPARATOR

    def offset_syncs(self, alias: str) -> str:
        return f"mm2-offset-syncs{self.separator}{alias}{self._suffix}"

    def checkpoints(self, source: str) -> str:
        return f"{source}{self.separator}checkpoints{self._suffix}"

    def is_internal(self, topic: str) -> bool:
        """Whether a topic belongs to Kafka, or to MirrorMaker. Such a topic is never copied."""
        is_of_mirror_maker = topic.startswith("mm2") and topic.endswith(self._suffix)
        is_checkpoints = topic.endswith(f"{self.separator}checkpoints{self._suffix}")
        return topic.startswith(("__", ".")) or is_of_mirror_maker or is_checkpoints

    @property
    def _suffix(self) -> str:
        return f"{self.separator}internal"


@dataclass(frozen=True, slots=True)
class DefaultReplicationPolicy:
    """A remote topic has the alias of its source as a prefix, for example `A.orders`."""

    separator: str = DEFAULT_SEPARATOR
    names: InternalNames = InternalNames()

    def remote_topic(self, source: str, topic: str) -> str:
        return f"{source}{self.separator}{topic}"

    def topic_source(self, topic: str) -> str | None:
        if not self.separator:  # Java then separates each character
            return topic[0] if len(topic) > 1 else None
        source, separator, rest = topic.partition(self.separator)
        # Java's split drops empty parts at the end.
        return source if separator and rest.replace(self.separator, "") else None

    def upstream_topic(self, topic: str) -> str | None:
        source = self.topic_source(topic)
        return None if source is None else topic[len(source) + len(self.separator) :]

    def original_topic(self, topic: str) -> str:
        while (upstream := self.upstream_topic(topic)) is not None:
            topic = upstream
        return topic


@dataclass(frozen=True, slots=True)
class IdentityReplicationPolicy:
    """A remote topic has the name of its source. Only topics of heartbeats have a prefix, so that each cluster shows
    from which clusters it gets records. This policy does not prevent cycles."""

    source: str
    default: DefaultReplicationPolicy = DefaultReplicationPolicy()

    @property
    def names(self) -> InternalNames:
        return self.default.names

    def remote_topic(self, source: str, topic: str) -> str:
        return self.default.remote_topic(source, topic) if _looks_like_heartbeats(topic) else topic

    def topic_source(self, topic: str) -> str | None:
        return self.default.topic_source(topic) if _looks_like_heartbeats(topic) else self.source

    def upstream_topic(self, topic: str) -> str | None:
        return self.default.upstream_topic(topic) if _looks_like_heartbeats(topic) else topic

    def original_topic(self, topic: str) -> str:
        return self.default.original_topic(topic) if _looks_like_heartbeats(topic) else topic


def is_heartbeats(policy: ReplicationPolicy, topic: str) -> bool:
    """Whether a topic has the heartbeats of a cluster, or is a copy of such a topic."""
    return policy.original_topic(topic) == HEARTBEATS


def comes_from(policy: ReplicationPolicy, topic: str, cluster: str) -> bool:
    """Whether a topic was copied from `cluster` at some step of its way. A copy back to it would be a cycle."""
    while (source := policy.topic_source(topic)) is not None:
        if source == cluster:
            return True
        upstream = policy.upstream_topic(topic)
        if upstream is None or upstream == topic:
            return False
        topic = upstream
    return False


def _looks_like_heartbeats(topic: str) -> bool:
    return topic.endswith(HEARTBEATS)
