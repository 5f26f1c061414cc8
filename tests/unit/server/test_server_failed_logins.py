"""The limit on failed logins of an address, and the line per second about them."""

from __future__ import annotations

import pytest

from kcli.security.login_delays import ADDRESSES_MAX
from kcli.server.logins.failed_logins import (
    FAILURES_MAX,
    INTERVAL_SECONDS,
    NODES_FACTOR,
    WAIT_MAX_SECONDS,
    FailedLogins,
)

HOST, OTHER = "10.0.0.1", "10.0.0.2"


def fail(failures: FailedLogins, times: int, host: str = HOST, now: float = 0.0) -> None:
    for _ in range(times):
        failures.failed(host, now, "SASL", "wrong")


def test_an_address_has_some_failures_free_and_then_waits() -> None:
    failures = FailedLogins()
    fail(failures, FAILURES_MAX)
    assert failures.wait_seconds(HOST, 0.0) == 0.0
    fail(failures, 1)
    assert failures.wait_seconds(HOST, 0.0) == pytest.approx(INTERVAL_SECONDS)
    assert failures.wait_seconds(OTHER, 0.0) == 0.0


def test_logins_that_wait_take_turns() -> None:
    failures = FailedLogins()
    fail(failures, FAILURES_MAX + 1)
    waits = [failures.wait_seconds(HOST, 0.0) for _ in range(3)]
    assert waits == pytest.approx([INTERVAL_SECONDS, 2 * INTERVAL_SECONDS, 3 * INTERVAL_SECONDS])


def test_a_wait_that_would_be_too_long_is_refused_and_takes_no_turn() -> None:
    failures = FailedLogins()
    fail(failures, FAILURES_MAX + round(WAIT_MAX_SECONDS / INTERVAL_SECONDS) + 1)
    assert failures.wait_seconds(HOST, 0.0) == failures.wait_seconds(HOST, 0.0) == float("inf")
    assert failures.wait_seconds(HOST, 2 * INTERVAL_SECONDS) < WAIT_MAX_SECONDS


def test_failures_are_forgiven_with_time() -> None:
    failures = FailedLogins()
    fail(failures, 2 * FAILURES_MAX)
    assert failures.wait_seconds(HOST, 2 * FAILURES_MAX * INTERVAL_SECONDS) == 0.0


def test_addresses_of_one_ipv6_network_count_together() -> None:
    failures = FailedLogins()
    fail(failures, FAILURES_MAX + 1, "2001:db8::1")
    assert failures.wait_seconds("2001:db8::ffff", 0.0) > 0
    assert failures.wait_seconds("2001:db8:0:1::1", 0.0) == 0
    fail(failures, FAILURES_MAX + 1, "fe80::1%eth0")
    assert failures.wait_seconds("fe80::1%eth0", 0.0) > 0


def test_the_number_of_addresses_is_limited() -> None:
    failures = FailedLogins()
    fail(failures, FAILURES_MAX + 1)
    for number in range(ADDRESSES_MAX):
        failures.failed(f"host {number}", 0.0, "SASL", "wrong")
    assert failures.wait_seconds(HOST, 0.0) == 0


def test_a_line_per_second_counts_the_silent_failures(caplog: pytest.LogCaptureFixture) -> None:
    failures = FailedLogins()
    with caplog.at_level("INFO", "kcli.server.Authentication"):
        for now in (0.0, 0.1, 0.9, 1.0):
            failures.failed(HOST, now, "SASL", "wrong password")
    assert caplog.messages == [
        "Failed authentication with /10.0.0.1 on listener SASL (wrong password)",
        "Failed authentication with /10.0.0.1 on listener SASL (wrong password); 2 failures before are not logged",
    ]


def test_text_of_a_client_cannot_write_lines_into_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "kcli.server.Authentication"):
        FailedLogins().failed(HOST, 0.0, "SASL", "id (a\nINFO all is well\x1b[2J)" + "x" * 1000)
    (line,) = caplog.messages
    assert r"(id (a\x0aINFO all is well\x1b[2J)xxx" in line
    assert len(line) < 700


def test_a_listener_of_nodes_allows_more_failures() -> None:
    failures = FailedLogins(factor=NODES_FACTOR)
    fail(failures, NODES_FACTOR * FAILURES_MAX - 1)
    assert failures.wait_seconds(HOST, 0.0) == 0.0
    fail(failures, 1 + NODES_FACTOR)
    assert failures.wait_seconds(HOST, 0.0) == pytest.approx(INTERVAL_SECONDS)


def test_the_traceback_of_a_defect_is_in_the_log_once_a_second(caplog: pytest.LogCaptureFixture) -> None:
    failures = FailedLogins()
    with caplog.at_level("INFO", "kcli.server.Authentication"):
        for now in (0.0, 0.1, 0.9):
            failures.failed(HOST, now, "SASL", "a check failed", ZeroDivisionError("here"))
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert record.exc_info is not None and isinstance(record.exc_info[1], ZeroDivisionError)
