"""What the watch of the quorum accepts and refuses."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from simulation.checks.quorum_watch import QuorumWatch, _Seen


def _node(node_id: int, *, epoch: int = 1, leads: bool = False, end: int = 0, broker_epoch: int = 0) -> Any:
    view = SimpleNamespace(epoch=epoch, is_leader=leads, high_watermark=0)
    return SimpleNamespace(
        config=SimpleNamespace(node_id=node_id),
        controller=None,
        broker=SimpleNamespace(lifecycle=SimpleNamespace(epoch=broker_epoch)),
        quorum=SimpleNamespace(view=view, log=SimpleNamespace(end_offset=end)),
    )


def _check(watch: QuorumWatch, node: Any) -> None:
    watch._check_epoch(node, _Seen())


def test_the_leader_of_the_newest_epoch_has_all_committed_metadata() -> None:
    watch = QuorumWatch()
    watch.committed_to = 10  # type: ignore[assignment]
    _check(watch, _node(1, epoch=1, leads=True, end=10))
    _check(watch, _node(2, epoch=2))
    _check(watch, _node(1, epoch=1, leads=True, end=5))
    with pytest.raises(AssertionError, match="node 3 leads epoch 2 with metadata before 9, 10 is committed"):
        _check(watch, _node(3, epoch=2, leads=True, end=9))


def test_a_broker_gets_a_higher_epoch_in_each_life() -> None:
    watch = QuorumWatch()
    watch._check_broker_epoch(_node(1, broker_epoch=5))
    watch._check_broker_epoch(_node(2, broker_epoch=5))
    watch._check_broker_epoch(_node(1, broker_epoch=6))
    with pytest.raises(AssertionError, match="the epoch 6 of broker 1 follows 6"):
        watch._check_broker_epoch(_node(1, broker_epoch=6))
