"""The configuration keys of Kafka's Java producer: names, types, defaults and valid values."""

from __future__ import annotations

from kcli.config.client_common import BOOLEAN, CLASS, COMMON, HIGH, INT, LIST, LONG, LOW, MEDIUM, STRING, key
from kcli.config.definition import ConfigDef, NonEmpty, OneOf, Range, RangeOr

# fmt: off
_OWN = (
    key("acks", STRING, "all", OneOf(("all", "-1", "0", "1")), LOW),
    key("batch.size", INT, "16384", Range(0), MEDIUM),
    key("bootstrap.servers", LIST, None, None, HIGH, required=True),
    key("buffer.memory", LONG, "33554432", Range(0), HIGH),
    key("client.id", STRING, "", None, MEDIUM),
    key("compression.gzip.level", INT, "-1", RangeOr(1, 9, -1), MEDIUM),
    key("compression.lz4.level", INT, "9", Range(1, 17), MEDIUM),
    key("compression.type", STRING, "none", OneOf(("none", "gzip", "snappy", "lz4", "zstd")), HIGH),
    key("compression.zstd.level", INT, "3", Range(-131072, 22), MEDIUM),
    key("connections.max.idle.ms", LONG, "540000", None, MEDIUM),
    key("delivery.timeout.ms", INT, "120000", Range(0), MEDIUM),
    key("enable.idempotence", BOOLEAN, "true", None, LOW),
    key("enable.metrics.push", BOOLEAN, "true", None, LOW),
    key("interceptor.classes", LIST, "", None, LOW),
    key("key.serializer", CLASS, None, None, HIGH, required=True),
    key("linger.ms", LONG, "5", Range(0), MEDIUM),
    key("max.block.ms", LONG, "60000", Range(0), MEDIUM),
    key("max.in.flight.requests.per.connection", INT, "5", Range(1), LOW),
    key("max.request.size", INT, "1048576", Range(0), MEDIUM),
    key("metadata.max.idle.ms", LONG, "300000", Range(5000), LOW),
    key("partitioner.adaptive.partitioning.enable", BOOLEAN, "true", None, LOW),
    key("partitioner.availability.timeout.ms", LONG, "0", Range(0), LOW),
    key("partitioner.class", CLASS, None, None, MEDIUM),
    key("partitioner.ignore.keys", BOOLEAN, "false", None, MEDIUM),
    key("receive.buffer.bytes", INT, "32768", Range(-1), MEDIUM),
    key("retries", INT, "2147483647", Range(0, 2147483647), HIGH),
    key("transaction.timeout.ms", INT, "60000", None, LOW),
    key("transaction.two.phase.commit.enable", BOOLEAN, "false", None, LOW),
    key("transactional.id", STRING, None, NonEmpty(), LOW),
    key("value.serializer", CLASS, None, None, HIGH, required=True),
)
# fmt: on

PRODUCER = ConfigDef(sorted((*COMMON, *_OWN), key=lambda entry: entry.name))
