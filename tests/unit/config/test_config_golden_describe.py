"""What Kafka 4.1 printed for `kafka-configs --describe --all`, compared line by line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from kcli.config.broker import BrokerConfig
from kcli.config.describe import ConfigEntry
from kcli.config.dynamic import DynamicConfig
from kcli.config.properties import Properties
from kcli.config.start_up import node_config

TRANSCRIPTS = Path(__file__).resolve().parents[3] / ".." / "shared" / "golden" / "cli" / "transcripts.jsonl"
LINE = re.compile(r"  (\S+?)=(.*) sensitive=(true|false) synonyms=\{(.*)\}")

pytestmark = pytest.mark.skipif(
    not TRANSCRIPTS.exists(), reason="the recorded transcripts are not beside the checkout"
)


def printed(step: str) -> list[str]:
    with TRANSCRIPTS.open() as lines:
        stories = (json.loads(line) for line in lines)
        text = next(story["stdout"] for story in stories if story["id"] == f"configs-topics-brokers/{step}")
    filled = text.replace("{PORT}", "19092").replace("{CPORT}", "19093").replace("{DIR}", "/tmp/kcli")
    return [line for line in filled.splitlines() if line.startswith("  ")]


def line_of(entry: ConfigEntry) -> str:
    synonyms = ", ".join(
        f"{s.source.name}:{s.name}={'null' if s.value is None else s.value}" for s in entry.synonyms
    )
    value = "null" if entry.value is None else entry.value
    return f"  {entry.name}={value} sensitive={str(entry.sensitive).lower()} synonyms={{{synonyms}}}"


@pytest.fixture(scope="module")
def broker() -> BrokerConfig:
    """The broker of the story, by the static values that it printed."""
    static: dict[str, str] = {}
    for line in printed("037"):
        match = LINE.fullmatch(line)
        assert match is not None
        found = re.search(
            rf"STATIC_BROKER_CONFIG:{re.escape(match[1])}=(.*?)(?:, DEFAULT_CONFIG:.*)?$", match[4]
        )
        if found is not None:
            static[match[1]] = found[1]
    # Only the present listeners parse again; broker.id was never in the file.
    del static["broker.id"]
    return node_config(Properties(static))


ELR = {"min.insync.replicas": "1"}


def test_all_configs_of_a_topic(broker: BrokerConfig) -> None:
    dynamic = DynamicConfig(broker)
    dynamic.update(default=ELR, own={})
    assert [line_of(entry) for entry in dynamic.describe_topic({"retention.ms": "7200000"})] == printed("007")


def test_all_configs_of_a_broker(broker: BrokerConfig) -> None:
    dynamic = DynamicConfig(broker)
    dynamic.update(
        default=ELR | {"message.max.bytes": "1200000", "log.retention.ms": "86400000"},
        own={"log.cleaner.threads": "2"},
    )
    assert [line_of(entry) for entry in dynamic.describe_broker()] == printed("037")
    assert [line_of(entry) for entry in dynamic.describe_broker_defaults()] == printed("036")


def test_the_overrides_of_a_topic(broker: BrokerConfig) -> None:
    overrides = {
        "cleanup.policy": "compact,delete",
        "compression.type": "zstd",
        "flush.ms": "2222",
        "min.cleanable.dirty.ratio": "0.3",
        "retention.ms": "1111111",
        "segment.ms": "70000",
    }
    dynamic = DynamicConfig(broker)
    dynamic.update(default=ELR, own={})
    lines = [line_of(entry) for entry in dynamic.describe_topic(overrides) if entry.name in overrides]
    assert lines == printed("025")
