"""How the leader shares work. The rules are stories in tests/scenario/connect_*.txt."""

from __future__ import annotations

from kcli.connect.decisions.assignment import IncrementalAssignor, configured_work, share_eagerly
from kcli.connect.decisions.config_state import ConfigState
from kcli.connect.model import CONNECTOR, TaskId

STATE = ConfigState(
    connectors={"b": {}, "a": {}},
    tasks={"a": ({},), "b": ({}, {})},
)


def test_connectors_come_before_tasks() -> None:
    assert configured_work(STATE) == (
        TaskId("a", CONNECTOR),
        TaskId("b", CONNECTOR),
        TaskId("a", 0),
        TaskId("b", 0),
        TaskId("b", 1),
    )
    shares = share_eagerly(["m2", "m1"], STATE)
    assert list(shares.members["m2"].assigned) == [TaskId("a", CONNECTOR), TaskId("a", 0), TaskId("b", 1)]
    assert list(shares.members["m1"].assigned) == [TaskId("b", CONNECTOR), TaskId("b", 0)]


def test_new_work_is_listed_before_the_work_that_stays() -> None:
    assignor = IncrementalAssignor(300_000)
    share = assignor.step({"m": [TaskId("a", 0)]}, STATE, 0, generation=1, last_generation=-1).members["m"]
    assert share.assigned == (
        TaskId("a", CONNECTOR),
        TaskId("b", CONNECTOR),
        TaskId("b", 0),
        TaskId("b", 1),
    )
    assert set(share.owned) == set(configured_work(STATE))


def test_the_back_off_grows_up_to_the_delay() -> None:
    state = ConfigState(connectors={"a": {}}, tasks={"a": tuple({} for _ in range(12))})
    assignor = IncrementalAssignor(1_000)
    everything = configured_work(state)
    delays = []
    now_ms = 0
    for generation in range(8):
        # The first member never gives anything up, so each rebalance has to revoke again.
        shares = assignor.step(
            {"m1": everything, "m2": []},
            state,
            now_ms,
            generation=generation,
            last_generation=generation - 1,
        )
        delays.append(shares.delay_ms)
        now_ms += shares.delay_ms
    assert delays == [0, 40, 0, 1_000, 0, 1_000, 0, 1_000]
