"""The pauses of the parent of a cluster, with real signals to this process."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest

from kcli.local_cluster.signals import STOP_SIGNALS, Signals

LONG_S = 60.0


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_a_signal_that_arrived_before_a_pause_asks_for_a_stop_and_ends_the_pause(
    number: signal.Signals,
) -> None:
    stops: list[bool] = []
    with Signals() as signals:
        signals.when_stopped = lambda: stops.append(True)
        os.kill(os.getpid(), number)
        begun = time.monotonic()
        signals.pause(LONG_S)
        assert time.monotonic() - begun < LONG_S
    assert stops == [True]


def test_the_end_of_a_child_ends_a_pause_and_is_no_stop() -> None:
    stops: list[bool] = []
    with Signals() as signals:
        signals.when_stopped = lambda: stops.append(True)
        with subprocess.Popen(["true"]) as child:
            begun = time.monotonic()
            signals.pause(LONG_S)
            assert time.monotonic() - begun < LONG_S
            assert child.wait() == 0
    assert not stops


def test_a_pause_without_a_signal_takes_its_time_and_the_old_handlers_come_back() -> None:
    before = [signal.getsignal(number) for number in (*STOP_SIGNALS, signal.SIGCHLD)]
    with Signals() as signals:
        os.kill(os.getpid(), signal.SIGCHLD)
        signals.pause(LONG_S)
        begun = time.monotonic()
        signals.pause(0.01)
        assert time.monotonic() - begun >= 0.01, "a signal ends one pause"
    assert [signal.getsignal(number) for number in (*STOP_SIGNALS, signal.SIGCHLD)] == before
