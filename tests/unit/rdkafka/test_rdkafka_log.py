"""Lines of librdkafka, as users see them."""

from __future__ import annotations

import logging

import pytest

from kcli.rdkafka.log import _in_our_words


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (
            (
                "FAIL [c#consumer-1] [thrd:127.0.0.1:9/bootstrap]: 127.0.0.1:9/bootstrap: Connect to ipv4#127.0.0.1:9 "
                "failed: Connection refused (after 0ms in state CONNECT)"
            ),
            (
                "WARNING Connection to 127.0.0.1:9 could not be established (Connection refused). Node may not be "
                "available."
            ),
        ),
        (
            "FAIL [c#producer-1] [thrd:sasl_ssl://h:9/1]: sasl_ssl://h:9/1: Disconnected (after 3ms in state UP)",
            "ERROR h:9: Disconnected (after 3ms in state UP)",
        ),
        ("GETPID [c#producer-1] [thrd:main]: Failed to acquire: x", "ERROR Failed to acquire: x"),
        (
            "CONFWARN [c#producer-1] [thrd:app]: Configuration property a is b",
            "ERROR Configuration property a is b",
        ),
        ("Disconnected from [h]: our own line", "ERROR Disconnected from [h]: our own line"),
    ],
)
def test_a_line_of_librdkafka_has_no_facility_client_or_thread(line: str, shown: str) -> None:
    record = logging.LogRecord("kcli.rdkafka", logging.ERROR, "f", 1, "%s", (line,), None)
    assert _in_our_words(record)
    assert f"{logging.getLevelName(record.levelno)} {record.getMessage()}" == shown.replace(
        "WARNING", logging.getLevelName(30)
    )
