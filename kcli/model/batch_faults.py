"""The faults of a producer's batch that the metrics count separately."""

from __future__ import annotations

from enum import StrEnum


class BatchFault(StrEnum):
    """A fault, by the field of the topic's traffic that counts it."""

    KEYLESS = "keyless_records"
    MAGIC = "invalid_magic"
    SEQUENCE = "invalid_sequences"
