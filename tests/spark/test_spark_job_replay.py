"""`replay` and `profile`: what goes along with a record, where a run continues, and what a profile counts."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kcli.spark.client.cluster import ClientSettings, Cluster
from kcli.spark.jobs.profile import job as profile
from kcli.spark.jobs.profile.figures import SIZE_LIMITS
from kcli.spark.jobs.replay import job as replay
from kcli.spark.jobs.shared.errors import JobError
from kcli.spark.jobs.shared.running import Done
from rigs.librdkafka import consume, produce

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kcli.testing.broker_process import BrokerProcess

Make = Callable[..., str]
FIRST_MS = 1_700_000_000_000


def replayed(spark: SparkSession, broker: BrokerProcess, *words: str) -> Done:
    return replay.run(spark, replay.parse(["--bootstrap-server", broker.bootstrap, *words]))


def test_a_copy_with_everything_kept(
    spark: SparkSession,
    broker: BrokerProcess,
    topic: Make,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source, part = topic(3), topic(1)
    whole = f"{source}-copy"  # the broker itself would create it with one partition
    sent = [
        {
            "key": None if nth % 3 else f"k{nth}",
            "value": b"\xff%d" % nth,
            "headers": [("n", b"%d" % nth)],
            "timestamp": FIRST_MS + nth,
            "partition": (nth * 2) % 3,
        }
        for nth in range(30)
    ]
    produce(broker.bootstrap, source, sent)
    words = ["--topic", source, "--target-topic", whole, "--keep-timestamps", "--keep-partitions"]
    words += [
        "--mode",
        "available-now",
        "--checkpoint",
        str(tmp_path / "checkpoint"),
        "--compression-type",
        "zstd",
    ]
    assert replay.main(["--bootstrap-server", broker.bootstrap, *words, "--dry-run"]) == 0
    first, created, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith(f"replay 30 offsets of {source} to {whole}")
    assert created == f"topic {whole} does not exist: it is created with 3 partitions"
    with Cluster(ClientSettings(broker.bootstrap)) as cluster:
        assert whole not in cluster.topic_names()  # a dry run creates nothing
    assert replayed(spark, broker, *words).rows == 30
    produce(broker.bootstrap, source, [{"value": "later", "partition": 0, "timestamp": FIRST_MS}])
    assert replayed(spark, broker, *words).rows == 1
    copies = [
        [
            (message.partition(), message.key(), message.value(), message.timestamp()[1], message.headers())
            for message in sorted(
                consume(broker.bootstrap, name, 31),
                key=lambda message: (message.partition(), message.offset()),
            )
        ]
        for name in (source, whole)
    ]
    assert copies[0] == copies[1]
    offsets = json.dumps({source: {str(nth): nth + 1 for nth in range(3)}})
    ends = json.dumps({source: {str(nth): nth + 3 for nth in range(3)}})
    words = ["--topic", source, "--target-topic", part, "--without-headers"]
    assert replayed(spark, broker, *words, "--starting-offsets", offsets, "--ending-offsets", ends).rows == 6
    assert all(message.headers() is None for message in consume(broker.bootstrap, part, 6))
    with pytest.raises(JobError, match=f"--keep-partitions: {source} has 3 partitions, and {part} only 1"):
        replay.plan(replay.parse(["--bootstrap-server", broker.bootstrap, *words, "--keep-partitions"]))
    with pytest.raises(JobError, match="--keep-partitions: "):
        replayed(spark, broker, *words, "--keep-partitions")


def test_a_profile_agrees_with_a_count_by_hand(
    spark: SparkSession, broker: BrokerProcess, topic: Make, tmp_path: Path
) -> None:
    name, empty = topic(2, "profiled"), topic(1, "profiled")
    keys = ["<b>hot</b>"] * 60 + [f"k{nth}" for nth in range(30)]
    sent: list[dict[str, Any]] = [
        {"key": key, "value": "x" * nth, "timestamp": FIRST_MS + nth * 1000, "partition": int(nth > 20)}
        for nth, key in enumerate(keys)
    ]
    sent.append({"value": None, "timestamp": FIRST_MS + 1_000_000, "partition": 0})
    produce(broker.bootstrap, name, sent)
    file = tmp_path / "page.html"
    words = ["--bootstrap-server", broker.bootstrap, "--topic", f"{name},{empty}", "--html", str(file)]
    done = profile.run(spark, profile.parse([*words, "--output", "json", "--top", "3"]))
    [topic_profile] = json.loads(json.dumps(done.details["topics"]))  # an empty topic has no profile
    assert done.rows == topic_profile["records"] == 91
    assert topic_profile["value_bytes"] == sum(range(90))
    assert (topic_profile["null_values"], topic_profile["null_keys"], topic_profile["distinct_keys"]) == (
        1,
        1,
        31,
    )
    assert [tuple(key.values()) for key in topic_profile["top_keys"]] == [
        *Counter(keys).most_common(1),
        ("k0", 1),
        ("k1", 1),
    ]
    assert topic_profile["key_skew"] == 60 / 91
    assert [
        (partition["partition"], partition["records"], partition["last_offset"])
        for partition in topic_profile["partitions"]
    ] == [
        (0, 22, 21),
        (1, 69, 68),
    ]
    limits = [*SIZE_LIMITS, 1 << 40]
    sizes = [len(record["value"] or "") for record in sent]
    below = [-1, *limits]
    assert topic_profile["sizes"] == [
        sum(low < size <= high for size in sizes) for low, high in zip(below, limits, strict=False)
    ]
    assert sum(topic_profile["rate"]) == 91
    assert 880_000 < topic_profile["longest_silence_ms"] < 920_000
    html = file.read_text()
    assert "&lt;b&gt;hot&lt;/b&gt;" in html
    assert "<b>" not in html
    assert "<script" not in html
    assert not re.search(r"(src|href)=", html)  # nothing is loaded from elsewhere
    assert html.count("<svg") == 4
