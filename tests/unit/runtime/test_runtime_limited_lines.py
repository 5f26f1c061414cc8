"""The lines that strangers cause: one per second."""

from __future__ import annotations

from kcli.runtime.limited_lines import INTERVAL_SECONDS, LimitedLines


def test_one_line_in_an_interval_counts_the_lines_before() -> None:
    lines = LimitedLines()
    assert [lines.ending(now) for now in (0.0, 0.0, INTERVAL_SECONDS / 2)] == ["", None, None]
    assert lines.ending(INTERVAL_SECONDS) == "; 2 failures before are not logged"
    assert lines.ending(2 * INTERVAL_SECONDS) == ""
