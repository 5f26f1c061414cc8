"""Meters, histograms and rates against what their definitions say."""

from __future__ import annotations

import math
import random

import pytest

from kcli.server.metrics.meters import Histogram, Meter, WindowedRate


def test_a_steady_meter_shows_its_rate_in_every_window() -> None:
    meter = Meter(0.0)
    for second in range(1, 3601):
        meter.count += 100
        meter.tick(float(second))
    shown = meter.attributes("messages", 3600.0)
    assert shown["Count"] == 360_000
    for name in ("OneMinuteRate", "FiveMinuteRate", "FifteenMinuteRate", "MeanRate"):
        assert shown[name] == pytest.approx(100.0), name
    assert (shown["EventType"], shown["RateUnit"]) == ("messages", "SECONDS")


def test_rates_fade_when_nothing_comes() -> None:
    meter = Meter(0.0)
    meter.count = 500
    meter.tick(5.0)
    assert meter.attributes("", 5.0)["OneMinuteRate"] == 100.0
    meter.tick(65.0)
    shown = meter.attributes("", 65.0)
    assert shown["OneMinuteRate"] == pytest.approx(100 / math.e)
    assert shown["FifteenMinuteRate"] == pytest.approx(100 * math.exp(-1 / 15))
    meter.tick(1e9)
    assert meter.attributes("", 1e9)["FifteenMinuteRate"] == pytest.approx(0, abs=0.01)


def test_late_ticks_spread_what_came_meanwhile() -> None:
    meter = Meter(0.0)
    meter.count = 1000
    meter.tick(50.0)
    assert meter.attributes("", 50.0)["OneMinuteRate"] == pytest.approx(20.0)


def test_many_ticks_without_events_can_be_computed_together() -> None:
    often, once = Meter(0.0), Meter(0.0)
    for meter in (often, once):
        meter.count = 1000
        meter.tick(7.0)
    for second in range(8, 200):
        often.tick(float(second))
    once.tick(199.0)
    assert once.attributes("", 199.0) == pytest.approx(often.attributes("", 199.0))


def test_a_meter_is_up_to_date_as_soon_as_its_rates_include_all_events() -> None:
    meter = Meter(0.0)
    assert meter.is_up_to_date
    meter.count = 1
    meter.tick(4.0)
    assert not meter.is_up_to_date
    meter.tick(5.0)
    assert meter.is_up_to_date


def test_a_meter_made_late_has_the_mean_of_its_whole_time() -> None:
    meter = Meter(100.0, began=0.0)
    meter.count = 50
    assert meter.attributes("", 100.0)["MeanRate"] == 0.5


def test_a_histogram_s_quantiles_are_those_of_what_was_observed() -> None:
    rng = random.Random(7)
    values = [rng.lognormvariate(1.0, 1.5) for _ in range(20_000)]
    histogram = Histogram(0.0)
    for at in range(0, len(values), 200):
        histogram.fold(values[at : at + 200], now=1.0)
    shown = histogram.attributes()
    ordered = sorted(values)
    for name, quantile in (("50thPercentile", 0.5), ("95thPercentile", 0.95), ("99thPercentile", 0.99)):
        assert shown[name] == pytest.approx(ordered[int(quantile * len(ordered))], rel=0.04), name
    assert shown["Count"] == len(values)
    assert (shown["Min"], shown["Max"]) == (ordered[0], ordered[-1])
    assert shown["Mean"] == pytest.approx(sum(values) / len(values))
    assert shown["StdDev"] == pytest.approx(
        math.sqrt(sum((each - sum(values) / len(values)) ** 2 for each in values) / len(values)), rel=0.01
    )


def test_only_some_of_a_large_fold_are_looked_at_and_all_are_counted() -> None:
    histogram = Histogram(0.0)
    histogram.fold([float(each % 100) for each in range(100_001)], now=0.0)
    shown = histogram.attributes()
    assert shown["Count"] == 100_001
    assert shown["50thPercentile"] == pytest.approx(50, rel=0.1)
    assert shown["Max"] == 99.0


def test_recent_values_count_more_in_a_histogram() -> None:
    histogram = Histogram(0.0)
    histogram.fold([1.0] * 1000, now=0.0)
    histogram.fold([100.0] * 100, now=300.0)
    assert histogram.attributes()["50thPercentile"] == pytest.approx(100.0, rel=0.02)
    assert histogram.attributes()["Mean"] == pytest.approx(10.0)


def test_weeks_of_time_do_not_overflow() -> None:
    histogram = Histogram(0.0)
    for hour in range(24 * 30):
        histogram.fold([float(hour)], now=hour * 3600.0)
    assert histogram.attributes()["50thPercentile"] == pytest.approx(24 * 30 - 1, rel=0.02)


def test_zeros_are_observations_too() -> None:
    histogram = Histogram(0.0)
    histogram.fold([0.008], now=0.0, scale=1000)
    histogram.fold_zeros(9, now=0.0)
    shown = histogram.attributes()
    assert (shown["Count"], shown["Min"], shown["Mean"], shown["50thPercentile"]) == (10, 0.0, 0.8, 0.0)
    assert shown["99thPercentile"] == pytest.approx(8.0, rel=0.02)


def test_an_empty_histogram_is_all_zero() -> None:
    assert set(Histogram(0.0).attributes().values()) == {0}


def test_a_windowed_rate_is_of_its_samples_only() -> None:
    rate = WindowedRate(samples=2, window_seconds=30.0, now=0.0)
    assert rate.a_second(60, now=6.0) == 2.0, "as if one window were over"
    for second in range(61):
        rate.tick(second * 2, now=float(second))
    assert rate.a_second(120, now=60.0) == pytest.approx(2.0)
    for second in range(61, 200):
        rate.tick(120, now=float(second))
    assert rate.a_second(120, now=200.0) == 0.0
