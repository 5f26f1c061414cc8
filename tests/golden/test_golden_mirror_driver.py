"""The driver of MirrorMaker 4.1, as it was recorded: exit codes, errors, log lines, stored configurations."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from kcli.cli.running import run_tool
from kcli.cli.script_form import SCRIPT_VARIABLE
from kcli.cli.syntax.registry import TOOLS
from kcli.config.properties import parse
from kcli.mirror.config.grammar import Flow, mirror_config
from rigs.golden3 import FOLDER, steps
from rigs.loops import until
from rigs.mirror_driver import DriverHere, keep_rules_of_collections, two_brokers

RECORDING = FOLDER / "mirror" / "mirror.jsonl"
STEPS: dict[str, dict[str, Any]] = (
    {step["id"]: step for step in steps(RECORDING)} if RECORDING.exists() else {}
)
WRONG = [step for name, step in STEPS.items() if name.startswith("wrong-options/")]
DRIVER = "(org.apache.kafka.connect.mirror.MirrorMaker)"
HERDER = "(org.apache.kafka.connect.mirror.MirrorHerder)"
COMMAND_LINE, CONFIGURATION = 255, 2
REFUSED_CONNECTORS = ["wrong-options/012", "wrong-options/013", "wrong-options/014"]
"""Steps in which connectors are refused, and the driver continues."""

pytestmark = pytest.mark.skipif(not STEPS, reason="the recordings of MirrorMaker 4.1 are absent")


def ids(code: int) -> list[str]:
    return [step["id"] for step in WRONG if step["exit"] == code]


def filled(text: str, a: int = 1, b: int = 1, directory: Path | None = None) -> str:
    return text.replace("{APORT}", str(a)).replace("{BPORT}", str(b)).replace("{DIR}", str(directory))


def driver_lines(log: list[str]) -> list[str]:
    return [line.removesuffix(f" {DRIVER}") for line in log if line.endswith(DRIVER)]


@pytest.mark.parametrize("name", ids(COMMAND_LINE))
def test_a_wrong_command_line_ends_with_javas_text(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    step = STEPS[name]
    file = tmp_path / "mm2.properties"
    file.write_text(filled(step["config"] or ""))
    arguments = [filled(text, directory=tmp_path) for text in step["args"] if text != "-none"]
    if step["config"] is not None:
        arguments.insert(0, str(file))
    monkeypatch.setenv(SCRIPT_VARIABLE, "connect-mirror-maker.sh")
    assert run_tool(TOOLS["mirror-maker"], arguments) == COMMAND_LINE
    captured = capsys.readouterr()
    lines = (captured.out + captured.err).splitlines()
    usage, *errors = step["errors"]
    assert lines[0].startswith(usage)  # our own options follow
    assert set(errors) <= set(lines)


@pytest.mark.parametrize("name", ids(CONFIGURATION))
def test_a_wrong_configuration_ends_with_javas_text(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    step = STEPS[name]
    file = tmp_path / "mm2.properties"
    file.write_text(filled(step["config"]))
    clusters = [text for text in step.get("args", ()) if text != "--clusters"]
    keep_rules_of_collections(monkeypatch)

    async def story() -> int:
        return await DriverHere(file, caplog, clusters).code()

    assert asyncio.run(story()) == CONFIGURATION
    levels = [f"{one.levelname} {one.getMessage()}" for one in caplog.records if one.levelname != "WARNING"]
    *before, error = [line for line in levels if not line.startswith("INFO Kafka cluster")]
    *recorded, stopping = driver_lines(step["log"])
    assert before == recorded
    assert error.startswith(f"{stopping}: ")
    causes = [line.partition("Exception: ")[2] for line in step["log"] if line.startswith("| ")]
    assert any(cause and cause.rstrip(".") in error for cause in causes), error


@pytest.mark.parametrize("scenario", ["one-way", "both-ways"])
def test_the_start_and_the_stop_log_javas_lines(
    scenario: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    runs = [step for name, step in STEPS.items() if name.startswith(scenario) and step["action"] == "mm2"]
    start, stop = runs[0], runs[-1]
    keep_rules_of_collections(monkeypatch)

    async def story() -> int:
        async with two_brokers(tmp_path) as (a, b):
            file = tmp_path / "mm2.properties"
            file.write_text(filled(start["config"], a, b))
            driver = DriverHere(file, caplog)
            await driver.reaches("Kafka MirrorMaker started")
            return await driver.stop()

    assert asyncio.run(story()) == stop["exit"]
    recorded = driver_lines(stop["log"])
    lines = [f"{one.levelname} {one.getMessage()}" for one in caplog.records if one.name == DRIVER[1:-1]]
    assert lines == recorded


@pytest.mark.parametrize("name", REFUSED_CONNECTORS)
def test_a_refused_connector_is_reported_and_the_driver_continues(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    step = STEPS[name]
    recorded = {
        line.partition(" connector ")[0]
        for line in step["log"]
        if line.endswith(HERDER) and " connector " in line
    }
    keep_rules_of_collections(monkeypatch)

    def results() -> set[str]:
        lines = (f"{one.levelname} {one.getMessage()}" for one in caplog.records if one.name == HERDER[1:-1])
        return {line.partition(" connector ")[0] for line in lines if " connector " in line}

    async def story() -> int:
        async with two_brokers(tmp_path) as (a, b):
            file = tmp_path / "mm2.properties"
            file.write_text(filled(step["config"], a, b))
            driver = DriverHere(file, caplog)
            await until(lambda: len(results()) == len(recorded))
            return await driver.stop()

    assert asyncio.run(story()) == 143
    assert results() == recorded
    for line in step["log"]:
        if line.startswith("| Invalid value"):
            assert line.removeprefix("| ") in caplog.text


def test_the_configurations_of_connectors_are_the_stored_ones() -> None:
    stored = STEPS["one-way/043"]["outcome"]["last"]["mm2-configs.A.internal"]
    connectors = {
        entry["key"]: entry["value"]["properties"] for entry in stored if "properties" in entry["value"]
    }
    config = mirror_config(parse(filled(STEPS["one-way/034"]["config"])))
    for key, recorded in connectors.items():
        if key.startswith("connector-"):
            mine = config.connector(Flow("A", "B"), key.removeprefix("connector-"))
            assert mine == {name: re.sub(r"\{[AB]PORT\}", "1", text) for name, text in recorded.items()}
    assert sum(key.startswith("connector-") for key in connectors) == 3
