"""The in-sync replicas of a partition (ISR), and how many of them a commit needs."""

from __future__ import annotations

from dataclasses import dataclass

from kcli.model.ids import BrokerId


@dataclass(frozen=True, slots=True)
class Isr:
    """The in-sync replicas of a partition.

    `members` are the brokers of the in-sync replicas, from the metadata. `required` is the smallest size of the ISR
    with which the leader accepts records with acks=all and moves the high watermark.
    """

    members: tuple[BrokerId, ...]
    required: int

    @property
    def is_sufficient(self) -> bool:
        return len(self.members) >= self.required


def effective_min_isr(min_insync_replicas: int, *, replicas: int) -> int:
    """min.insync.replicas, but at most the number of the partition's replicas (KIP-966)."""
    return min(min_insync_replicas, replicas)
