"""Rates over windows and token buckets, worked out by hand."""

from __future__ import annotations

import pytest

from kcli.server.network.rates import SampledRate, TokenBucket, Windows

WINDOWS = Windows(11, 1.0)


def test_windows_that_had_no_time_to_pass_count_as_passed() -> None:
    rate = SampledRate(WINDOWS)
    rate.record(1000, 5.0)
    assert rate.per_second(5.0) == pytest.approx(100)  # over 10 s
    assert rate.per_second(5.5) == pytest.approx(1000 / 10.5)
    assert rate.per_second(6.0) == pytest.approx(100)  # one of the ten has passed: over 1 + 9 s
    rate.record(500, 7.0)
    assert rate.per_second(7.25) == pytest.approx(1500 / 10.25)


def test_a_sample_counts_for_all_its_windows_and_then_no_more() -> None:
    rate = SampledRate(WINDOWS)
    rate.record(1000, 0.0)
    rate.record(1000, 0.75)  # the same sample, which lives from then on
    assert rate.per_second(10.5) == pytest.approx(2000 / 10.5)
    assert rate.per_second(11.5) == pytest.approx(2000 / 11.5)
    assert not rate.is_idle(11.5)
    assert rate.per_second(11.75) == 0
    assert rate.is_idle(11.75)


def test_a_negative_record_cancels_a_positive_one() -> None:
    rate = SampledRate(WINDOWS)
    rate.record(300, 0.0)
    rate.record(500, 0.1)
    rate.record(-500, 0.1)
    assert rate.per_second(1.0) == pytest.approx(30)


def test_how_long_to_wait() -> None:
    rate = SampledRate(WINDOWS)
    rate.record(1000, 0.0)
    assert rate.seconds_over(100, 0.0) == 0
    rate.record(200, 0.0)
    # 120 a second over 10 s: 20 % too much, and so 20 % of ten seconds.
    assert rate.seconds_over(100, 0.0) == pytest.approx(2)
    assert rate.seconds_over(60, 0.0) == pytest.approx(10)


def test_nothing_recorded_is_no_rate() -> None:
    rate = SampledRate(Windows(1, 1.0))
    assert rate.per_second(0.0) == 0
    assert rate.is_idle(0.0)
    rate.record(3, 0.0)
    # The only window has not begun to pass: a rate over nothing would have no end.
    assert rate.per_second(0.0) == pytest.approx(3000)


def test_a_bucket_is_full_overdrawn_and_filled_again() -> None:
    bucket = TokenBucket(WINDOWS)
    assert bucket.tokens(2.0, 100.0) == 22
    assert bucket.is_idle(100.0)
    bucket.spend(30, 2.0, 100.0)
    assert bucket.tokens(2.0, 100.0) == -8
    assert bucket.seconds_over(2.0, 100.0) == 4
    assert bucket.tokens(2.0, 103.0) == -2
    assert bucket.seconds_over(2.0, 104.0) == 0
    assert bucket.tokens(2.0, 1_000.0) == 22
    # Overdrawn it is remembered, however long ago: who fills it how fast is not known here.
    assert not bucket.is_idle(1_000.0)


def test_a_bucket_follows_a_quota_that_changes() -> None:
    bucket = TokenBucket(WINDOWS)
    bucket.spend(22, 2.0, 0.0)
    assert bucket.tokens(10.0, 1.0) == 10
    assert bucket.tokens(10.0, 100.0) == 110
    assert not bucket.is_idle(10.0)
    assert bucket.is_idle(11.0)
