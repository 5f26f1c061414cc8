"""Sentences that explain a state: "member c-2 on host h has committed nothing for 4 min on orders-3"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from kcli.lag.burrow import Status
from kcli.lag.partition_lag import PartitionLag, Reader

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_UNITS = ((_DAY, "d", _HOUR, "h"), (_HOUR, "h", _MINUTE, "min"))
_MINUTES_FROM = 120


def explain(lag: PartitionLag, partition: str, reader: Reader | None) -> str:
    """Returns the sentence about a group on a partition. `reader` is the member that has the partition, or None.

    Names come from clients. The caller must escape the sentence for its output, such as a terminal or a web page.
    """
    match lag.status:
        case Status.OK:
            return _ok(lag, partition)
        case Status.WARN:
            return _warn(lag, partition, reader)
        case Status.STOP:
            return _stop(lag, partition, reader)
        case Status.STALL:
            age = duration(lag.same_offset_seconds)
            return (
                f"{_subject(reader)} has committed the same offset {lag.committed} for {age} on {partition}"
            )
        case Status.REWIND:
            return (
                f"the offset of {partition} went back from {lag.rewound_from} to {lag.committed}, "
                f"and {_records(lag.lag)} are unread"
            )
    assert_never(lag.status)


def explain_group(sentences: Sequence[tuple[Status, str]]) -> str:
    """Returns the sentence about a group: the sentence about its worst partition, and how many other partitions are not
    OK."""
    bad = [(status, sentence) for status, sentence in sentences if status is not Status.OK]
    if not bad:
        return ""
    worst = max(bad, key=lambda sentence: sentence[0])
    others = len(bad) - 1
    return worst[1] if not others else f"{worst[1]}; {_counted(others, 'more partition')} not OK"


def duration(seconds: float) -> str:
    """Returns a time in words, such as `40 s`, `4 min`, `2 h 5 min` or `3 d 1 h`."""
    if seconds < _MINUTES_FROM:
        return f"{seconds:.0f} s"
    if seconds < _HOUR:
        return f"{seconds // _MINUTE:.0f} min"
    large, large_name, small, small_name = next(unit for unit in _UNITS if seconds >= unit[0])
    rest = int(seconds % large // small)
    whole = f"{seconds // large:.0f} {large_name}"
    return f"{whole} {rest} {small_name}" if rest else whole


def _ok(lag: PartitionLag, partition: str) -> str:
    if lag.lag is None:
        return f"the end offset of {partition} is unknown"
    if lag.lag == 0:
        return f"{partition} is read up to the end"
    if lag.catch_up_seconds is None:
        return f"{_records(lag.lag)} of {partition} wait to be read"
    return f"{partition} is read up to the end in {duration(lag.catch_up_seconds)} at the present rates"


def _warn(lag: PartitionLag, partition: str, reader: Reader | None) -> str:
    before = "" if lag.first_lag is None else f" from {lag.first_lag}"
    age = duration(lag.window_seconds)
    return f"{_subject(reader)} falls behind on {partition}: its lag went{before} to {lag.lag} in {age}"


def _stop(lag: PartitionLag, partition: str, reader: Reader | None) -> str:
    age = duration(lag.commit_age_seconds)
    if reader is None:
        return f"no member reads {partition}, and the last commit was {age} ago"
    return f"{_subject(reader)} has committed nothing for {age} on {partition}"


def _subject(reader: Reader | None) -> str:
    return "a client" if reader is None else f"member {reader.name} on host {reader.host.lstrip('/')}"


def _records(count: int | None) -> str:
    return "records" if count is None else _counted(count, "record")


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")
