"""The rules for topic names, and the rule by which two names collide in metrics."""

from __future__ import annotations

import re

from kcli.errors import InvalidTopicException

# Kafka's limit. The name of a partition's directory is the topic name, "-" and a number, and may have at most 255
# characters.
MAX_NAME_LENGTH = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")

GROUP_METADATA_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
SHARE_STATE_TOPIC = "__share_group_state"
CLUSTER_METADATA_TOPIC = "__cluster_metadata"
INTERNAL_TOPICS = frozenset((GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_STATE_TOPIC))


def is_internal(name: str) -> bool:
    """Whether a topic is internal: only brokers write to it."""
    return name in INTERNAL_TOPICS


def validate(name: str) -> None:
    """Raises InvalidTopicException, with the reason, for an invalid name."""
    problem = _problem(name)
    if problem is not None:
        raise InvalidTopicException(f"Topic name is invalid: {problem}")


def is_valid(name: str) -> bool:
    return _problem(name) is None


def _problem(name: str) -> str | None:
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > MAX_NAME_LENGTH:
        return f"the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    if not _LEGAL.fullmatch(name):
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def has_collision_characters(name: str) -> bool:
    return "." in name or "_" in name


def unify_collision_characters(name: str) -> str:
    """Replaces '.' by '_', as Kafka does in the names of metrics. If two topic names become equal, only one of the two
    topics can exist."""
    return name.replace(".", "_")
