"""SimpleDateFormat patterns."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from kcli.cli.java.dates import check, format_date

MOMENT = datetime(2026, 3, 7, 15, 4, 5, 67_000, timezone(timedelta(hours=5, minutes=30), "IST"))


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy-MM-dd HH:mm:ss.SSS", "2026-03-07 15:04:05.067"),
        ("yyyy-MM-dd'T'HH:mm:ssXXX", "2026-03-07T15:04:05+05:30"),
        ("EEE, d MMM yyyy h:mm a z", "Sat, 7 Mar 2026 3:04 PM IST"),
        ("EEEE MMMM yy", "Saturday March 26"),
        ("Z X XX", "+0530 +05 +0530"),
        ("DDD w u k K", "066 10 6 15 3"),
        ("'it''s' H 'o''clock' ''", "it's 15 o'clock '"),
        ("yyyyMMdd_HHmmss", "20260307_150405"),
    ],
)
def test_a_java_pattern_formats_a_date(pattern: str, text: str) -> None:
    assert format_date(MOMENT, pattern) == text


@pytest.mark.parametrize(
    ("pattern", "why"),
    [("yyyy-bb", "Illegal pattern character 'b'"), ("HH 'o clock", "Unterminated quote")],
)
def test_an_invalid_java_pattern_is_refused(pattern: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        check(pattern)
