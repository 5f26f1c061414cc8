"""Choosing topics by a Java regular expression over the whole name, with Kafka's liberties."""

from __future__ import annotations

import re
from collections.abc import Callable

# Topics.isInternal: what brokers keep for themselves.
INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state", "__share_group_state")


def topic_filter(text: str) -> Callable[[str], bool]:
    """Whether a name is wanted. Commas mean "or", spaces and outer quotes are dropped. Raises ValueError."""
    pattern = text.strip().replace(",", "|").replace(" ", "").strip("\"'")
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern} is an invalid regex.") from error
    return lambda name: compiled.fullmatch(name) is not None
