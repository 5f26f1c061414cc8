"""The configuration keys of Kafka's Java consumer: names, types, defaults and valid values."""
# ruff: noqa: E501  (a table reads best with one key to a line)

from __future__ import annotations

from kcli.config.client_common import BOOLEAN, CLASS, COMMON, HIGH, INT, LIST, LONG, LOW, MEDIUM, STRING, key
from kcli.config.definition import ConfigDef, NonEmpty, OneOf, Range
from kcli.config.group import OFFSET_RESET_OR_NONE

# fmt: off
_OWN = (
    key("allow.auto.create.topics", BOOLEAN, "true", None, MEDIUM),
    key("auto.commit.interval.ms", INT, "5000", Range(0), LOW),
    key("auto.offset.reset", STRING, "latest", OFFSET_RESET_OR_NONE, MEDIUM),
    key("bootstrap.servers", LIST, None, None, HIGH, required=True),
    key("check.crcs", BOOLEAN, "true", None, LOW),
    key("client.id", STRING, "", None, LOW),
    key("client.rack", STRING, "", None, LOW),
    key("connections.max.idle.ms", LONG, "540000", None, MEDIUM),
    key("default.api.timeout.ms", INT, "60000", Range(0), MEDIUM),
    key("enable.auto.commit", BOOLEAN, "true", None, MEDIUM),
    key("enable.metrics.push", BOOLEAN, "true", None, LOW),
    key("exclude.internal.topics", BOOLEAN, "true", None, MEDIUM),
    key("fetch.max.bytes", INT, "52428800", Range(0), MEDIUM),
    key("fetch.max.wait.ms", INT, "500", Range(0), LOW),
    key("fetch.min.bytes", INT, "1", Range(0), HIGH),
    key("group.id", STRING, None, None, HIGH),
    key("group.instance.id", STRING, None, NonEmpty(), MEDIUM),
    key("group.protocol", STRING, "classic", OneOf(("CONSUMER", "CLASSIC"), ignore_case=True), HIGH),
    key("group.remote.assignor", STRING, None, None, MEDIUM),
    key("heartbeat.interval.ms", INT, "3000", None, HIGH),
    key("interceptor.classes", LIST, "", None, LOW),
    key("isolation.level", STRING, "read_uncommitted", OneOf(("read_committed", "read_uncommitted")), MEDIUM),
    key("key.deserializer", CLASS, None, None, HIGH, required=True),
    key("max.partition.fetch.bytes", INT, "1048576", Range(0), HIGH),
    key("max.poll.interval.ms", INT, "300000", Range(1), MEDIUM),
    key("max.poll.records", INT, "500", Range(1), MEDIUM),
    key("partition.assignment.strategy", LIST, "org.apache.kafka.clients.consumer.RangeAssignor,org.apache.kafka.clients.consumer.CooperativeStickyAssignor", None, MEDIUM),
    key("receive.buffer.bytes", INT, "65536", Range(-1), MEDIUM),
    key("session.timeout.ms", INT, "45000", None, HIGH),
    key("share.acknowledgement.mode", STRING, "implicit", OneOf(("implicit", "explicit")), MEDIUM),
    key("share.acquire.mode", STRING, "BATCH_OPTIMIZED", OneOf(("batch_optimized", "record_limit"), ignore_case=True), MEDIUM),
    key("value.deserializer", CLASS, None, None, HIGH, required=True),
)
# fmt: on

CONSUMER = ConfigDef(sorted((*COMMON, *_OWN), key=lambda entry: entry.name))
