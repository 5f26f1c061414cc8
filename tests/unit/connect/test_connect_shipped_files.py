"""The files of config/ for Connect start a worker without a warning, and hold Kafka's own keys and values."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kcli.config.properties import load
from kcli.connect.config.checks import CheckReport, CheckRequest
from kcli.connect.config.plugin_scan import scan_installed
from kcli.connect.config.plugin_table import PluginTable
from kcli.connect.config.validator import ConfigValidator
from kcli.connect.config.worker import distributed_config, standalone_config

CONFIG = Path(__file__).resolve().parents[3] / "config"
JSON = "org.apache.kafka.connect.json.JsonConverter"
ALL_WORKERS = {
    "bootstrap.servers": "localhost:9092",
    "key.converter": JSON,
    "value.converter": JSON,
    "key.converter.schemas.enable": "true",
    "value.converter.schemas.enable": "true",
    "offset.flush.interval.ms": "10000",
}


def properties(name: str) -> dict[str, str]:
    return dict(load(str(CONFIG / f"connect-{name}.properties")))


def test_a_standalone_worker_starts() -> None:
    keys = properties("standalone")
    assert keys == ALL_WORKERS | {"offset.storage.file.filename": "/tmp/connect.offsets"}
    assert standalone_config(keys).warnings == ()


def test_a_worker_of_a_group_starts() -> None:
    keys = properties("distributed")
    topics = {
        key: text
        for name in ("config", "offset", "status")
        for key, text in (
            (f"{name}.storage.topic", f"connect-{name}s".replace("statuss", "status")),
            (f"{name}.storage.replication.factor", "1"),
        )
    }
    assert keys == ALL_WORKERS | topics | {"group.id": "connect-cluster"}
    assert distributed_config(keys).warnings == ()


@pytest.mark.parametrize("name", ["file-source", "file-sink", "console-source", "console-sink"])
def test_connectors_are_valid(name: str) -> None:
    async def run_check(request: CheckRequest) -> CheckReport:
        raise AssertionError("a connector of files has no code for the validation")

    keys = properties(name)
    assert keys["name"] == f"local-{name}"
    assert keys.get("topic", keys.get("topics")) == "connect-test"
    validator = ConfigValidator(
        PluginTable([scan_installed()]), distributed_config(properties("distributed")), run_check
    )
    assert asyncio.run(validator.validate(keys)).error_count == 0
