"""The limits of lines that clients cause: their number and their length."""

from __future__ import annotations

import logging

from kcli.errors import MESSAGE_CHARACTERS_MAX as ERROR_MAX
from kcli.errors import InvalidRequestException
from kcli.security.acls.audit import AUDIT_LOG
from kcli.server.logging.budget import LINES_MAX, LINES_PER_SECOND, LineBudget
from kcli.server.logging.lines import ERROR_CHARACTERS_MAX, MESSAGE_CHARACTERS_MAX, KafkaFormatter

NAME = "kcli.server.Group"


def record(text: str, *values: object, level: int = logging.INFO, name: str = NAME) -> logging.LogRecord:
    return logging.LogRecord(name, level, "", 0, text, values, None)


def test_lines_with_one_text_have_a_budget_that_grows_with_time() -> None:
    now = [0.0]
    budget = LineBudget(lambda: now[0])
    assert sum(budget(record("%s joins", number)) for number in range(3 * LINES_MAX)) == LINES_MAX
    assert budget(record("another text")), "each text has a budget of its own"
    now[0] = 1.0
    first, *others = [record("%s joins", number) for number in range(100)]
    assert (
        budget(first)
        and first.getMessage() == f"0 joins; {2 * LINES_MAX} lines like this before are not logged"
    )
    assert sum(map(budget, others)) == LINES_PER_SECOND - 1


def test_all_handlers_get_one_decision() -> None:
    budget = LineBudget(lambda: 0.0)
    for number in range(LINES_MAX):
        line = record("%d", number)
        assert budget(line) and budget(line)
    line = record("%d", LINES_MAX)
    assert not budget(line) and not budget(line)


def test_an_audit_line_and_a_line_for_a_search_are_never_dropped() -> None:
    budget = LineBudget(lambda: 0.0)
    for _ in range(2 * LINES_MAX):
        assert budget(record("Denied", name=AUDIT_LOG.name))
        assert budget(record("found", level=logging.DEBUG))


def test_a_long_name_does_not_make_a_long_line() -> None:
    formatter = KafkaFormatter()
    assert len(formatter.format(record("topic %s", "y" * 100_000))) < MESSAGE_CHARACTERS_MAX + 200
    failed = record("failed")
    failed.exc_info = (ValueError, ValueError("y" * 100_000), None)
    assert len(formatter.format(failed)) < ERROR_CHARACTERS_MAX + 200


def test_the_text_of_an_error_fits_into_each_response() -> None:
    assert len(InvalidRequestException("\U0001f600" * 40_000).message.encode()) == 4 * ERROR_MAX < 2**15
