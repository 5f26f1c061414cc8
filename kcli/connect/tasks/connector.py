"""The process of a connector: it makes the Connector object, and answers the calls of the worker."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from queue import SimpleQueue
from typing import cast

from kcli.connect.decisions.offset_records import offset_key, read_offset
from kcli.connect.tasks.channel import Channel, mapping
from kcli.connect.tasks.logs import set_levels
from kcli.connect.tasks.spec import ConnectorSpec
from kcli.connect.tasks.traces import java_class, java_trace, message
from kcli.connectors.interface import Config, Connector, Offset, Partition, SinkConnector, SourceConnector
from kcli.formats.connect.errors import ConnectException
from kcli.model.topic_partition import TopicPartition

LOG = logging.getLogger("org.apache.kafka.connect.runtime.WorkerConnector")


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """What a connector may ask the worker for. Implements `ConnectorContext`."""

    connector: str
    channel: Channel

    def request_task_reconfiguration(self) -> None:
        self.channel.note("reconfigure")

    def raise_error(self, error: Exception) -> None:
        LOG.error("WorkerConnector{id=%s} Connector raised an error", self.connector, exc_info=error)
        self.channel.note("failed", {"trace": java_trace(error)})

    def offset(self, partition: Partition) -> Offset | None:
        values = self.channel.ask("get_offsets", [offset_key(self.connector, partition).decode()])
        assert isinstance(values, list)
        return read_offset(None if values[0] is None else values[0].encode())


def serve(spec: ConnectorSpec, channel: Channel) -> None:
    """Answers calls until the worker asks to stop. One thread runs all calls, in their order."""
    calls: SimpleQueue[tuple[str, object]] = SimpleQueue()
    channel.listen(lambda method, body: calls.put((method, body)))
    connector = None
    while True:
        method, body = calls.get()
        if method == "stop":
            break
        if method == "levels":
            set_levels(cast("dict[str, int]", body))
            continue
        try:
            if connector is None:
                connector = _made(spec, channel)
            # A value that no message can hold fails the call too.
            channel.note("result", {"value": _call(connector, spec, method, body)})
        except BaseException as error:  # a connector may raise SystemExit, which is no order of the worker
            failure = {"class": java_class(error), "message": message(error), "trace": java_trace(error)}
            channel.note("result", {"error": failure})
    try:
        if connector is not None:
            connector.stop()
    except BaseException:
        LOG.error("WorkerConnector{id=%s} Error while shutting down connector", spec.connector, exc_info=True)


def _made(spec: ConnectorSpec, channel: Channel) -> Connector:
    connector = cast("type[Connector]", spec.plugin.load())()
    connector.context = WorkerContext(spec.connector, channel)
    return connector


def _call(connector: Connector, spec: ConnectorSpec, method: str, body: object) -> object:
    config = dict(spec.plugin.config)
    match method:
        case "start":
            connector.start(config)
            return None
        case "task_configs":
            (max_tasks,) = cast("list[int]", body)
            return [_texts(task) for task in connector.task_configs(max_tasks)]
        case "alter_offsets":
            return _alter_offsets(connector, config, body)
        case "validate":
            return {str(key): list(map(str, errors)) for key, errors in connector.validate(config).items()}
        case "exactly_once":
            assert isinstance(connector, SourceConnector)
            return [
                connector.exactly_once_support(config),
                connector.can_define_transaction_boundaries(config),
            ]
    raise ConnectException(f"no such call: {method}")


def _texts(config: Mapping[str, object]) -> Config:
    """The configuration of a task. Other values than texts would make a record that no worker can read."""
    for key, value in config.items():
        if not isinstance(key, str) or not (value is None or isinstance(value, str)):
            raise ConnectException(
                f"task_configs returned a {type(value).__name__} for {key!r}: expected a str"
            )
    return cast("Config", dict(config))


class UnsupportedOperation(ConnectException):
    """A connector does not permit changes of its offsets."""

    java_class = "java.lang.UnsupportedOperationException"


def _alter_offsets(connector: Connector, config: Mapping[str, str], body: object) -> bool:
    """`body` has pairs: a source partition and its offset, or a topic, a partition and an offset."""
    items = cast("list[list[object]]", body)
    try:
        if isinstance(connector, SinkConnector):
            places = {
                TopicPartition(str(topic), cast("int", partition)): cast("int | None", offset)
                for topic, partition, offset in items
            }
            return connector.alter_offsets(config, places)
        assert isinstance(connector, SourceConnector)
        # A user may send null as a partition. The connector decides about it, as in Java.
        pairs = [
            (None if partition is None else mapping(partition), cast("Offset | None", offset))
            for partition, offset in items
        ]
        return connector.alter_offsets(config, pairs)
    except NotImplementedError as error:
        raise UnsupportedOperation(str(error)) from error
