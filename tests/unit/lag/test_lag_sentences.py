"""The sentences about a group."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcli.lag.burrow import Status
from kcli.lag.partition_lag import PartitionLag, Reader
from kcli.lag.sentences import duration, explain, explain_group

READER = Reader("c-2", "/h")
LAG = PartitionLag(
    status=Status.OK,
    committed=42,
    end=142,
    lag=100,
    lag_seconds=250.0,
    is_at_least=False,
    catch_up_seconds=None,
    commit_age_seconds=240.0,
    same_offset_seconds=300.0,
    rewound_from=None,
    first_lag=10,
    window_seconds=90.0,
    commits=10,
    is_withheld=False,
)


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (
            replace(LAG, status=Status.STOP),
            "member c-2 on host h has committed nothing for 4 min on orders-3",
        ),
        (
            replace(LAG, status=Status.STALL),
            "member c-2 on host h has committed the same offset 42 for 5 min on orders-3",
        ),
        (
            replace(LAG, status=Status.WARN),
            "member c-2 on host h falls behind on orders-3: its lag went from 10 to 100 in 90 s",
        ),
        (
            replace(LAG, status=Status.WARN, first_lag=None),
            "member c-2 on host h falls behind on orders-3: its lag went to 100 in 90 s",
        ),
        (
            replace(LAG, status=Status.REWIND, rewound_from=99),
            "the offset of orders-3 went back from 99 to 42, and 100 records are unread",
        ),
        (replace(LAG, lag=0), "orders-3 is read up to the end"),
        (replace(LAG, lag=None, end=None), "the end offset of orders-3 is unknown"),
        (replace(LAG, lag=1), "1 record of orders-3 wait to be read"),
        (
            replace(LAG, catch_up_seconds=7500.0),
            "orders-3 is read up to the end in 2 h 5 min at the present rates",
        ),
    ],
)
def test_each_state_has_a_sentence(found: PartitionLag, sentence: str) -> None:
    assert explain(found, "orders-3", READER) == sentence


def test_a_partition_without_a_member_has_a_sentence_of_its_own() -> None:
    stopped = replace(LAG, status=Status.STOP)
    assert explain(stopped, "orders-3", None) == "no member reads orders-3, and the last commit was 4 min ago"
    assert explain(replace(LAG, status=Status.WARN), "orders-3", None).startswith("a client falls behind")


def test_a_group_has_the_sentence_of_its_worst_partition() -> None:
    parts = [(Status.WARN, "w"), (Status.OK, "o"), (Status.STOP, "s"), (Status.STOP, "t")]
    assert explain_group(parts) == "s; 2 more partitions not OK"
    assert explain_group(parts[:2]) == "w"
    assert explain_group(parts[1:2]) == ""


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "0 s"),
        (119, "119 s"),
        (120, "2 min"),
        (3599, "59 min"),
        (3600, "1 h"),
        (9000, "2 h 30 min"),
        (90_000, "1 d 1 h"),
    ],
)
def test_a_time_in_words(seconds: float, words: str) -> None:
    assert duration(seconds) == words
