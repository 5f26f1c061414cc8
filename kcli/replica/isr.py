"""The in-sync replicas of a partition (ISR), and how many of them it needs."""

from __future__ import annotations

from dataclasses import dataclass

from kcli.model.ids import BrokerId


@dataclass(frozen=True, slots=True)
class Isr:
    """`members`: the in-sync replicas, as the metadata names them.

    `required`: how many of them it takes to accept records with acks=all and to move the high watermark.
    """

    members: tuple[BrokerId, ...]
    required: int

    @property
    def is_sufficient(self) -> bool:
        return len(self.members) >= self.required


def effective_min_isr(min_insync_replicas: int, *, replicas: int) -> int:
    """min.insync.replicas, but never more than the partition has replicas (KIP-966)."""
    return min(min_insync_replicas, replicas)
