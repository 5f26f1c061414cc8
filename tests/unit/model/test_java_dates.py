"""Dates by the patterns of Java's SimpleDateFormat."""

from __future__ import annotations

from datetime import UTC, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.model.java_dates.calendar import wall_ms
from kcli.model.java_dates.formats import SimpleDateFormat, UnparseableDate
from kcli.model.java_dates.patterns import pieces
from kcli.model.java_dates.reader import PlainReader, Reader
from kcli.model.java_dates.zones import Zone

INDIA = timezone(timedelta(hours=5, minutes=30), "IST")
NEW_YORK = ZoneInfo("America/New_York")
MARCH_7_2026_MS = 1772876045067  # 2026-03-07T09:34:05.067Z
NOVEMBER_14_2023_MS = 1700000000123  # 2023-11-14T22:13:20.123Z
DAY_MS = 86_400_000


def day(text: str) -> int:
    return SimpleDateFormat("yyyy-MM-dd").parse(text)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy-MM-dd HH:mm:ss.SSS", "2026-03-07 15:04:05.067"),
        ("yyyy-MM-dd'T'HH:mm:ssXXX", "2026-03-07T15:04:05+05:30"),
        ("EEE, d MMM yyyy h:mm a z", "Sat, 7 Mar 2026 3:04 PM IST"),
        ("EEEE MMMM LLL yy y yyyyy", "Saturday March Mar 26 2026 02026"),
        ("Z X XX", "+0530 +05 +0530"),
        ("DDD w W F u k K", "066 10 1 1 6 15 3"),
        ("'it''s' H 'o''clock' ''", "it's 15 o'clock '"),
        ("yyyyMMdd_HHmmss", "20260307_150405"),
        ("G GGGG zzzz", "AD AD India Standard Time"),
        ("", ""),
    ],
)
def test_a_java_pattern_formats_a_date(pattern: str, text: str) -> None:
    assert SimpleDateFormat(pattern, INDIA).format(MARCH_7_2026_MS) == text


@pytest.mark.parametrize(
    ("ms", "pattern", "text"),
    [
        (253402300800000, "yyyyMMdd", "100000101"),
        (-62135596800000, "yyyy-MM-dd G", "0001-01-03 AD"),
        (-12219292800000, "yyyy-MM-dd", "1582-10-15"),
        (-12219292800001, "yyyy-MM-dd", "1582-10-04"),
        (-62200000000000, "y G", "3 BC"),
        (-62269064933401, "YY Y yy", "-04 -4 05"),
        (1704067200000 - DAY_MS, "YYYY ww yyyy", "2024 01 2023"),
        (NOVEMBER_14_2023_MS, "X Z z zzzz", "Z +0000 UTC Coordinated Universal Time"),
    ],
)
def test_dates_far_away_have_the_fields_of_the_gregorian_or_julian_calendar(
    ms: int, pattern: str, text: str
) -> None:
    assert SimpleDateFormat(pattern).format(ms) == text


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("yyyy-bb", "Illegal pattern character 'b'"),
        ("HH 'o clock", "Unterminated quote"),
        ("XXXX", "invalid ISO 8601 format: length=4"),
    ],
)
def test_an_invalid_java_pattern_is_refused(pattern: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        SimpleDateFormat(pattern)


@pytest.mark.parametrize(
    ("pattern", "text", "ms"),
    [
        ("yyyy-MM-dd'T'HH:mm:ss.SSSX", "2023-11-14T22:13:20.123Z", NOVEMBER_14_2023_MS),
        ("yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "2023-11-14T23:13:20.123+01:00", NOVEMBER_14_2023_MS),
        ("yyyy-MM-dd HH:mm z", "2023-01-05 10:00 PST", 1672941600000),
        ("yyyy-MM-dd HH:mm z", "2023-07-05 10:00 pacific daylight time", 1688576400000),
        ("yyyy-MM-dd HH:mm z", "2023-01-05 10:00 GMT", 1672912800000),
        ("yyyy-MM-dd HH:mm z", "2023-01-05 10:00 IST", 1672905600000),  # of Israel
        ("yyyy-MM-dd HH:mm z", "2023-07-05 10:00 BRST", 1688562000000),
        ("yyyy-MM-dd HH:mm z", "2023-01-05 10:00 GMT+5:30", 1672893000000),
        ("yyyy-MM-dd HH:mm Z", "2023-01-05 10:00 -0530", 1672932600000),
        ("EEE, d MMMM yyyy", "tue, 14 November 2023", 1699920000000),
        ("hh:mm a", "12:30 PM", 45_000_000),
        ("kk:mm", "24:30", 1_800_000),
        ("H:mm a", "13:30 AM", 48_600_000),
        ("SSSSSS", "123456", 123456),
        ("yyyyMMddHHmmss", "20231114221320", 1700000000000),
        ("yyyy", "2E3", 946684800000),
        ("yyyy-MM-dd", "1582-10-04", -12219292800000 - DAY_MS),
        ("yyyy-MM-dd", "0001-01-01", -62135769600000),
        ("G y", "BC 1", -62167392000000),
    ],
)
def test_a_java_pattern_parses_a_text(pattern: str, text: str, ms: int) -> None:
    assert SimpleDateFormat(pattern).parse(text) == ms


@pytest.mark.parametrize(
    ("pattern", "text", "same_day"),
    [
        ("yyyy-MM-dd", "2023-1- 5", "2023-01-05"),
        ("yyyy-MM-dd", "2023-13-45", "2024-02-14"),
        ("yyyy-MM-dd", "2023-00-00", "2022-11-30"),
        ("yyyy-MM-dd", "2023-01-05 and more", "2023-01-05"),
        ("yyyy-DDD", "2023-100", "2023-04-10"),
        ("yyyy ww u", "2023 46 2", "2023-11-14"),
        ("YYYY-'W'ww-u", "2024-W01-1", "2024-01-01"),
        ("YYYY ww u", "2024 01 9", "2024-01-09"),
        ("YYYY", "2023", "2023-01-01"),
        ("yyyy ww", "2023 46", "2023-11-12"),
        ("yyyy-MM F E", "2023-11 2 Tue", "2023-11-14"),
        ("yyyy-MM F E", "2023-11 -1 Tue", "2023-11-28"),
        ("yyyy-MM W E", "2023-11 3 Tue", "2023-11-14"),
        ("yyyy-MM E", "2023-11 Tue", "2023-11-07"),
        ("yyyy-MM W", "2023-11 3", "2023-11-12"),
        ("E yyyy-MM-dd", "Mon 2023-11-14", "2023-11-14"),
        ("yyyy-MM-dd E", "2023-11-14 Mon", "2023-11-14"),
        ("yyyy-MM-dd", "1582-10-10", "1582-10-20"),
    ],
)
def test_the_fields_that_were_set_last_decide_about_the_day(pattern: str, text: str, same_day: str) -> None:
    assert SimpleDateFormat(pattern).parse(text) == day(same_day)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy-MM-dd", ""),
        ("yyyy-MM-dd", "2023/01/05"),
        ("yyyyMMdd", "202301"),
        ("MMM", " Nov"),
        ("MMM", "Nob"),
        ("a", "noon"),
        ("z", "XYZ"),
        ("z", "GMT+5"),
        ("Z", "+05:30"),
        ("Z", "+2460"),
        ("X", "x"),
        ("XXX", "+0530"),
    ],
)
def test_a_text_that_does_not_match_is_refused(pattern: str, text: str) -> None:
    with pytest.raises(UnparseableDate, match="Unparseable date"):
        SimpleDateFormat(pattern).parse(text)


