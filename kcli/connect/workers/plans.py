"""Makes the specification of a task from the configurations of the worker and of its connector."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from kcli.config.values import Values
from kcli.connect.config.clients import consumer_group_id, with_prefix
from kcli.connect.config.connector_keys import DLQ_TOPIC, parsed_connector
from kcli.connect.config.plugin import Plugin, Plugins, PluginType
from kcli.connect.config.topic_creation import has_groups, topic_creation_groups
from kcli.connect.config.worker import WorkerConfig
from kcli.connect.model import CONNECTOR, Config, ConnectorType, TargetState, TaskId
from kcli.connect.stores.store import TaskProducer
from kcli.connect.tasks.spec import (
    ConnectorSpec,
    ErrorSpec,
    PluginSpec,
    SinkSpec,
    SourceSpec,
    TaskSpec,
    TopicGroup,
    TransformSpec,
)
from kcli.formats.connect.errors import ConnectException
from kcli.model.java_text import parse_boolean, split_list, trim

Resolve = Callable[[Config], Config]
"""Replaces the placeholders of config providers in a configuration."""

Texts = Mapping[str, str]
"""A configuration without placeholders, and without keys that are null."""


@dataclass(frozen=True, slots=True)
class Plans:
    """The specifications of what runs in processes."""

    worker: WorkerConfig
    plugins: Plugins
    resolve: Resolve

    def resolved(self, config: Config) -> dict[str, str]:
        """Returns a configuration without placeholders, and without keys that are null."""
        return {key: value for key, value in self.resolve(config).items() if value is not None}

    def connector_plugin(self, config: Config) -> Plugin:
        """The plugin of connector.class. Raises ConnectException."""
        name = config.get("connector.class")
        version = config.get("connector.plugin.version")
        if name is None:
            raise ConnectException(
                'Missing required configuration "connector.class" which has no default value.'
            )
        return self.plugins.find(trim(name), PluginType.SOURCE, PluginType.SINK, version=version)

    def values(self, name: str, config: Texts) -> Values:
        """The values of the keys that every connector has. Raises ConnectException or ConfigError."""
        return parsed_connector(name, config, self.connector_plugin(config), self.plugins)

    def type_of(self, config: Config) -> ConnectorType:
        kind = self.connector_plugin(config).kind
        return ConnectorType.SOURCE if kind is PluginType.SOURCE else ConnectorType.SINK

    def connector(self, name: str, config: Config) -> ConnectorSpec:
        plugin = self.connector_plugin(config)
        spec = _spec(plugin, self.resolved(config))
        return ConnectorSpec(name, spec, self.worker.task_memory_max_bytes)

    def task(
        self, id: TaskId, connector_config: Config, task_config: Config, target: TargetState
    ) -> TaskSpec:
        """Makes the specification of a task. Raises ConnectException or ConfigError."""
        config = self.resolved(connector_config)
        plugin = self.connector_plugin(config)
        values = self.values(id.connector, config)
        errors = _errors(values, plugin.kind)
        source, sink = None, None
        if plugin.kind is PluginType.SOURCE:
            source = self._source(id, config, values)
        else:
            sink = self._sink(id, config, values)
        return TaskSpec(
            id.connector,
            id.task,
            _spec(plugin, self.resolved(task_config)),
            self._converter("key.converter", config, PluginType.CONVERTER),
            self._converter("value.converter", config, PluginType.CONVERTER),
            self._converter("header.converter", config, PluginType.HEADER_CONVERTER),
            self._transforms(config),
            errors,
            source,
            sink,
            is_paused=target is not TargetState.STARTED,
            offset_flush_interval_ms=self.worker.offset_flush_interval_ms,
            offset_flush_timeout_ms=self.worker.offset_flush_timeout_ms,
            memory_bytes_max=self.worker.task_memory_max_bytes,
        )

    def _converter(self, key: str, config: Texts, kind: PluginType) -> PluginSpec:
        """The converter of the connector, or that of the worker. The keys of one do not apply to the other."""
        if key in config:
            name, own = config[key], with_prefix(config, f"{key}.")
        else:
            name, own = self.worker.converter_class(key), self.worker.converter_config(key)
        return self._plugin(name, own, kind)

    def _plugin(self, name: str, config: Texts, *kinds: PluginType) -> PluginSpec:
        plugin = self.plugins.find(trim(name), *kinds, version=config.get("plugin.version"))
        return _spec(plugin, config)

    def _transforms(self, config: Texts) -> Sequence[TransformSpec]:
        return [self._transform(name, config) for name in split_list(config.get("transforms", ""))]

    def _transform(self, name: str, config: Texts) -> TransformSpec:
        own = with_prefix(config, f"transforms.{name}.")
        predicate_name = own.pop("predicate", "")
        negate = parse_boolean(own.pop("negate", "false"))
        predicate = None
        if predicate_name:
            keys = with_prefix(config, f"predicates.{predicate_name}.")
            predicate = self._plugin(keys.get("type", ""), keys, PluginType.PREDICATE)
        transformation = self._plugin(own.get("type", ""), own, PluginType.TRANSFORMATION)
        return TransformSpec(transformation, predicate, negate)

    def task_producer(self, id: TaskId) -> TaskProducer | None:
        """The producer of a source task with exactly once, and None without exactly once."""
        group = self.worker.group
        if not self.worker.is_exactly_once or group is None:
            return None
        return TaskProducer(transactional_id(group.group_id, id), f"connector-producer-{id}")

    def _source(self, id: TaskId, config: Texts, values: Values) -> SourceSpec:
        producer = self.worker.clients.producer(f"connector-producer-{id}", config)
        interval_ms = values.optional_integer("transaction.boundary.interval.ms")
        boundary, topic, group = None, "", self.worker.group
        if self.worker.is_exactly_once and group is not None:
            boundary = values.text("transaction.boundary").lower()
            topic = values.optional_text("offsets.storage.topic") or group.offset_topic.name
            producer |= {
                "enable.idempotence": "true",
                "transactional.id": transactional_id(group.group_id, id),
            }
        return SourceSpec(
            producer,
            self._topic_groups(config),
            boundary,
            self.worker.offset_flush_interval_ms if interval_ms is None else interval_ms,
            topic,
        )

    def _topic_groups(self, config: Texts) -> Sequence[TopicGroup] | None:
        """The rules for new topics. Raises ConfigError. None if brokers create topics."""
        if not self.worker.topic_creation_enable or not has_groups(config):
            return None
        return [
            TopicGroup(
                group.name,
                group.include,
                group.exclude,
                group.partitions,
                group.replication_factor,
                group.configs,
            )
            for group in topic_creation_groups(config)
        ]

    def _sink(self, id: TaskId, config: Texts, values: Values) -> SinkSpec:
        clients = self.worker.clients
        return SinkSpec(
            clients.consumer(f"connector-consumer-{id}", consumer_group_id(id.connector), config),
            values.names("topics"),
            values.text("topics.regex"),
            clients.producer(f"connector-dlq-producer-{id}", config) if values.text(DLQ_TOPIC) else {},
        )

    def admin(self, id: TaskId, config: Texts) -> dict[str, str]:
        """The properties of the admin client of a task, or of a connector (task -1)."""
        name = f"connector-adminclient-{id.connector}"
        return self.worker.clients.admin(name if id.task == CONNECTOR else f"{name}-{id.task}", config)

    def sink_group(self, connector: str, config: Texts) -> str:
        """The consumer group of a sink connector."""
        return self.worker.clients.consumer("", consumer_group_id(connector), config)["group.id"]


def _spec(plugin: Plugin, config: Texts) -> PluginSpec:
    return PluginSpec(plugin.class_name, plugin.python_name, plugin.path, config)


def _errors(values: Values, kind: PluginType) -> ErrorSpec:
    errors = ErrorSpec(
        values.text("errors.tolerance"),
        values.integer("errors.retry.timeout"),
        values.integer("errors.retry.delay.max.ms"),
        values.boolean("errors.log.enable"),
        values.boolean("errors.log.include.messages"),
    )
    if kind is PluginType.SOURCE:
        return errors
    letters = "errors.deadletterqueue."
    return replace(
        errors,
        dead_letter_topic=values.text(DLQ_TOPIC),
        dead_letter_replication_factor=values.integer(f"{letters}topic.replication.factor"),
        dead_letter_headers=values.boolean(f"{letters}context.headers.enable"),
    )


def transactional_id(group_id: str, id: TaskId) -> str:
    """The transactional id of a source task (KIP-618). A leader fences it before the next generation of tasks."""
    return f"{group_id}-{id}"
