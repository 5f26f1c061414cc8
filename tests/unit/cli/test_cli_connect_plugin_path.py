from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from kcli.cli.main import run

MODULE = """
from kcli.config.definition import ConfigDef
from kcli.connectors.interface import SinkConnector, SourceConnector


class OrdersSourceConnector(SourceConnector):
    config_def = ConfigDef(())
    version = "1.5"


class Orders(SinkConnector):
    config_def = ConfigDef(())
"""
HEADER = "pluginName\tfirstAlias\tsecondAlias\tpluginVersion\tpluginType\tisLoadable\thasManifest\tpluginLocation\n"


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a location that can be loaded and one that cannot."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    directory = tmp_path / "plugins"
    directory.mkdir()
    (directory / f"orders_{tmp_path.name}.py".replace("-", "_")).write_text(MODULE)
    (directory / "broken_plugin_of_a_test.py").write_text("import no_such_module_at_all\n")
    return directory


def test_plugins_are_listed_with_totals(plugins: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["connect-plugin-path", "list", "--plugin-path", str(plugins)]) == 0
    module = next(plugins.glob("orders_*.py"))
    name, broken = module.stem, plugins / "broken_plugin_of_a_test.py"
    assert capsys.readouterr().out == (
        f"{HEADER}"
        f"broken_plugin_of_a_test\tN/A\tN/A\tundefined\tN/A\tfalse\tfalse\t{broken}\n"
        f"{name}.OrdersSourceConnector\tOrdersSourceConnector\tOrdersSource\t1.5\tsource\ttrue\tfalse\t{module}\n"
        f"{name}.Orders\tOrders\tN/A\tundefined\tsink\ttrue\tfalse\t{module}\n"
        "\nTotal plugins:      \t3\nLoadable plugins:   \t2\nCompatible plugins: \t0\n"
    )


def test_rows_have_a_json_form(plugins: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module = next(plugins.glob("orders_*.py"))
    assert run(["connect-plugin-path", "list", "--plugin-location", str(module), "--output", "json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["plugin_type"], row["is_loadable"]) for row in rows] == [("source", True), ("sink", True)]


def test_the_properties_of_a_worker_name_the_directories(
    plugins: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    worker = tmp_path / "worker.properties"
    worker.write_text(f"plugin.path={plugins},{plugins}\n")
    assert run(["connect-plugin-path", "list", "--worker-config", str(worker)]) == 0
    assert "Total plugins:      \t3\n" in capsys.readouterr().out


def test_there_are_no_manifests_to_write(plugins: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["connect-plugin-path", "sync-manifests", "--plugin-path", str(plugins), "--dry-run"]) == 0
    printed = capsys.readouterr()
    assert printed.out == (
        "Dry run started: No changes will be committed.\nScanning for plugins...\nNo changes required.\n"
    )
    assert "There are no manifests to write" in printed.err
    assert sorted(path.suffix for path in plugins.iterdir() if path.is_file()) == [".py", ".py"]


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        ([], 1, "Must specify at least one --plugin-location, --plugin-path, or --worker-config"),
        (["--plugin-path", "/no/such/directory"], 3, "/no/such/directory does not exist"),
        (["--plugin-location", "/no/such/plugin.py"], 3, "/no/such/plugin.py does not exist"),
        (
            ["--worker-config", "/no/such.properties"],
            2,
            "Unable to read worker config at /no/such.properties",
        ),
    ],
)
def test_exit_codes_of_errors(
    arguments: list[str], code: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["connect-plugin-path", "list", *arguments]) == code
    assert text in capsys.readouterr().err
