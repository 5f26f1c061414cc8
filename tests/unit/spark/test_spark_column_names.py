"""Names of columns that come from records; no Spark needed."""

from __future__ import annotations

import pytest

from kcli.spark.jobs.records.column_names import (
    MESSAGE_CHARACTERS,
    folded,
    free_name,
    listed,
    printable,
    quoted,
    unique_names,
)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["id", "amount"], ["id", "amount"]),
        (["amount", "Amount", "AMOUNT"], ["amount", "Amount_2", "AMOUNT_3"]),
        (["a", "A", "a_2", "A_3"], ["a", "A_4", "a_2", "A_3"]),
        (["_partition", "_KEY"], ["_partition_2", "_KEY_2"]),
        (["", ""], ["_empty", "_empty_2"]),
        (["x\ud800", "x\ufffd"], ["x\ufffd", "x\ufffd_2"]),
        (["a`b", "a.b", "a b", "a\nb"], ["a`b", "a.b", "a b", "a\nb"]),
        # Java's equalsIgnoreCase, with which Spark compares names, finds these letters equal.
        (["k", "\N{KELVIN SIGN}", "s", "\N{LATIN SMALL LETTER LONG S}"], ["k", "\u212a_2", "s", "\u017f_2"]),
        (["i", "\u0130", "\u0131"], ["i", "\u0130_2", "\u0131_3"]),
        (["\xdf", "ss"], ["\xdf", "ss"]),
    ],
)
def test_every_column_has_its_own_name(names: list[str], expected: list[str]) -> None:
    unique = unique_names(names, ["_key", "_partition"])
    assert unique == expected
    assert len({folded(name) for name in unique}) == len(unique)


def test_a_name_in_sql_and_in_a_message() -> None:
    assert quoted("a`b.c") == "`a``b.c`"
    assert free_name("_corrupt_record", ["_CORRUPT_record", "_corrupt_record_2"]) == "_corrupt_record_3"
    assert printable("a\nb\x1b[1m\ud800 \xe9") == r"a\nb\x1b[1m\ud800 " + "\xe9"
    assert listed([f"c{nth}" for nth in range(30)]).endswith("c19, and 10 more")
    assert len(listed(["x" * 9999])) < MESSAGE_CHARACTERS + 10
