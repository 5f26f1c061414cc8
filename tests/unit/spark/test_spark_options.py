"""Options of the source and the sink: Spark's names, defaults and refusals."""

from __future__ import annotations

import logging
import re

import pytest

from kcli.model.request_values import EARLIEST, LATEST, READ_COMMITTED
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.compression import Codec
from kcli.spark.options import single_topic, sink_options, source_options, value_spec

BASE = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "a, b"}
A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def test_defaults_of_a_batch() -> None:
    options = source_options(BASE, streaming=False)
    assert options.subscription.topics == ("a", "b")
    assert (options.start.default, options.end.default) == (EARLIEST, LATEST)
    assert options.fail_on_data_loss
    assert not options.include_headers
    assert options.max_offsets_per_trigger is None


def test_a_stream_starts_at_the_end() -> None:
    assert source_options(BASE, streaming=True).start.default == LATEST


def test_names_ignore_case_and_values_are_read() -> None:
    settings = BASE | {
        "STARTINGOFFSETS": '{"a":{"0":23,"1":-2}}',
        "failondataloss": "FALSE",
        "includeHeaders": "true",
        "minPartitions": "7",
        "maxRecordsPerPartition": "100",
        "kafka.isolation.level": "read_committed",
    }
    options = source_options(settings, streaming=False)
    assert options.start.offsets == {A0: 23, A1: EARLIEST}
    assert not options.fail_on_data_loss
    assert options.include_headers
    assert (options.min_partitions, options.max_records_per_partition) == (7, 100)
    assert options.client.isolation_level == READ_COMMITTED


def test_timestamps_go_before_offsets() -> None:
    by_partition = BASE | {"startingOffsets": "latest", "startingOffsetsByTimestamp": '{"a":{"0":1000}}'}
    assert source_options(by_partition, streaming=True).start.timestamps == {A0: 1000}
    for_all = by_partition | {"startingTimestamp": "2000"}
    assert source_options(for_all, streaming=True).start.timestamp == 2000


def test_assign_and_pattern() -> None:
    servers = {"kafka.bootstrap.servers": "h:1"}
    assigned = source_options(servers | {"assign": '{"a":[1,0]}'}, streaming=False)
    assert assigned.subscription.partitions == (A0, A1)
    assert (
        source_options(servers | {"subscribePattern": "a.*"}, streaming=False).subscription.pattern == "a.*"
    )


