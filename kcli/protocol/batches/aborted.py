"""Aborted transactions in a Fetch response. They have a module of their own, because it needs no numpy."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    """The batches of `producer_id` from `first_offset` to its marker are aborted."""

    producer_id: int
    first_offset: int
