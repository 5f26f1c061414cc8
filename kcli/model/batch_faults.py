"""The faults of a producer's batch that the metrics count separately."""

from __future__ import annotations

from enum import StrEnum


class BatchFault(StrEnum):
    """A fault. The value is the name of the field that counts such faults of a topic (`server.metrics`)."""

    KEYLESS = "keyless_records"
    MAGIC = "invalid_magic"
    SEQUENCE = "invalid_sequences"
