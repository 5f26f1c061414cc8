"""The lines of the state change log that count the partitions of one change."""

from __future__ import annotations

import logging
import uuid

import pytest

from kcli.metadata.delta import PartitionDiff
from kcli.metadata.image import LeaderRecoveryState, PartitionImage
from kcli.model.ids import BrokerId, LeaderEpoch
from kcli.server.partitions.state_changes import STATE_CHANGES, StateChanges

OWN, OTHER = BrokerId(1), BrokerId(2)
TOPIC_ID = uuid.UUID(int=7)


def led_by(
    leader: BrokerId, recovery_state: LeaderRecoveryState = LeaderRecoveryState.RECOVERED
) -> PartitionImage:
    return PartitionImage((OWN, OTHER), (leader,), leader, LeaderEpoch(3), 4, recovery_state=recovery_state)


def test_the_partitions_of_a_change_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    after = (
        led_by(OWN),
        led_by(OWN, LeaderRecoveryState.RECOVERING),
        led_by(OWN, LeaderRecoveryState.RECOVERING),
        led_by(OTHER, LeaderRecoveryState.RECOVERING),
        None,
    )
    with caplog.at_level(logging.INFO, STATE_CHANGES.name):
        StateChanges(OWN).begin(
            [PartitionDiff("t", TOPIC_ID, number, None, image) for number, image in enumerate(after)]
        )
    assert caplog.messages == [
        "[Broker id=1] Stopping 1 partition(s).",
        "[Broker id=1] Transitioning 3 partition(s) to local leaders.",
        "[Broker id=1] 2 of these partition(s) get a leader in an unclean election.",
        "[Broker id=1] Transitioning 1 partition(s) to local followers.",
    ]
