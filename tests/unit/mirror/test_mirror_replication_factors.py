"""Replication factors that a target cluster has too few brokers for."""

from __future__ import annotations

import pytest

from kcli.config.properties import parse
from kcli.connect.config.worker import distributed_config
from kcli.mirror.config.grammar import Flow, mirror_config
from kcli.mirror.config.replication_factors import too_large

FLOW = Flow("A", "B")
STORES = [f"{name}.storage.replication.factor" for name in ("config", "offset", "status")]
REMOTE, CHECKPOINTS = "replication.factor", "checkpoints.topic.replication.factor"
HEARTBEATS, SYNCS = "heartbeats.topic.replication.factor", "offset-syncs.topic.replication.factor"


@pytest.mark.parametrize(
    ("text", "brokers", "keys"),
    [
        ("", 3, []),
        ("", 2, [HEARTBEATS, *STORES]),
        ("A->B.enabled = true", 2, [CHECKPOINTS, HEARTBEATS, *STORES]),
        ("A->B.enabled = true", 1, [REMOTE, CHECKPOINTS, HEARTBEATS, *STORES]),
        (
            "A->B.enabled = true\noffset-syncs.topic.location = target",
            2,
            [CHECKPOINTS, SYNCS, HEARTBEATS, *STORES],
        ),
        ("A->B.emit.heartbeats.enabled = false", 1, STORES),
        ("A->B.enabled = true\nreplication.factor = 5\nA->B.replication.factor = 3", 3, []),
        ("A->B.enabled = true\nreplication.factor = -1", 3, []),
        ("A->B.enabled = true\nreplication.factor = x", 3, []),
        ("\n".join(f"{key} = -1" for key in STORES), 1, [HEARTBEATS]),
        ("B.offset.storage.replication.factor = 1", 2, [HEARTBEATS, STORES[0], STORES[2]]),
    ],
)
def test_factors_above_the_number_of_brokers_are_found(text: str, brokers: int, keys: list[str]) -> None:
    config = mirror_config(parse(f"clusters = A, B\nB.bootstrap.servers = b:1\n{text}"))
    group = distributed_config(config.worker(FLOW)).group
    assert group is not None
    assert too_large(config, FLOW, group, brokers) == keys
