"""Compares the leader epoch in a request with the leader epoch of this broker (KIP-320)."""

from __future__ import annotations

from kcli.errors import FencedLeaderEpochException, UnknownLeaderEpochException
from kcli.model.ids import NO_LEADER_EPOCH, LeaderEpoch


def check_known_epoch(partition: object, known_epoch: int, leader_epoch: LeaderEpoch) -> None:
    """Raises KafkaError if `known_epoch` is older or newer than `leader_epoch`. -1 means that the sender of the request
    does not know the epoch. `partition` is the name of the partition for the error text.
    """
    if known_epoch in (NO_LEADER_EPOCH, leader_epoch):
        return
    if known_epoch < leader_epoch:
        raise FencedLeaderEpochException(
            f"The leader epoch {known_epoch} of {partition} is older than the current {leader_epoch}"
        )
    raise UnknownLeaderEpochException(
        f"The leader epoch {known_epoch} of {partition} is newer than the current {leader_epoch}"
    )
