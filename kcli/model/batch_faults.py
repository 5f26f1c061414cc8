"""The faults of a producer's batch that the metrics count separately."""

from __future__ import annotations

from enum import StrEnum


class BatchFault(StrEnum):
    """A fault of a batch. The value is the name of the field in `server.metrics` that counts this fault for a topic."""

    KEYLESS = "keyless_records"
    MAGIC = "invalid_magic"
    SEQUENCE = "invalid_sequences"