@pytest.mark.parametrize(
    "change, message",
    [
        ({"kafka.bootstrap.servers": ""}, "'kafka.bootstrap.servers' must be specified"),
        ({"kafka.bootstrap.servers": "nohost"}, "Invalid url in bootstrap.servers: nohost"),
        ({"assign": "{}"}, "found subscribe and assign"),
        ({"subscribe": " , "}, "subscribe names no topic"),
        ({"startingOffsets": "latest"}, "startingOffsets can't be latest in a batch query"),
        ({"endingOffsets": "earliest"}, "endingOffsets can't be earliest"),
        ({"endingOffsets": '{"a":{"0":-2}}'}, "endingOffsets can't be earliest"),
        ({"startingOffsets": '{"a":{"0":-3}}'}, "offset -3 of a-0"),
        ({"startingOffsets": "newest"}, "startingOffsets is 'newest'"),
        ({"startingOffsets": '{"a":[1]}'}, "startingOffsets is "),
        ({"startingOffsets": '{"a":{"0":1.5}}'}, "startingOffsets is "),
        ({"startingOffsets": '{"a":{"0":"5"}}'}, "startingOffsets is "),
        ({"startingOffsets": '{"a":{"0":true}}'}, "startingOffsets is "),
        ({"startingOffsets": '{"a":{"0":NaN}}'}, "startingOffsets is "),
        ({"startingOffsets": '{"a":{"0_1":5}}'}, "startingOffsets is "),
        ({"startingOffsets": '{"a":{" 0":5}}'}, "startingOffsets is "),
        ({"startingOffsets": '{"a":{"-1":5}}'}, "startingOffsets is "),
        ({"startingOffsets": '{"a":{"0":9223372036854775808}}'}, "startingOffsets is "),
        ({"startingOffsets": "[" * 100_000}, "startingOffsets is "),
        ({"startingTimestamp": "1_0"}, "startingTimestamp is '1_0'; expected a whole number"),
        ({"startingTimestamp": " 1"}, "startingTimestamp is ' 1'; expected a whole number"),
        ({"minPartitions": "\u00a02"}, "expected a whole number"),
        ({"startingTimestamp": "noon"}, "startingTimestamp is 'noon'"),
        ({"minPartitions": "0"}, "minPartitions is 0"),
        ({"includeHeaders": "yes"}, "includeHeaders is 'yes'"),
        ({"kafka.isolation.level": "serializable"}, "read_uncommitted or read_committed"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "minOffsetsPerTrigger (9) is higher"),
        ({"maxTriggerDelay": "soon"}, "maxTriggerDelay is 'soon'"),
        (
            {"kafka.auto.offset.reset": "latest"},
            "kafka.auto.offset.reset is not supported: use startingOffsets",
        ),
        ({"path": "/data"}, "path (log directories) and kafka.bootstrap.servers (a cluster)"),
        ({"readUpTo": "logEnd"}, "readUpTo needs log directories"),
        ({"kafka.security.protocol": "TLS"}, "kafka.security.protocol is TLS"),
        ({"kafka.sasl.jaas.config": "hidden"}, "kafka.sasl.jaas.config has no effect while"),
        ({"kafka.ssl.unheard": "hidden"}, "kafka.ssl.unheard is not supported"),
    ],
)
def test_the_source_names_the_wrong_option(change: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        source_options(BASE | change, streaming=False)
    assert "hidden" not in str(caught.value)


def test_nothing_to_subscribe() -> None:
    with pytest.raises(
        ValueError, match="One of 'subscribe', 'subscribePattern', 'assign' must be specified"
    ):
        source_options({"kafka.bootstrap.servers": "h:1"}, streaming=False)
    with pytest.raises(ValueError, match="not a regular expression"):
        source_options({"kafka.bootstrap.servers": "h:1", "subscribePattern": "("}, streaming=False)


def test_a_stream_has_no_end() -> None:
    with pytest.raises(ValueError, match="endingOffsets is not valid in a streaming query"):
        source_options(BASE | {"endingOffsets": "latest"}, streaming=True)


def test_log_directories_need_no_cluster() -> None:
    assert source_options({"paths": '["/a","/b"]'}, streaming=False).log_directories == ("/a", "/b")
    options = source_options({"path": "/a, /b", "readUpTo": "logEnd"}, streaming=False)
    assert (options.log_directories, options.to_log_end) == (("/a", "/b"), True)
    assert options.subscription.pattern == ".*"
    with pytest.raises(ValueError, match="path s3://x: expected a directory"):
        source_options({"path": "s3://x"}, streaming=False)


@pytest.mark.parametrize(
    "text, expected", [("15m", 900_000), ("30 s", 30_000), ("250", 250), ("2h", 7_200_000)]
)
def test_a_delay_is_read_with_its_unit(text: str, expected: int) -> None:
    assert source_options(BASE | {"maxTriggerDelay": text}, streaming=True).max_trigger_delay_ms == expected


def test_security_settings_without_effect_are_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    java = {"kafka.security.protocol": "SSL", "kafka.ssl.protocol": "TLSv1.3"}
    with caplog.at_level(logging.WARNING):
        source_options(BASE | java, streaming=False)
    assert "kafka.ssl.protocol has no effect" in caplog.text


def test_unknown_options_are_named(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        source_options(BASE | {"minOffsetsPerTriger": "1"}, streaming=False)
    assert "minoffsetspertriger is unknown" in caplog.text


def test_transactions_of_the_sink() -> None:
    base = {"kafka.bootstrap.servers": "h:1", "topic": "t"}
    assert sink_options(base).transactional is None
    settings = {"kcli.transactional": "false", "kafka.transactional.id": "x", "kcli.batch.id": "4"}
    options = sink_options(base | settings | {"kafka.transaction.timeout.ms": "5000"})
    assert (options.transactional, options.transactional_id, options.batch_id) == (False, "x", 4)
    assert options.transaction_timeout_ms == 5000
    levels = {"kafka.compression.type": "zstd", "kafka.compression.zstd.level": "7"}
    assert sink_options(base | levels).level == 7


def test_the_sink_refuses_weak_producer_settings() -> None:
    options = sink_options(
        {"kafka.bootstrap.servers": "h:1", "topic": "t", "kafka.compression.type": "zstd", "kafka.acks": "-1"}
    )
    assert (options.topic, options.codec) == ("t", Codec.ZSTD)
    with pytest.raises(ValueError, match=r"kafka\.acks is 1"):
        sink_options({"kafka.bootstrap.servers": "h:1", "kafka.acks": "1"})
    with pytest.raises(ValueError, match="producers are always idempotent"):
        sink_options({"kafka.bootstrap.servers": "h:1", "kafka.enable.idempotence": "false"})


def test_values_with_schemas_of_a_registry() -> None:
    raw = {"subscribe": "t", "valueFormat": "Avro", "schemaRegistry": "http://h:1", "valueSubject": "s"}
    spec = value_spec({**raw, "schemaRegistry.basic.auth.user.info": "u:p"})
    assert spec is not None
    assert (spec.type, spec.subject, spec.settings.login) == ("AVRO", "s", "u:p")
    assert value_spec({"subscribe": "t"}) is None
    topics = {
        "t": {"subscribe": "t"},
        "u": {"assign": '{"u":[0,1]}'},
        None: {"subscribePattern": "t"},
    }
    for topic, options in topics.items():
        assert single_topic(options) == topic
    assert single_topic({"subscribe": "t,u"}) is None


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"schemaRegistry": "http://h:1"}, "schemaRegistry needs valueFormat"),
        ({"schemaRegistry.max.retries": "1"}, "schemaRegistry.max.retries needs valueFormat"),
        ({"includeValueErrors": "true"}, "includeValueErrors needs valueFormat"),
        ({"valueFormat": "avro"}, "valueFormat needs schemaRegistry"),
        (
            {"valueFormat": "avro", "schemaRegistry": "http://h:1", "includeValueErrors": "maybe"},
            "includeValueErrors",
        ),
        ({"valueFormat": "xml", "schemaRegistry": "http://h:1"}, "valueFormat is 'xml'; expected avro or"),
        ({"valueFormat": "avro", "schemaRegistry": "h"}, "expected the URL of a schema registry"),
        (
            {"valueFormat": "avro", "schemaRegistry": "http://h:1", "schemaRegistry.max.retry": "1"},
            "schemaRegistry.max.retry: the clients of a schema registry have no key",
        ),
        (
            {"valueFormat": "avro", "schemaRegistry": "http://h:1", "schemaRegistry.rule.executors": "x"},
            "kcli executes no rules",
        ),
    ],
)
def test_wrong_options_of_values(options: dict[str, str], reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        value_spec({"subscribe": "t", **options})
