"""Warnings about keys of mm2.properties that have no effect."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.config.properties import load, parse
from kcli.mirror.config.grammar import mirror_config
from kcli.mirror.config.unknown_keys import warnings_of

FOR_CLUSTERS = " has no effect without the alias of a cluster: write it for each cluster, as A."
EXAMPLE = Path(__file__).resolve().parents[3] / "config" / "connect-mirror-maker.properties"


@pytest.mark.parametrize(
    "key",
    [
        "topics",
        "tasks.max",
        "A.bootstrap.servers",
        "B.consumer.isolation.level",
        "A->B.topics.exclude",
        "A->B.producer.override.acks",
        "A->B.transforms.t.type",
        "offset.storage.partitions",
        "replication.policy.separator",
        "config.providers.file.class",
        "security.protocol",
        "bootstrap.servers",
        "kcli.metrics.listener",
    ],
)
def test_a_key_with_an_effect_causes_no_warning(key: str) -> None:
    assert warnings_of({key: "x"}, ["A", "B"], has_rest=False) == []


@pytest.mark.parametrize(
    ("key", "warning"),
    [
        ("topcs", "topcs is not a configuration key of MirrorMaker. Did you mean topics?"),
        ("C.bootstrap.servers", "C.bootstrap.servers is not a configuration key of MirrorMaker"),
        (
            "offset.flush.interval.ms",
            f"offset.flush.interval.ms{FOR_CLUSTERS}offset.flush.interval.ms",
        ),
        (
            "consumer.isolation.level",
            f"consumer.isolation.level{FOR_CLUSTERS}consumer.isolation.level",
        ),
        (
            "transforms.t.type",
            "transforms.t.type has no effect without a flow: write it for each flow, such as A->B.transforms.t.type",
        ),
        ("A->C.enabled", "A->C.enabled has no effect, because A, B are the only clusters"),
        (
            "A->B.topics.exclud",
            "A->B.topics.exclud is probably not a key of its connectors. Did you mean topics.exclude?",
        ),
        ("listeners", "listeners has no effect without dedicated.mode.enable.internal.rest=true"),
    ],
)
def test_a_key_without_effect_causes_a_warning(key: str, warning: str) -> None:
    assert warnings_of({key: "x"}, ["A", "B"], has_rest=False) == [warning]


def test_listeners_have_an_effect_if_the_internal_server_is_on() -> None:
    assert warnings_of({"listeners": "x"}, ["A"], has_rest=True) == []


def test_the_example_causes_no_warning() -> None:
    assert mirror_config(load(str(EXAMPLE))).warnings == []
    text = EXAMPLE.read_text(encoding="utf-8")
    switched_on = "\n".join(
        line.removeprefix("#") if " = " in line and line[:2] not in ("# ", "#") else line
        for line in text.splitlines()
    )
    full = mirror_config(parse(switched_on))
    assert full.warnings == []
    assert full.rest is not None
