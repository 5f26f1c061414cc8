"""The traffic of topics: what stays when a topic goes, and which errors are failures."""

from __future__ import annotations

from kcli.errors import (
    CorruptRecordException,
    ErrorCode,
    InvalidRecordException,
    RecordTooLargeException,
    TopicAuthorizationException,
    UnknownServerException,
)
from kcli.server.metrics.traffic import TrafficTable


def test_the_counts_of_a_deleted_topic_are_kept() -> None:
    table = TrafficTable()
    table.of("a").messages_in += 5
    table.of("b").messages_in += 2
    table.forget("a")
    table.forget("never was")
    assert (table.elsewhere.messages_in, list(table.topics)) == (5, ["b"])
    assert table.of("a").messages_in == 0, "a new topic of that name begins anew"


def test_only_what_a_broker_should_not_fail_at_is_a_failure() -> None:
    table = TrafficTable()
    table.of("a")
    table.produce_failed("a", RecordTooLargeException(), 900)
    table.produce_failed("a", CorruptRecordException(), 100)
    table.produce_failed("a", InvalidRecordException(), 100)
    table.produce_failed("a", TopicAuthorizationException(), 100)
    table.produce_failed("not there", UnknownServerException(), 100)
    table.fetch_failed("a", ErrorCode.OFFSET_OUT_OF_RANGE)
    table.fetch_failed("a", ErrorCode.UNKNOWN_SERVER_ERROR)
    traffic = table.topics["a"]
    assert list(table.topics) == ["a"], "a client may name what it likes"
    assert (traffic.bytes_rejected, traffic.corrupt_batches) == (900, 1)
    assert (traffic.failed_produces, table.elsewhere.failed_produces, traffic.failed_fetches) == (1, 1, 1)
