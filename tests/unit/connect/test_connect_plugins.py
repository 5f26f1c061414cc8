from __future__ import annotations

import itertools
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcli import KAFKA_VERSION
from kcli.connect.config.foreign import REPLACEMENTS, replacement
from kcli.connect.config.plugin import CLASSPATH, CONNECTORS, Plugin, PluginType, VersionNotFound, load_class
from kcli.connect.config.plugin_scan import Scan, locations, scan_installed, scan_location
from kcli.connect.config.plugin_table import PluginTable, load_plugins
from kcli.connect.config.versions import InvalidVersion
from kcli.formats.connect.errors import ConnectException

FILE_SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SOURCE = """
from kcli.config.definition import ConfigDef
from kcli.connectors.interface import SourceConnector


class {name}(SourceConnector):
    config_def = ConfigDef(())
    {body}
"""
_numbers = itertools.count()


@pytest.fixture
def module() -> Iterator[str]:
    """The name of a module that no other test uses, because a module stays imported."""
    name = f"gold_{next(_numbers)}"
    paths = list(sys.path)
    yield name
    sys.path[:] = paths
    for loaded in [other for other in sys.modules if other.partition(".")[0] == name]:
        del sys.modules[loaded]


def plugin(class_name: str, kind: PluginType, version: str = "1.0") -> Plugin:
    return Plugin(class_name, class_name.replace("$", ""), kind, version, ())


def table(*plugins: Plugin) -> PluginTable:
    return PluginTable([Scan(plugins, ())])


def write_entry_points(directory: Path, name: str, text: str) -> None:
    info = directory / f"{name}-1.5.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n")
    (info / "entry_points.txt").write_text(text)


def test_built_in_plugins_replace_those_of_kafka() -> None:
    plugins = PluginTable([scan_installed()])
    found = plugins.find("FileStreamSource", *CONNECTORS)
    assert found == plugins.find(FILE_SOURCE) == plugins.find("FileStreamSourceConnector")
    assert (found.class_name, found.kind, found.version) == (FILE_SOURCE, PluginType.SOURCE, KAFKA_VERSION)
    assert found.load() is plugins.find("kcli.connectors.file.connectors.FileStreamSourceConnector").load()
    assert plugins.not_loaded == []


def test_aliases_are_those_of_java() -> None:
    plugins = table(
        plugin("a.JsonConverter", PluginType.CONVERTER),
        plugin("a.JsonConverter", PluginType.HEADER_CONVERTER),
        plugin("a.SimpleHeaderConverter", PluginType.HEADER_CONVERTER),
        plugin("a.Cast$Key", PluginType.TRANSFORMATION),
        plugin("a.Hoist$Key", PluginType.TRANSFORMATION),
        plugin("a.Twice", PluginType.SINK),
        plugin("b.TwiceConnector", PluginType.SOURCE),
    )
    aliases = {(item.class_name, item.kind): list(item.aliases) for item in plugins.all()}
    assert aliases == {
        ("a.JsonConverter", PluginType.CONVERTER): ["JsonConverter", "Json"],
        ("a.JsonConverter", PluginType.HEADER_CONVERTER): ["JsonConverter"],
        ("a.SimpleHeaderConverter", PluginType.HEADER_CONVERTER): ["SimpleHeaderConverter", "Simple"],
        # An alias that two classes share is dropped.
        ("a.Cast$Key", PluginType.TRANSFORMATION): [],
        ("a.Hoist$Key", PluginType.TRANSFORMATION): [],
        ("a.Twice", PluginType.SINK): [],
        ("b.TwiceConnector", PluginType.SOURCE): ["TwiceConnector"],
    }
    assert plugins.class_named("Json") == "a.JsonConverter"
    assert plugins.class_named("a.Cast") == "a.Cast"
    assert plugins.class_named("Cast") is None


def test_plugins_are_listed_by_kind_and_name() -> None:
    names = [
        ("b", PluginType.SOURCE),
        ("a", PluginType.SOURCE),
        ("c", PluginType.SINK),
        ("d", PluginType.PREDICATE),
    ]
    plugins = table(*(plugin(name, kind) for name, kind in names))
    assert [item.class_name for item in plugins.all()] == ["c", "a", "b", "d"]
    assert [item.class_name for item in plugins.all(PluginType.PREDICATE, PluginType.SINK)] == ["c", "d"]


