"""Retries and tolerance of errors of single records."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kcli.connect.tasks.control import Control
from kcli.connect.tasks.spec import ErrorSpec
from kcli.connect.tasks.tolerance import Failure, Skipped, Stage, Stopping, Tolerance
from kcli.errors import NotLeaderOrFollowerException
from kcli.formats.connect.errors import ConnectException, DataException, RetriableException


class Reports(list[Failure]):
    def report(self, failure: Failure) -> None:
        self.append(failure)


class Waits(Control):
    """Does not wait, but remembers the waits."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.waits: list[float] = []

    def wait(self, seconds: float) -> None:
        self.waits.append(round(seconds, 3))
        self.now += seconds


@pytest.fixture
def control(monkeypatch: pytest.MonkeyPatch) -> Waits:
    waits = Waits()
    monkeypatch.setattr("kcli.connect.tasks.tolerance.time.monotonic", lambda: waits.now)
    return waits


def failing(times: int, error: Exception) -> Callable[[], str]:
    left = [times]

    def operation() -> str:
        left[0] -= 1
        if left[0] >= 0:
            raise error
        return "done"

    return operation


def run(tolerance: Tolerance, operation: Callable[[], str]) -> str:
    return tolerance.run("record", Stage.TRANSFORMATION, "gold.Flaky", operation)


def test_without_retries_the_first_error_is_the_last(control: Waits) -> None:
    reports = Reports()
    tolerance = Tolerance(ErrorSpec(tolerance="all"), control, [reports])
    with pytest.raises(Skipped):
        run(tolerance, failing(1, RetriableException("not now")))
    assert [(each.stage, each.class_name, str(each.error)) for each in reports] == [
        ("TRANSFORMATION", "gold.Flaky", "not now")
    ]
    assert (tolerance.counts.errors, tolerance.counts.skipped, tolerance.counts.retries) == (1, 1, 0)


@pytest.mark.parametrize("error", [RetriableException("not now"), NotLeaderOrFollowerException()])
def test_a_retriable_error_is_tried_again_with_growing_delays(control: Waits, error: Exception) -> None:
    reports = Reports()
    tolerance = Tolerance(ErrorSpec(retry_timeout_ms=10_000), control, [reports])
    assert run(tolerance, failing(4, error)) == "done"
    assert control.waits == [0.3, 0.6, 1.2, 2.4]
    assert reports == []
    assert tolerance.counts.retries == 4


def test_the_last_delay_ends_with_the_time_out(control: Waits) -> None:
    tolerance = Tolerance(ErrorSpec(retry_timeout_ms=1000), control)
    with pytest.raises(ConnectException, match="Tolerance exceeded in error handler"):
        run(tolerance, failing(99, RetriableException("not now")))
    assert control.waits == [0.3, 0.6, 0.1]


def test_a_delay_is_not_longer_than_its_maximum(control: Waits) -> None:
    tolerance = Tolerance(ErrorSpec(retry_timeout_ms=-1, retry_delay_max_ms=500), control)
    assert run(tolerance, failing(50, RetriableException("not now"))) == "done"
    assert max(control.waits) <= 0.5
    assert len(control.waits) == 50


def test_other_errors_are_not_tried_again(control: Waits) -> None:
    reports = Reports()
    tolerance = Tolerance(ErrorSpec(retry_timeout_ms=-1), control, [reports])
    with pytest.raises(ConnectException) as raised:
        run(tolerance, failing(1, DataException("bad")))
    assert isinstance(raised.value.__cause__, DataException)
    assert control.waits == []
    assert len(reports) == 1, "without tolerance too, the error is reported before the task fails"


def test_a_task_that_stops_gives_up_without_a_report(control: Waits) -> None:
    reports = Reports()
    tolerance = Tolerance(ErrorSpec(tolerance="all", retry_timeout_ms=-1), control, [reports])
    control.stop()
    with pytest.raises(Stopping):
        run(tolerance, failing(99, RetriableException("not now")))
    assert reports == []
