"""A worker that is put together."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from kcli.connect.assembly import StandaloneWorker
from kcli.connect.config.worker import standalone_config
from kcli.connect.errors import BadRequest, InvalidVariable


def worker(directory: Path) -> StandaloneWorker:
    config = standalone_config(
        {
            "bootstrap.servers": "127.0.0.1:1",
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "offset.storage.file.filename": str(directory / "offsets"),
            "config.providers": "file",
            "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
        }
    )
    return StandaloneWorker(config, "cluster", "http://127.0.0.1:8083")


def test_the_variables_of_a_connector_are_replaced_by_the_providers_of_its_worker(tmp_path: Path) -> None:
    (tmp_path / "s.properties").write_text("class=com.x.FromAFile")
    validator = worker(tmp_path).herder.validator
    with pytest.raises(BadRequest, match=r"com\.x\.FromAFile"):
        asyncio.run(validator.validate({"connector.class": f"${{file:{tmp_path}/s.properties:class}}"}))


def test_a_file_of_variables_that_is_missing_is_an_error_of_the_connector(tmp_path: Path) -> None:
    validator = worker(tmp_path).herder.validator
    with pytest.raises(InvalidVariable, match=f"Could not read properties from file {tmp_path}/no"):
        asyncio.run(validator.validate({"connector.class": f"${{file:{tmp_path}/no:class}}"}))


def test_a_worker_starts_without_numpy() -> None:
    """numpy takes a fifth of the time of a start."""
    code = "import sys, kcli.connect.program, kcli.connect.tasks.nursery; print('numpy' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert run.stdout == "False\n"
