"""The types of groups (KIP-848, KIP-932, KIP-1071)."""

from __future__ import annotations

from enum import StrEnum


class GroupType(StrEnum):
    """The types of groups. The values are the names on the wire."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"
