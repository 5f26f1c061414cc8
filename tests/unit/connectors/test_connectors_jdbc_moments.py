from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.connectors.jdbc.moments import GRANULARITIES, Zone, micros_of, offset_of
from kcli.formats.connect.errors import ConnectException, DataException
from kcli.model.java_dates.zone_ids import time_zone

UTC = Zone(dt.UTC)
MOMENT = dt.datetime(2024, 2, 29, 10, 0, 1, 250001)
MICROS = 1709200801250001


@pytest.mark.parametrize(
    ("name", "hours"),
    [("UTC", 0), ("Z", 0), ("+02:00", 2), ("UTC+2", 2), ("GMT-03:30", -3.5), ("EST", -5), ("Asia/Tokyo", 9)],
)
def test_javas_names_of_time_zones(name: str, hours: float) -> None:
    zone = time_zone(name)
    assert zone is not None
    assert zone.utcoffset(dt.datetime(2024, 1, 1)) == dt.timedelta(hours=hours)


@pytest.mark.parametrize("name", ["", "Nowhere", "+x", "../etc/passwd", "UTC+99"])
def test_unknown_time_zones_are_refused(name: str) -> None:
    assert time_zone(name) is None


@pytest.mark.parametrize(
    ("granularity", "value"),
    [
        ("connect_logical", MICROS // 1000), ("micros_long", MICROS), ("micros_string", str(MICROS)),
        ("micros_iso_datetime_string", "2024-02-29T10:00:01.250001"), ("nanos_long", MICROS * 1000),
        ("nanos_string", f"{MICROS}000"), ("nanos_iso_datetime_string", "2024-02-29T10:00:01.250001000"),
    ],
)  # fmt: skip
def test_granularities_of_timestamps(granularity: str, value: object) -> None:
    assert GRANULARITIES[granularity](UTC.micros(MOMENT), UTC) == value


def test_old_dates_are_counted_as_java_counts_them() -> None:
    """The numbers are those of java.util.GregorianCalendar."""
    assert UTC.date(dt.date(1, 1, 1)) == -62135769600000
    assert UTC.date(dt.date(1582, 10, 4)) == -12219379200000
    assert UTC.date(dt.date(1582, 10, 15)) == -12219292800000
    assert Zone(dt.UTC, legacy=False).date(dt.date(1, 1, 1)) == -62135596800000
    assert UTC.micros(dt.datetime(1, 1, 1)) == -62135769600000000


# The first days of the year 1 and the ten days that the Julian calendar does not have are left out.
@given(
    st.datetimes(dt.datetime(1, 1, 4), dt.datetime(1582, 10, 4))
    | st.datetimes(dt.datetime(1582, 10, 15), dt.datetime(9999, 12, 31))
)
def test_local_times_return_unchanged(moment: dt.datetime) -> None:
    for zone in (UTC, Zone(dt.UTC, legacy=False), Zone(dt.timezone(dt.timedelta(hours=1)))):
        micros = zone.micros(moment)
        assert micros_of(offset_of(micros)) == micros
        if moment.date() != dt.date(9999, 12, 31):
            local = zone.local(micros).replace(tzinfo=None)
            assert local == moment


def test_a_moment_outside_of_pythons_years_is_refused() -> None:
    with pytest.raises(DataException, match="outside the years 1 to 9999"):
        UTC.local(10**18)


def test_offsets_without_nanoseconds_are_read() -> None:
    assert micros_of({"timestamp": 1250}) == 1250000
    assert micros_of({"timestamp": 1250, "timestamp_nanos": 250001000}) == 1250001
    assert micros_of({"timestamp": -1, "timestamp_nanos": 999000000}) == -1000
    assert micros_of({"incrementing": 1}) is None
    with pytest.raises(ConnectException, match="Invalid timestamp"):
        micros_of({"timestamp": "soon"})
