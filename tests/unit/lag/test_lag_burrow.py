"""Burrow's rules, one test for each rule and for their order."""

from __future__ import annotations

import pytest

from kcli.lag.burrow import IDLE_WINDOW_MS, Status, judge, worst
from kcli.lag.window import WINDOW_COMMITS, Commit, CommitWindow

NOW_MS = 1_000_000


def commits(*pairs: tuple[int, int | None], step_ms: int = 10_000, until_ms: int = NOW_MS) -> list[Commit]:
    """Commits of (offset, lag) at an even distance, the last at `until_ms`."""
    first_ms = until_ms - step_ms * (len(pairs) - 1)
    return [Commit(first_ms + step_ms * at, offset, lag, None) for at, (offset, lag) in enumerate(pairs)]


def test_a_group_without_commits_is_ok() -> None:
    assert judge([], NOW_MS, current_lag=5) is Status.OK


def test_a_group_without_lag_is_ok_although_it_has_not_committed_for_long() -> None:
    window = commits((5, 0), (5, 0), until_ms=0)
    assert judge(window, NOW_MS, current_lag=0, recent_ends=[5]) is Status.OK
    assert judge(window, NOW_MS, current_lag=3, recent_ends=[8], allowed_lag=3) is Status.OK


def test_an_unknown_lag_is_ok() -> None:
    assert judge(commits((5, None), (5, None)), NOW_MS, current_lag=None) is Status.OK


def test_a_window_that_is_too_empty_is_ok() -> None:
    window = commits((5, 4), (5, 4))
    assert judge(window, NOW_MS, current_lag=4, minimum_complete=0.3) is Status.OK
    assert judge(window, NOW_MS, current_lag=4, minimum_complete=0.2) is Status.STALL


def test_a_silence_longer_than_the_window_is_a_stop() -> None:
    window = commits((1, 4), (2, 4), (3, 4), until_ms=NOW_MS - 20_001)
    assert judge(window, NOW_MS, current_lag=4, recent_ends=[7, 8]) is Status.STOP


def test_a_silence_as_long_as_the_window_is_no_stop() -> None:
    window = commits((1, 4), (2, 3), (3, 4), until_ms=NOW_MS - 20_000)
    assert judge(window, NOW_MS, current_lag=4, recent_ends=[7, 8]) is Status.OK


def test_a_group_that_was_at_the_end_lately_has_not_stopped() -> None:
    window = commits((1, 0), (2, 4), until_ms=0)
    assert judge(window, NOW_MS, current_lag=4, recent_ends=[2, 6]) is Status.OK


def test_an_offset_that_went_back_and_did_not_recover_is_a_rewind() -> None:
    assert judge(commits((9, 1), (3, 7), (8, 5)), NOW_MS, current_lag=5) is Status.REWIND


def test_an_offset_that_recovered_is_no_rewind() -> None:
    assert judge(commits((9, 1), (3, 7), (9, 5)), NOW_MS, current_lag=5) is Status.OK


def test_a_rewind_counts_although_the_lag_was_zero_before() -> None:
    assert judge(commits((9, 0), (3, 7)), NOW_MS, current_lag=7) is Status.REWIND


def test_a_stop_counts_before_a_rewind() -> None:
    window = commits((9, 0), (3, 7), until_ms=0)
    assert judge(window, NOW_MS, current_lag=7, recent_ends=[10]) is Status.STOP


def test_a_commit_without_lag_in_the_window_is_ok() -> None:
    assert judge(commits((5, 9), (5, 0), (5, 9)), NOW_MS, current_lag=9) is Status.OK


def test_equal_offsets_with_lag_are_a_stall() -> None:
    assert judge(commits((5, 4), (5, 6), (5, 5)), NOW_MS, current_lag=5) is Status.STALL


@pytest.mark.parametrize("lags", [(4, 5, 6), (4, 4, 4), (4, None, 4), (None, None, None)])
def test_a_lag_that_never_decreases_is_a_warning(lags: tuple[int | None, ...]) -> None:
    window = commits(*enumerate(lags))
    assert judge(window, NOW_MS, current_lag=6) is Status.WARN


def test_one_decrease_is_ok() -> None:
    assert judge(commits((1, 4), (2, None), (3, 3), (4, 9)), NOW_MS, current_lag=9) is Status.OK


def test_the_state_of_a_group_is_its_worst_partition() -> None:
    assert worst([Status.OK, Status.STALL, Status.STOP]) is Status.STALL
    assert worst([]) is Status.OK


def test_a_window_keeps_ten_commits() -> None:
    window = CommitWindow()
    for offset in range(12):
        window.add(offset * 1000, offset, lag=1, pause_ms=0)
    assert [commit.offset for commit in window] == list(range(2, 12))
    assert len(window) == WINDOW_COMMITS
    assert window.completeness == 1
    assert window.last == (11_000, 11)


def test_a_near_commit_replaces_the_last_and_keeps_its_time() -> None:
    window = CommitWindow()
    for time_ms, offset in ((0, 1), (400, 2), (800, 3), (1000, 4), (1999, 5)):
        window.add(time_ms, offset, min_distance_ms=1000)
    assert [(commit.time_ms, commit.offset) for commit in window] == [(0, 3), (1000, 5)]


def test_unknown_values_stay_unknown() -> None:
    window = CommitWindow()
    assert window.last is None
    window.add(5, 7)
    assert list(window) == [Commit(5, 7, None, None)]


def idle(*pauses_ms: int | None) -> list[Commit]:
    """Commits that are an hour apart, with the times in which the group owed them."""
    times = range(0, len(pauses_ms) * 3_600_000, 3_600_000)
    return [
        Commit(time_ms, at, 4, pause)
        for at, (time_ms, pause) in enumerate(zip(times, pauses_ms, strict=True))
    ]


@pytest.mark.parametrize(
    ("owed_ms", "status"), [(IDLE_WINDOW_MS, Status.WARN), (IDLE_WINDOW_MS + 1, Status.STOP)]
)
def test_only_the_time_counts_in_which_an_idle_group_owed_a_commit(owed_ms: int, status: Status) -> None:
    window = idle(None, 2_000, 3_000)
    now_ms = window[-1].time_ms + 1_800_000
    arrival_ms = now_ms - owed_ms
    found = judge(window, now_ms, current_lag=4, recent_ends=[8], arrival_ms=arrival_ms)
    assert found is status
    assert judge(window, now_ms, current_lag=4, recent_ends=[8]) is Status.WARN, "Burrow's own rule"


def test_the_window_of_a_group_that_owed_its_commits_for_long_is_as_long() -> None:
    window = idle(None, 400_000, 200_000)
    now_ms = window[-1].time_ms + 1_800_000
    for owed_ms, status in ((600_000, Status.WARN), (600_001, Status.STOP)):
        assert judge(window, now_ms, current_lag=4, recent_ends=[8], arrival_ms=now_ms - owed_ms) is status
