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
from kcli.spark.connectors import checks
from rigs.connect_checks import check

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


async def check_here(request: CheckRequest) -> CheckReport:
    return check(request)


@pytest.mark.parametrize("name", ["file-source", "file-sink", "console-source", "console-sink"])
def test_connectors_of_files_have_the_topic_of_kafka(name: str) -> None:
    keys = properties(name)
    assert keys.get("topic", keys.get("topics")) == "connect-test"


@pytest.mark.parametrize("path", sorted(CONFIG.glob("connect-*-s*.properties")), ids=lambda path: path.stem)
def test_connectors_are_valid(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The source of PostgreSQL connects to its server, and no server runs here.
    monkeypatch.setattr("kcli.connectors.cdc.source._connection_errors", lambda settings: {})
    name = path.stem.removeprefix("connect-")
    keys = properties(name)
    if "jdbc" in name:  # the check opens the database
        keys["connection.url"] = f"jdbc:sqlite:{tmp_path}/test.db"
    assert keys["name"] == f"local-{name}"
    if "spark" in name:  # the check looks for Java
        monkeypatch.setattr(checks, "check_java", lambda: None)
        monkeypatch.setattr(checks, "spark_home", lambda: Path("/"))
        keys = {key: text.replace("/tmp/connect-test-files/*.json", __file__) for key, text in keys.items()}
    validator = ConfigValidator(
        PluginTable([scan_installed()]), distributed_config(properties("distributed")), check_here
    )
    infos = asyncio.run(validator.validate(keys))
    assert infos.error_count == 0
    known = {info.definition.name for info in infos.configs if info.definition is not None}
    assert keys.keys() - known == set()
