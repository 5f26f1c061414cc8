"""No key is taken and forgotten: each one is read by some room, or is known to do nothing and said to."""

from __future__ import annotations

from pathlib import Path

import pytest

import kcli
from kcli.config.broker_keys import BROKER
from kcli.config.not_built import MUST_NOT_IGNORE, NOT_BUILT_PREFIXES, ONE_LOOP

PACKAGE = Path(kcli.__file__).parent
# Where keys are named without being acted on.
TABLES = {
    "broker_keys",
    "broker_docs",
    "not_built",
    "start_up",
    "dynamic",
    "describe",
    "producer",
    "consumer",
    "admin",
}
OWN = "kcli."
SECURITY = ("ssl.", "sasl.", "principal.builder.")


@pytest.fixture(scope="module")
def source() -> str:
    files = [
        path for path in PACKAGE.rglob("*.py") if path.parent.name != "config" or path.stem not in TABLES
    ]
    return "\n".join(path.read_text() for path in files)


def answered(name: str) -> bool:
    return name in ONE_LOOP or name in MUST_NOT_IGNORE or name.startswith((*NOT_BUILT_PREFIXES, *SECURITY))


def test_every_key_is_read_or_answered(source: str) -> None:
    silent = [
        name
        for name, key in BROKER.items()
        if (not key.internal or name.startswith(OWN)) and f'"{name}"' not in source and not answered(name)
    ]
    assert silent == []


def test_every_prefix_is_that_of_a_key() -> None:
    plugins = ("rsm.config.", "rlmm.config.", "auto.include.jmx.reporter", "leader.replication.throttled.")
    others = ("follower.replication.throttled.", "replica.alter.log.dirs.io.")
    for prefix in NOT_BUILT_PREFIXES:
        known = any(name.startswith(prefix) for name in BROKER)
        assert known or prefix in plugins or prefix in others, prefix
    assert set(BROKER) >= ONE_LOOP
