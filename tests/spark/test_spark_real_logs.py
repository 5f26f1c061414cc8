"""Log files of real systems through a topic and Spark: the counts and a checksum agree."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rigs.librdkafka import produce

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kcli.testing.broker_process import BrokerProcess


@pytest.mark.parametrize("name", ["Apache_2k.log", "HDFS_2k.log", "OpenSSH_2k.log", "Zookeeper_2k.log"])
def test_counts_and_checksums_agree(
    spark: SparkSession, broker: BrokerProcess, topic: Callable[..., str], real_logs: Path, name: str
) -> None:
    from pyspark.sql import functions

    lines = (real_logs / name).read_bytes().splitlines()
    target = topic(3)
    produce(broker.bootstrap, target, [{"value": line} for line in lines], **{"compression.type": "zstd"})
    frame = (
        spark.read.format("kcli")
        .option("kafka.bootstrap.servers", broker.bootstrap)
        .option("subscribe", target)
        .load()
    )
    totals = frame.agg(functions.count("*"), functions.sum(functions.crc32("value"))).first()
    assert totals is not None
    assert tuple(totals) == (len(lines), sum(zlib.crc32(line) for line in lines))
