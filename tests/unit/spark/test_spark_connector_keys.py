"""The configurations of the Spark connectors, as a worker validates them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kcli.config.definition import ConfigType
from kcli.connect.config.checks import CheckReport, CheckRequest
from kcli.connect.config.plugin import PluginType
from kcli.connect.config.plugin_scan import scan_installed
from kcli.connect.config.plugin_table import PluginTable
from kcli.connect.config.validator import ConfigValidator
from kcli.connect.config.worker import distributed_config
from kcli.connectors.interface import Connector
from kcli.spark.command_line import SubmitError
from kcli.spark.connectors import checks
from kcli.spark.connectors.classes import SparkExport, SparkIngest, SparkJob, SparkTransform
from kcli.spark.connectors.keys import job_keys
from rigs.connect_checks import check

WORKER = {
    "bootstrap.servers": "localhost:9092",
    "group.id": "g",
    "config.storage.topic": "c",
    "offset.storage.topic": "o",
    "status.storage.topic": "s",
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
}
EXPORT = {
    "connector.class": "kcli.SparkExport",
    "topics": "t",
    "export.path": "out",
    "export.checkpoint": "c",
}
TRANSFORM = {
    "connector.class": "SparkTransform",
    "topics": "orders",
    "transform.sql": "SELECT * FROM orders",
    "transform.target.topic": "big",
    "transform.checkpoint": "c",
}


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests need no Java."""
    monkeypatch.setattr(checks, "check_java", lambda: None)
    monkeypatch.setattr(checks, "spark_home", lambda: Path("/"))


async def check_here(request: CheckRequest) -> CheckReport:
    return check(request)


def errors(config: dict[str, str]) -> dict[str, list[str]]:
    """The errors of a configuration by key."""
    validator = ConfigValidator(PluginTable([scan_installed()]), distributed_config(WORKER), check_here)
    infos = asyncio.run(validator.validate({"name": "n", **config}))
    return {info.value.name: list(info.value.errors) for info in infos.configs if info.value.errors}


def test_the_connectors_are_plugins_under_short_names() -> None:
    plugins = PluginTable([scan_installed()])
    for name, kind in (("Ingest", "source"), ("Job", "source"), ("Export", "sink"), ("Transform", "sink")):
        for written in (f"kcli.Spark{name}", f"Spark{name}"):
            assert plugins.find(written, PluginType.SOURCE, PluginType.SINK).kind == kind


def test_valid_configurations_have_no_errors(tmp_path: Path) -> None:
    (tmp_path / "program.py").touch()
    (tmp_path / "lines.txt").touch()
    ingest = {"ingest.topic": "t", "ingest.path": str(tmp_path / "lines.txt"), "ingest.checkpoint": "c"}
    for config in (
        {
            **EXPORT,
            "spark.master": "spark://host:7077",
            "spark.executor.memory": "4g",
            "export.format": "delta",
        },
        {**EXPORT, "topics": "", "topics.regex": "t.*", "consumer.override.sasl.mechanism": "PLAIN"},
        TRANSFORM,
        {"connector.class": "SparkIngest", **ingest, "ingest.mode": "available-now"},
        {
            "connector.class": "SparkJob",
            "job.file": str(tmp_path / "program.py"),
            "job.arguments": "--a 'b c'",
        },
    ):
        assert errors(config) == {}


@pytest.mark.parametrize(
    ("changes", "key", "text"),
    [
        ({"export.pathh": "x"}, "export.pathh", "unrecognized arguments: '--pathh'. Did you mean --path?"),
        ({"export.format": "xml"}, "export.format", "invalid choice: 'xml'"),
        ({"export.topic": "x"}, "export.topic", "use the key topics or topics.regex"),
        ({"export.dry.run": "true"}, "export.dry.run", "validate the connector instead"),
        ({"export.help": "x"}, "export.help", "docs/connect-spark.md"),
        ({"export.bootstrap.server": "x"}, "export.bootstrap.server", "client settings of the worker"),
        ({"export.mode": "batch"}, "export.mode", "use continuous or available-now"),
        ({"export.save.mode": "append"}, "export.save.mode", "--save-mode"),
        ({"spark.master": "yarrn"}, "spark.master", "expected local"),
        ({"spark.submit.deployMode": "cluster"}, "spark.submit.deployMode", "expected client"),
        ({"value.converter.schemas.enable": "true"}, "value.converter.schemas.enable", "has no effect"),
        ({"transforms": ""}, "transforms", "has no effect"),
        (
            {"consumer.override.fetch.min.bytes": "1"},
            "consumer.override.fetch.min.bytes",
            "use a key of Spark",
        ),
    ],
)
def test_an_option_that_the_job_refuses_is_an_error_of_its_key(
    changes: dict[str, str], key: str, text: str
) -> None:
    (failure,) = errors({**EXPORT, **changes})[key]
    assert text in failure


def test_a_stream_needs_a_checkpoint() -> None:
    config = {key: text for key, text in EXPORT.items() if key != "export.checkpoint"}
    (failure,) = errors(config)["export.mode"]
    assert "--mode continuous needs --checkpoint" in failure


def test_the_topics_of_a_transform_are_those_of_its_query() -> None:
    assert errors({**TRANSFORM, "topics": "orders,users"}) == {
        "topics": ["the query does not read the topic users, but orders"]
    }
    (failure,) = errors({**TRANSFORM, "topics": "", "topics.regex": "o.*"})["topics.regex"]
    assert "expected topics" in failure
    (failure,) = errors({**TRANSFORM, "transform.sql": "SELECT 1; SELECT 2"})["transform.sql"]
    assert "expected one query" in failure


def test_a_missing_file_and_missing_programs_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Path:
        raise SubmitError("Spark needs Java, which is not installed: install Java 17")

    job = {"connector.class": "SparkJob", "job.file": "/no/such.py"}
    assert errors(job) == {"job.file": ["there is no file /no/such.py on the machine of this worker"]}
    (failure,) = errors({**job, "job.file": __file__, "job.arguments": "'"})["job.arguments"]
    assert "No closing quotation" in failure
    monkeypatch.setattr(checks, "check_java", missing)
    (failure,) = errors(EXPORT)["connector.class"]
    assert failure.startswith("Spark needs Java")


def test_a_form_has_the_options_of_the_job() -> None:
    keys = job_keys("ingest")
    assert keys["ingest.url"].type is ConfigType.PASSWORD
    assert keys["ingest.mode"].default == "continuous"
    assert keys["ingest.read.option"].type is ConfigType.PASSWORD
    assert keys["ingest.topic"].required
    assert "export.topic" not in job_keys("export")


@pytest.mark.parametrize("kind", [SparkExport, SparkIngest, SparkJob, SparkTransform])
def test_a_connector_has_one_task_and_keeps_the_offsets_of_its_checkpoint(kind: type[Connector]) -> None:
    connector = kind()
    connector.start({"a": "b"})
    assert connector.task_configs(5) == [{"a": "b"}]
    with pytest.raises(NotImplementedError, match="checkpoint"):
        connector.alter_offsets({}, {})  # type: ignore[attr-defined]  # both kinds of connectors have it


def test_ingest_is_exactly_once_unless_it_writes_without_transactions() -> None:
    assert SparkIngest().exactly_once_support({}) is True
    assert SparkIngest().exactly_once_support({"ingest.at.least.once": "true"}) is False
    assert SparkJob().exactly_once_support({}) is None