def test_a_year_of_two_digits_is_near_to_this_year() -> None:
    short, whole = SimpleDateFormat("yy"), SimpleDateFormat("yyyy")
    years = [whole.format(short.parse(f"{year:02d}")) for year in range(100)]
    assert len(set(years)) == 100
    assert all(f"{int(year) % 100:02d}" == f"{number:02d}" for number, year in enumerate(years))
    assert whole.format(short.parse("123")) == "0123"


@pytest.mark.parametrize(
    ("zone", "text", "ms"),
    [
        (NEW_YORK, "2023-11-14 17:13:20", 1700000000000),
        (NEW_YORK, "2023-03-12 02:30:00", 1678606200000),  # a time that is skipped
        (NEW_YORK, "2023-11-05 01:30:00", 1699165800000),  # a time that comes twice
        (NEW_YORK, "1700-01-01 00:00:00", -8520318000000),
        (NEW_YORK, "12023-07-01 00:00:00", 317257704000000),
        (UTC, "2023-11-14 22:13:20", 1700000000000),
    ],
)
def test_a_local_time_is_read_in_the_zone_of_the_format(zone: Zone, text: str, ms: int) -> None:
    assert SimpleDateFormat("yyyy-MM-dd HH:mm:ss", zone).parse(text) == ms


def test_a_zone_in_a_text_becomes_the_zone_of_the_format() -> None:
    zoned = SimpleDateFormat("HH:mm z")
    assert zoned.format(zoned.parse("10:00 PST")) == "10:00 PST"


@given(
    st.sampled_from(
        ["yyyy-MM-dd", "yyyyMMdd", "yyyyMMddHHmmss", "d/M/yyyy H:m:s.S", "yyyy-MM-dd'T'HH:mm:ss.SSSX"]
    ),
    st.one_of(
        st.from_regex(
            r"[0-9]{1,5}[-/][0-9]{1,3}[-/][0-9 ]{1,3}[T ]?[0-9]{0,2}:?[0-9E]{0,4}:?[0-9.]{0,6}Z?",
            fullmatch=True,
        ),
        st.from_regex(r"[0-9]{4,20}", fullmatch=True),
    ),
)
def test_a_plain_text_is_read_like_every_other_text(pattern: str, text: str) -> None:
    parts = pieces(pattern)
    plain, every = PlainReader.of(parts), Reader(text, parts)
    assert plain is not None
    read = plain.wall_ms(text)
    if read is not None:
        every.read()
        assert read == wall_ms(every.fields)
        assert every.fields.get("Z") == (0 if plain.is_utc else None)


@given(st.integers(-62_200_000_000_000, 253_500_000_000_000))
def test_a_formatted_date_is_parsed_to_the_same_moment(ms: int) -> None:
    for pattern in ("G yyyy-MM-dd HH:mm:ss.SSS", "G yyyy DDD hh:mm:ss.SSS a", "G yyyy-MM-dd kk:mm:ss.SSS Z"):
        whole = SimpleDateFormat(pattern, INDIA if "Z" in pattern else UTC)
        assert whole.parse(whole.format(ms)) == ms
