"""The validation of configurations, with plugins of the test. The golden test compares the answers with Kafka's."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import pytest

from kcli.config.definition import ConfigDef, ConfigError, ConfigKey, ConfigType, NonEmpty, TopicPattern
from kcli.connect.config.checks import CheckReport, CheckRequest, needs_check
from kcli.connect.config.infos import ConfigInfo, ConfigInfos
from kcli.connect.config.key_checks import NAMES_MAX
from kcli.connect.config.plugin import UNDEFINED_VERSION, Plugin, PluginType
from kcli.connect.config.plugin_scan import Scan
from kcli.connect.config.plugin_table import PluginTable
from kcli.connect.config.validator import ConfigValidator
from kcli.connect.config.worker import WorkerConfig, check_converters, distributed_config, standalone_config
from kcli.connect.errors import BadRequest, InvalidVariable, NotFound
from kcli.connect.model import Config
from kcli.connect.rest import entities
from kcli.connectors.interface import SinkConnector, SourceConnector
from kcli.connectors.records import SourceRecord
from kcli.connectors.transformation import Predicate, Transformation
from kcli.formats.connect.converter import Converter, HeaderConverter
from kcli.formats.connect.errors import ConnectException
from rigs.connect_checks import check

STRING, PASSWORD = ConfigType.STRING, ConfigType.PASSWORD


class Source(SourceConnector):
    config_def = ConfigDef((ConfigKey("table", STRING, None, NonEmpty(), required=True, group="Tables"),))


class Picky(SourceConnector):
    """Has code for every question."""

    config_def = ConfigDef((ConfigKey("table", STRING, ""), ConfigKey("secret", PASSWORD, None)))

    def validate(self, config: Mapping[str, str]) -> Mapping[str, Sequence[str]]:
        if config.get("table") == "boom":
            raise ValueError("boom")
        return {"table": ["no such table"], "name": ["bad name"], "elsewhere": ["missing"]}

    def exactly_once_support(self, config: Mapping[str, str]) -> bool | None:
        match config.get("table"):
            case "raises":
                raise ValueError(" no database ")
            case "unknown":
                return None
        return True

    def can_define_transaction_boundaries(self, config: Mapping[str, str]) -> bool:
        return config.get("table") == "bounded"


class Sink(SinkConnector):
    config_def = ConfigDef(())


class Text(Converter):
    config_def = ConfigDef((ConfigKey("size", ConfigType.INT, "1", group="Sizes"),))


class Headers(HeaderConverter):
    config_def = ConfigDef(())


class Undeclared(Converter):
    """Has no table of keys."""


class Route(Transformation[SourceRecord]):
    config_def = ConfigDef(
        (
            ConfigKey("to", STRING, None, required=True),
            ConfigKey("negate", STRING, "never used"),
        )
    )


class Topic(Predicate[SourceRecord]):
    config_def = ConfigDef((ConfigKey("pattern", STRING, None, required=True),))


class _LateKeys:
    """Makes the keys of a connector at each use, and remembers the threads that want them."""

    threads: ClassVar[set[int]] = set()

    def __get__(self, instance: object, owner: type) -> ConfigDef:
        self.threads.add(threading.get_ident())
        return ConfigDef(())


class Late(Sink):
    config_def = _LateKeys()


def plugin(kind: type, type: PluginType, name: str | None = None, version: str = "1.0") -> Plugin:
    return Plugin(name or f"t.{kind.__name__}", f"{__name__}:{kind.__name__}", type, version, ())


PLUGINS = PluginTable(
    [
        Scan(
            [
                plugin(Source, PluginType.SOURCE),
                plugin(Picky, PluginType.SOURCE),
                plugin(Sink, PluginType.SINK),
                plugin(Text, PluginType.CONVERTER),
                plugin(Undeclared, PluginType.CONVERTER),
                plugin(Headers, PluginType.HEADER_CONVERTER),
                plugin(Route, PluginType.TRANSFORMATION, "t.Route$Key"),
                plugin(Topic, PluginType.PREDICATE),
            ],
            (),
        )
    ]
)
KEYS = {
    "bootstrap.servers": "a:9092",
    "key.converter": "Text",
    "value.converter": "t.Text",
    "header.converter": "Headers",
}
GROUP = distributed_config(
    KEYS
    | {
        "group.id": "connect-w",
        "config.storage.topic": "c",
        "offset.storage.topic": "o",
        "status.storage.topic": "s",
    }
)
ALONE = standalone_config(KEYS | {"offset.storage.file.filename": "f"})


class Checks:
    """Runs checks in this process, and remembers them."""

    def __init__(self) -> None:
        self.requests: list[CheckRequest] = []

    async def __call__(self, request: CheckRequest) -> CheckReport:
        self.requests.append(request)
        try:
            return check(request)
        except ValueError as error:
            raise ConnectException(f"the check failed: {error}") from error


def validated(config: Config, worker: WorkerConfig = GROUP, checks: Checks | None = None) -> ConfigInfos:
    validator = ConfigValidator(PLUGINS, worker, checks or Checks())
    return asyncio.run(validator.validate({"name": "c", **config}))


def errors(infos: ConfigInfos) -> dict[str, list[str]]:
    return {row.value.name: list(row.value.errors) for row in infos.configs if row.value.errors}


def row(infos: ConfigInfos, name: str) -> ConfigInfo:
    [found] = [row for row in infos.configs if row.value.name == name]
    return found


def test_a_valid_configuration_runs_no_code_of_the_connector() -> None:
    checks = Checks()
    infos = validated({"connector.class": "Source", "table": "orders"}, checks=checks)
    assert (infos.name, infos.error_count, checks.requests) == ("Source", 0, [])
    assert infos.groups[-1] == "Tables"
    assert row(infos, "table").value.value == "orders"


def test_defaults_that_depend_on_the_worker() -> None:
    infos = validated({"connector.class": "Source", "table": "orders"})
    converter, version = row(infos, "key.converter"), row(infos, "key.converter.plugin.version")
    assert converter.definition is not None
    assert (converter.definition.default_value, converter.value.value) == ("t.Text", "t.Text")
    assert converter.value.recommended_values == ["t.Text", "t.Undeclared"]
    assert (version.value.value, version.value.recommended_values, version.value.visible) == (
        "1.0",
        ["1.0"],
        True,
    )
    assert row(infos, "connector.plugin.version").value.value == "1.0"


def test_the_connector_adds_errors_of_its_own() -> None:
    checks = Checks()
    infos = validated({"connector.class": "Picky", "secret": "x", "table": None}, checks=checks)
    assert errors(infos) == {"table": ["no such table"], "name": ["bad name"], "elsewhere": ["missing"]}
    assert infos.error_count == 3
    assert row(infos, "elsewhere").definition is None
    assert row(infos, "secret").value.value == "[hidden]"
    [request] = checks.requests
    assert request.config == {"name": "c", "connector.class": "Picky", "secret": "x"}
    assert needs_check(request)


def test_a_check_that_fails_is_the_error_of_the_request() -> None:
    with pytest.raises(ConnectException, match="the check failed: boom"):
        validated({"connector.class": "Picky", "table": "boom"})


@pytest.mark.parametrize(
    ("table", "error"),
    [
        ("yes", None),
        (
            "unknown",
            "The connector does not implement the API required for preflight validation of exactly-once",
        ),
        ("raises", "An unexpected error occurred during validation: no database"),
    ],
)
def test_a_source_that_must_be_exactly_once(table: str, error: str | None) -> None:
    config = {"connector.class": "Picky", "table": table, "exactly.once.support": "REQUIRED"}
    disabled, *others = errors(validated(config))["exactly.once.support"]
    assert disabled == "This worker does not have exactly-once source support enabled."
    assert [text[: len(error or "")] for text in others] == ([] if error is None else [error])
    assert GROUP.group is not None
    enabled = replace(
        GROUP, group=distributed_config({**GROUP.texts} | {"exactly.once.source.support": "enabled"}).group
    )
    assert len(errors(validated(config, enabled)).get("exactly.once.support", [])) == len(others)
    # A worker alone has no exactly once, and Kafka does not check it there.
    assert "exactly.once.support" not in errors(validated(config, ALONE))


@pytest.mark.parametrize(("table", "count"), [("bounded", 0), ("x", 1)])
def test_a_source_that_ends_transactions_itself(table: str, count: int) -> None:
    infos = validated({"connector.class": "Picky", "table": table, "transaction.boundary": "connector"})
    assert len(errors(infos).get("transaction.boundary", [])) == count


def test_a_sink_must_not_use_the_group_of_the_workers() -> None:
    sink = {"connector.class": "Sink", "topics": "t", "name": "w"}
    text = "Consumer group for sink connector named w conflicts with Connect worker group connect-w"
    assert errors(validated(sink)) == {"name": [text]}
    assert errors(validated(sink, ALONE)) == {}
    assert errors(validated({**sink, "consumer.override.group.id": "mine"})) == {}


def test_a_null_value_is_an_error_unless_the_connector_knows_the_key() -> None:
    text = "Null value can not be supplied as the configuration value."
    infos = validated({"connector.class": "Sink", "topics": "t", "unknown": None, "tasks.max": None})
    assert errors(infos) == {
        "tasks.max": ["Invalid value null for configuration tasks.max: Value must be non-null", text],
        "unknown": [text],
    }
    assert infos.configs[0] == row(infos, "unknown")


def test_transformations_and_predicates_have_keys_of_their_own() -> None:
    infos = validated(
        {
            "connector.class": "Sink",
            "topics": "t",
            "transforms": "a,b,c,d",
            "transforms.a.type": "t.Route$Key",
            "transforms.a.negate": "true",
            "transforms.b.type": "t.Route",
            "transforms.c.type": "Topic",
            "transforms.d.type": "t.Route$Key",
            "transforms.d.plugin.version": "[2,)",
            "predicates": "p",
            "predicates.p.type": "Topic",
            "predicates.p.pattern": "x",
        }
    )
    negated = (
        "Config 'transforms.a.negate' was provided but there is no config 'transforms.a.predicate' defining a "
        "predicate to be negated."
    )
    mismatch = (
        "Error getting config definition from Transformation: Plugin t.Route$Key not found that matches the version "
        "range [2,), available versions: [1.0]"
    )
    assert errors(infos) == {
        "transforms.a.type": [negated],
        "transforms.a.to": ['Missing required configuration "transforms.a.to" which has no default value.'],
        "transforms.b.type": ["This class is abstract and cannot be created. Did you mean t.Route$Key?"],
        "transforms.c.type": ["Class class t.Topic does not implement the Transformation interface"],
        "transforms.d.type": ["Invalid value t.Route$Key for configuration transforms.d.type: " + mismatch],
    }
    assert infos.groups[-5:] == [
        "Transforms: a",
        "Transforms: b",
        "Transforms: c",
        "Transforms: d",
        "Predicates: p",
    ]


def test_keys_of_converters() -> None:
    infos = validated(
        {
            "connector.class": "Source",
            "table": "t",
            "key.converter": "Text",
            "key.converter.size": "x",
            "value.converter": "Text",
            "value.converter.plugin.version": "2.0",
            "header.converter": "Text",
        }
    )
    mismatch = "Plugin t.Text not found that matches the version range [2.0,2.0], available versions: [1.0]"
    assert errors(infos) == {
        "key.converter.size": ["Invalid value x for configuration size: Not a number of type INT"],
        "value.converter": [mismatch],
        "value.converter.plugin.version": [mismatch],
        "header.converter": ["Class class t.Text does not implement the HeaderConverter interface"],
    }
    assert infos.groups[-1] == "Sizes"
    undeclared = validated({"connector.class": "Source", "table": "t", "key.converter": "Undeclared"})
    assert errors(undeclared)["key.converter"][0].startswith("Failed to load ConfigDef from key converter: ")


def test_overrides_of_clients() -> None:
    worker = distributed_config({**GROUP.texts} | {"connector.client.config.override.policy": "Principal"})
    keys = {
        "connector.class": "Sink",
        "topics": "t",
        "consumer.override.sasl.jaas.config": "secret",
        "consumer.override.max.poll.records": "x",
        "producer.override.acks": "1",
        "admin.override.foo": "1",
    }
    infos = validated(keys, worker)
    text = "The 'Principal' policy does not allow '{}' to be overridden in the connector configuration."
    assert errors(infos) == {
        "consumer.override.max.poll.records": [
            "Invalid value x for configuration max.poll.records: Not a number of type INT",
            text.format("max.poll.records"),
        ]
    }
    assert row(infos, "consumer.override.sasl.jaas.config").value.value == "[hidden]"
    # A sink has a producer and an admin client only for dead letters.
    with_dead_letters = errors(validated({**keys, "errors.deadletterqueue.topic.name": "d"}, worker))
    assert with_dead_letters["producer.override.acks"] == [text.format("acks")]
    assert with_dead_letters["admin.override.foo"] == [text.format("foo")]


@pytest.mark.parametrize(
    ("keys", "clients"),
    [
        ({}, ["producer"]),
        ({"topic.creation.groups": "g"}, ["producer", "admin"]),
        ({"offsets.storage.topic": "o"}, ["producer", "consumer", "admin"]),
    ],
)
def test_the_clients_of_a_source(keys: Config, clients: list[str]) -> None:
    overrides = {f"{client}.override.client.id": "i" for client in ("producer", "consumer", "admin")}
    infos = validated({"connector.class": "Source", "table": "t", **keys, **overrides})
    names = [row.value.name for row in infos.configs if row.value.name.endswith(".client.id")]
    assert names == [f"{client}.override.client.id" for client in clients]


def test_a_connector_in_another_version() -> None:
    infos = validated({"connector.class": "Source", "connector.plugin.version": "2.0", "unknown": None})
    text = "Plugin t.Source not found that matches the version range [2.0,2.0], available versions: [1.0]"
    assert errors(infos) == {
        "unknown": ["Null value can not be supplied as the configuration value."],
        "connector.class": [text],
        "connector.plugin.version": [text],
    }
    version = row(infos, "connector.plugin.version")
    assert version.definition is not None
    assert (version.definition.default_value, version.value.recommended_values) == ("1.0", ["1.0"])
    converter, converter_version = row(infos, "key.converter"), row(infos, "key.converter.plugin.version")
    assert (converter.value.value, converter.value.recommended_values) == (None, [])
    assert not converter_version.value.visible


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "Connector config {name=c} contains no connector type"),
        (
            {"connector.class": None},
            "Connector config {connector.class=null, name=c} contains no connector type",
        ),
        (
            {"connector.class": "Nope"},
            "Failed to find any class that implements Connector and which name matches N",
        ),
        (
            {"connector.class": "Text"},
            "Failed to find any class that implements Connector and which name matches T",
        ),
        ({"connector.class": "Source", "connector.plugin.version": "[1"}, "Unbounded range: [1"),
    ],
)
def test_a_configuration_without_a_connector(config: Config, message: str) -> None:
    with pytest.raises(BadRequest) as refused:
        validated(config)
    assert str(refused.value).startswith(message)


def test_variables_are_resolved_before_the_validation() -> None:
    """The answer has the variables again, because their values may be secrets."""

    def resolve(config: Config) -> Config:
        return {key: text and text.replace("${x:y}", "s3cret") for key, text in config.items()}

    requests: list[CheckRequest] = []

    async def run_check(request: CheckRequest) -> CheckReport:
        requests.append(request)
        return CheckReport({"table": ["no host s3cret"], "name": ["s3cret is refused"]})

    validator = ConfigValidator(PLUGINS, GROUP, run_check, resolve)
    config = {
        "name": "c", "connector.class": "Source", "table": "a-${x:y}", "tasks.max": "${x:y}",
        "exactly.once.support": "required",
    }  # fmt: skip
    infos = asyncio.run(validator.validate(config))
    assert requests[-1].config["table"] == "a-s3cret"
    table, tasks = row(infos, "table").value, row(infos, "tasks.max").value
    assert (table.value, table.errors) == ("a-${x:y}", ["no host ${x:y}"])
    assert tasks.errors[0] == "Invalid value ${x:y} for configuration tasks.max: Not a number of type INT"
    assert "s3cret" not in repr(infos)
    with pytest.raises(BadRequest, match=r"Connector config \{table=\$\{x:y\}\} contains no connector type"):
        asyncio.run(validator.validate({"table": "${x:y}"}))


def test_a_variable_without_a_value_is_an_error_of_the_request() -> None:
    def resolve(config: Config) -> Config:
        raise ConfigError("Could not read properties from file /nope")

    validator = ConfigValidator(PLUGINS, GROUP, Checks(), resolve)
    with pytest.raises(InvalidVariable) as refused:
        asyncio.run(validator.validate({"name": "c", "connector.class": "Source"}))
    assert (str(refused.value), refused.value.status) == ("Could not read properties from file /nope", 500)


@pytest.mark.parametrize(
    ("keys", "key", "errors_of_key"),
    [
        (
            {"transforms": ",".join(map(str, range(NAMES_MAX + 1)))},
            "transforms",
            [f"Invalid value for configuration transforms: more than {NAMES_MAX} names"],
        ),
        (
            {"topics": "", "topics.regex": "a" * (TopicPattern.LENGTH_MAX + 1)},
            "topics.regex",
            ["Invalid value for configuration topics.regex: a pattern may have up to 32768 characters"],
        ),
        # The pattern takes exponential time, so it is not tried. With RE2, no pattern does.
        (
            {"topics": "", "topics.regex": "(?=a)(a+)+b", "errors.deadletterqueue.topic.name": "a" * 200},
            "topics.regex",
            [],
        ),
        (
            {"topics": "", "topics.regex": "(a+)+b", "errors.deadletterqueue.topic.name": "a" * 200},
            "topics.regex",
            [],
        ),
    ],
)
def test_configurations_that_would_hold_the_worker(keys: Config, key: str, errors_of_key: list[str]) -> None:
    infos = validated({"connector.class": "Sink", "topics": "t", **keys})
    assert errors(infos).get(key, []) == errors_of_key
    assert len(infos.configs) < 10 * NAMES_MAX


def test_answers_about_plugins() -> None:
    validator = ConfigValidator(PLUGINS, GROUP, Checks())
    assert [item.class_name for item in validator.plugins(connectors_only=True)] == [
        "t.Sink",
        "t.Picky",
        "t.Source",
    ]
    assert len(validator.plugins(connectors_only=False)) == 8
    late = PluginTable([Scan([plugin(Late, PluginType.SINK), plugin(Text, PluginType.CONVERTER)], ())])
    asyncio.run(ConfigValidator(late, GROUP, Checks()).plugin_config("Late", None))
    asyncio.run(ConfigValidator(late, GROUP, Checks()).validate({"connector.class": "Late", "name": "c"}))
    assert _LateKeys.threads and threading.get_ident() not in _LateKeys.threads, "others would wait"
    keys = asyncio.run(validator.plugin_config("Source", None))
    assert [key.name for key in keys[:2]] == ["table", "name"]
    assert [key.name for key in asyncio.run(validator.plugin_config("Text", "1.0"))] == ["size"]


@pytest.mark.parametrize(
    ("name", "version", "error", "message"),
    [
        ("Nope", None, NotFound, "Unknown plugin Nope."),
        (
            "Source",
            "2",
            BadRequest,
            "Plugin t.Source not found that matches the version range [2,2], available",
        ),
        ("Source", "(1", BadRequest, "Unbounded range: (1"),
        (
            "FileConfigProvider",
            None,
            BadRequest,
            "Invalid plugin class FileConfigProvider. Valid types are sink, s",
        ),
    ],
)
def test_questions_about_unknown_plugins(
    name: str, version: str | None, error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as refused:
        asyncio.run(ConfigValidator(PLUGINS, GROUP, Checks()).plugin_config(name, version))
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({}, None),
        (
            {"key.converter": "Nope"},
            "Invalid value Nope for configuration key.converter: Class Nope could not be found.",
        ),
        (
            {"value.converter": "Sink"},
            "Class class t.Sink does not implement the Converter interface",
        ),
        (
            {"key.converter.plugin.version": "2"},
            "Plugin t.Text not found that matches the version range [2,2], avai",
        ),
        ({"header.converter.plugin.version": "[2"}, "Unbounded range: [2"),
    ],
)
def test_the_converters_of_a_worker_must_be_plugins(keys: dict[str, str], message: str | None) -> None:
    worker = standalone_config({**ALONE.texts, **keys})
    if message is None:
        check_converters(worker, PLUGINS)
        return
    with pytest.raises(ConfigError) as refused:
        check_converters(worker, PLUGINS)
    assert str(refused.value).startswith(message)


def test_a_plugin_without_a_version_shows_none() -> None:
    assert entities.plugin(PLUGINS.find("Text")) == {"class": "t.Text", "type": "converter", "version": "1.0"}
    undefined = plugin(Text, PluginType.CONVERTER, version=UNDEFINED_VERSION)
    assert entities.plugin(undefined) == {"class": "t.Text", "type": "converter"}