def test_an_unknown_connector_lists_all_and_near_ones_first() -> None:
    plugins = table(
        plugin("org.example.AlphaSinkConnector", PluginType.SINK), plugin("OrdersSource", PluginType.SOURCE)
    )
    alpha = (
        "PluginDesc{klass=class org.example.AlphaSinkConnector, name='org.example.AlphaSinkConnector', "
        "version='1.0', encodedVersion=1.0, type=sink, typeName='sink', location='classpath'}"
    )
    orders = alpha.replace("org.example.AlphaSinkConnector", "OrdersSource").replace("sink", "source")
    start = "Failed to find any class that implements Connector and which name matches "
    with pytest.raises(ConnectException) as unknown:
        plugins.find("Nope", *CONNECTORS)
    assert str(unknown.value) == f"{start}Nope, available connectors are: {alpha}, {orders}"
    with pytest.raises(ConnectException) as mistyped:
        plugins.find("OrderSource", *CONNECTORS)
    assert str(mistyped.value) == f"{start}OrderSource, available connectors are: {orders}, {alpha}"


def test_a_known_java_connector_is_refused_with_advice() -> None:
    with pytest.raises(ConnectException) as refused:
        table().find("io.confluent.connect.gcs.GcsSinkConnector", *CONNECTORS)
    assert "docs/connect-objects.md" in str(refused.value)
    debezium = replacement("io.debezium.connector.mysql.MySqlConnector")
    assert debezium is not None and "is a Java class" in debezium and "In its place" not in debezium
    assert replacement(FILE_SOURCE) is None


def test_no_advice_is_about_a_class_that_a_plugin_replaces() -> None:
    prefixes = tuple(prefix for prefix, advice in REPLACEMENTS.items() if advice is not None)
    assert [found for found in scan_installed().plugins if found.class_name.startswith(prefixes)] == []


def test_versions_of_a_plugin() -> None:
    plugins = table(plugin("a.Source", PluginType.SOURCE, "4.1.0"))
    for accepted in (None, "latest", "4.1.0", "[4.0,5.0)"):
        assert plugins.find("a.Source", version=accepted).version == "4.1.0"
    with pytest.raises(VersionNotFound) as missing:
        plugins.find("Source", version="9.9")
    assert missing.value.available == ["4.1.0"]
    assert str(missing.value) == (
        "Plugin a.Source not found that matches the version range [9.9,9.9], available versions: [4.1.0]"
    )
    with pytest.raises(InvalidVersion):
        plugins.find("Source", version="[1")


def test_a_file_is_a_location(tmp_path: Path, module: str) -> None:
    body = "java_class = 'com.example.Orders'\n    version = '2.0'"
    (tmp_path / f"{module}.py").write_text(SOURCE.format(name="Orders", body=body))
    (tmp_path / "notes.txt").write_text("")
    (tmp_path / "__pycache__").mkdir()
    [location] = locations(tmp_path)
    [found] = scan_location(location).plugins
    assert found == Plugin(
        class_name="com.example.Orders",
        python_name=f"{module}:Orders",
        kind=PluginType.SOURCE,
        version="2.0",
        aliases=(),
        path=str(tmp_path),
        location=str(location),
        has_entry_point=False,
    )
    assert found.load().__name__ == "Orders"
    assert PluginTable([Scan([found], ())]).find(f"{module}.Orders").aliases == ("Orders",)


def test_a_package_and_a_directory_are_locations(tmp_path: Path, module: str) -> None:
    package = tmp_path / "a" / module
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(SOURCE.format(name="Orders", body=""))
    in_directory = scan_location(tmp_path / "a").plugins
    assert [(item.class_name, item.version, item.path) for item in in_directory] == [
        (f"{module}.Orders", "undefined", str(tmp_path / "a"))
    ]
    [itself] = scan_location(package).plugins
    assert (itself.class_name, itself.path) == (f"{module}.Orders", str(tmp_path / "a"))


