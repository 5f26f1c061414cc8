"""The windows in which a follower holds requests for the leader."""

from __future__ import annotations

from kcli.replica.early_requests import LONG_OVER, REST_MS, WINDOW_MS, Window


def test_the_first_request_begins_a_window() -> None:
    assert LONG_OVER.at(0) == Window(WINDOW_MS)
    assert LONG_OVER.at(0).remaining_ms(0) == WINDOW_MS


def test_later_requests_are_held_until_the_end_of_the_window() -> None:
    window = LONG_OVER.at(500)
    assert window.at(540) is window
    assert window.at(540).remaining_ms(540) == WINDOW_MS - 40


def test_requests_are_refused_at_once_until_the_end_of_the_rest() -> None:
    window = Window(500)
    for now_ms in (500, 501, 499 + REST_MS):
        assert window.at(now_ms) is window
        assert window.remaining_ms(now_ms) == 0


def test_the_next_window_begins_after_the_rest() -> None:
    now_ms = 500 + REST_MS
    assert Window(500).at(now_ms) == Window(now_ms + WINDOW_MS)
