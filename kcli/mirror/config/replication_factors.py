"""Finds replication factors that a target cluster has too few brokers for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kcli.connect.config.worker import GroupConfig
from kcli.mirror.config.grammar import CONNECTORS, Flow, MirrorConfig
from kcli.mirror.config.keys import EMIT_HEARTBEATS, ENABLED
from kcli.model.java_text import parse_int

_TOPICS = {"replication.factor": 2, "checkpoints.topic.replication.factor": 3}
"""The keys of topics that an enabled flow creates on its target, and their defaults."""

_HEARTBEATS = {"heartbeats.topic.replication.factor": 3}
_OFFSET_SYNCS = {"offset-syncs.topic.replication.factor": 3}


def too_large(config: MirrorConfig, flow: Flow, group: GroupConfig, brokers: int) -> Sequence[str]:
    """The keys whose replication factor is larger than the number of brokers of the flow's target."""
    factors = dict(_factors(config.connector(flow, CONNECTORS[0])))
    factors |= {
        "config.storage.replication.factor": group.config_topic.replication_factor,
        "offset.storage.replication.factor": group.offset_topic.replication_factor,
        "status.storage.replication.factor": group.status_topic.replication_factor,
    }
    return [key for key, factor in factors.items() if factor > brokers]


def _number(text: str) -> int:
    """A text that is no number counts as 0, because the log reports it as an error of the connector."""
    try:
        return parse_int(text)
    except ValueError:
        return 0


def _factors(connector: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    keys: dict[str, int] = {}
    if connector[ENABLED].lower() == "true":
        keys |= _TOPICS
        if connector.get("offset-syncs.topic.location") == "target":
            keys |= _OFFSET_SYNCS
    if connector.get(EMIT_HEARTBEATS, "true").lower() == "true":
        keys |= _HEARTBEATS
    for key, default in keys.items():
        text = connector.get(key, "")
        yield key, _number(text) if text else default