def test_entry_points_of_a_location(tmp_path: Path, module: str) -> None:
    (tmp_path / f"{module}.py").write_text(
        SOURCE.format(name="Orders", body="") + SOURCE.format(name="Unlisted", body="")
    )
    write_entry_points(tmp_path, "orders", f"[kcli.connect.source]\norders = {module}:Orders\n")
    assert locations(tmp_path) == [tmp_path]
    [found] = scan_location(tmp_path).plugins
    assert (found.class_name, found.version, found.has_entry_point) == (f"{module}.Orders", "1.5", True)


def test_installed_packages_have_plugins(
    tmp_path: Path, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"{module}.py").write_text(
        SOURCE.format(name="Orders", body="java_class = 'com.example.Orders'")
    )
    write_entry_points(tmp_path, "orders", f"[kcli.connect.source]\norders = {module}:Orders\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = PluginTable([scan_installed()]).find("Orders")
    assert (found.class_name, found.version, found.path) == ("com.example.Orders", "1.5", None)
    assert (found.location, found.has_entry_point) == (CLASSPATH, True)


def test_an_archive_is_a_location(tmp_path: Path, module: str) -> None:
    wheel = tmp_path / "orders.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{module}/__init__.py", SOURCE.format(name="Orders", body=""))
        archive.writestr(
            "orders-1.5.dist-info/METADATA", "Metadata-Version: 2.1\nName: orders\nVersion: 1.5\n"
        )
    [found] = scan_location(wheel).plugins
    assert found.class_name == f"{module}.Orders"
    assert load_class(found.python_name, found.path).__name__ == "Orders"


def test_a_plugin_that_cannot_be_loaded_is_reported(tmp_path: Path, module: str) -> None:
    (tmp_path / f"{module}.py").write_text("import a_module_that_does_not_exist\n")
    [broken] = scan_location(tmp_path / f"{module}.py").not_loaded
    assert (broken.name, broken.kind) == (module, None)
    assert broken.reason == "ModuleNotFoundError: No module named 'a_module_that_does_not_exist'"
    other = tmp_path / "other"
    write_entry_points(other, "orders", "[kcli.connect.sink]\nx = kcli.connectors.records:Header\n")
    [wrong] = scan_location(other).not_loaded
    assert wrong.kind is PluginType.SINK
    assert wrong.reason == "TypeError: kcli.connectors.records:Header is no subclass of SinkConnector"


def test_a_module_of_another_place_is_not_mistaken_for_a_plugin(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text(SOURCE.format(name="Orders", body=""))
    scan = scan_location(tmp_path / "json.py")
    assert scan.plugins == []
    assert scan.not_loaded[0].reason.startswith("ImportError: the module json is already loaded from ")


def test_plugins_that_cannot_be_used_are_logged(
    tmp_path: Path, module: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a.jar").write_text("")
    (tmp_path / f"{module}.py").write_text(
        SOURCE.format(name="Twin", body=f"java_class = '{FILE_SOURCE}'") + "1/0\n"
    )
    plugins = load_plugins([str(tmp_path / "nope"), str(tmp_path / "a.jar"), str(tmp_path)])
    assert plugins.find(FILE_SOURCE).python_name.startswith("kcli.")
    assert [record.getMessage().replace(str(tmp_path), "DIR") for record in caplog.records] == [
        "Could not get listing for plugin path: DIR/nope. Ignoring. DIR/nope",
        "DIR/a.jar is a Java archive. Its plugins cannot run in this worker.",
        f"Failed to load the plugin {module} in DIR/{module}.py: ZeroDivisionError: division by zero",
    ]


def test_the_first_of_two_plugins_of_one_name_counts(
    tmp_path: Path, module: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / f"{module}.py").write_text(SOURCE.format(name="Twin", body=f"java_class = '{FILE_SOURCE}'"))
    plugins = load_plugins([str(tmp_path)])
    assert plugins.find("FileStreamSource").python_name.startswith("kcli.")
    assert f"{FILE_SOURCE} in {tmp_path}/{module}.py is ignored: classpath has it too" in caplog.text
