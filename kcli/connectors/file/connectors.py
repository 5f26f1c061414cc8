"""FileStreamSource and FileStreamSink: lines of a file or of the standard input become records, and the reverse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kcli.config.definition import ConfigDef, ConfigKey, ConfigType, Importance, NonEmpty
from kcli.connectors.file.tasks import (
    BATCH_SIZE,
    FILE,
    FILENAME,
    POSITION,
    TOPIC,
    FileStreamSinkTask,
    FileStreamSourceTask,
)
from kcli.connectors.interface import Config, Offset, Partition, SinkConnector, SourceConnector
from kcli.formats.connect.errors import ConnectException
from kcli.model.topic_partition import TopicPartition


class FileStreamSourceConnector(SourceConnector):
    """Reads lines. One task reads one file, or the standard input of the worker if there is no file."""

    java_class = "org.apache.kafka.connect.file.FileStreamSourceConnector"
    task_class = FileStreamSourceTask
    config_def = ConfigDef(
        (
            ConfigKey(
                FILE,
                ConfigType.STRING,
                None,
                importance=Importance.HIGH,
                documentation="Path of the file. Without it, the connector reads the standard input.",
            ),
            ConfigKey(
                TOPIC,
                ConfigType.STRING,
                None,
                NonEmpty(),
                Importance.HIGH,
                "Topic to which the lines are written.",
                required=True,
            ),
            ConfigKey(
                BATCH_SIZE,
                ConfigType.INT,
                "2000",
                importance=Importance.LOW,
                documentation="Most lines that one poll returns.",
            ),
        )
    )

    def task_configs(self, max_tasks: int) -> Sequence[Config]:
        return [self.config]

    def exactly_once_support(self, config: Config) -> bool | None:
        """The standard input cannot be read again, so only a file supports it."""
        return bool(self.config_def.parse(config)[FILE])

    def alter_offsets(
        self, config: Config, offsets: Sequence[tuple[Partition | None, Offset | None]]
    ) -> bool:
        if not self.config_def.parse(config)[FILE]:
            raise ConnectException(
                f"Offsets cannot be modified if the '{FILE}' configuration is unspecified. This is because stdin is "
                "used for input and offsets are not tracked."
            )
        for partition, offset in offsets:
            # Any partition may be reset, so that a user can remove offsets that make no sense.
            if offset is not None:
                _check_offset(partition, offset)
        return True


class FileStreamSinkConnector(SinkConnector):
    """Writes lines. Every task appends to the same file, or writes to the standard output if there is no file."""

    java_class = "org.apache.kafka.connect.file.FileStreamSinkConnector"
    task_class = FileStreamSinkTask
    config_def = ConfigDef(
        (
            ConfigKey(
                FILE,
                ConfigType.STRING,
                None,
                importance=Importance.HIGH,
                documentation="Path of the file. Without it, the connector writes to the standard output.",
            ),
        )
    )

    def alter_offsets(self, config: Config, offsets: Mapping[TopicPartition, int | None]) -> bool:
        """The offsets of a file sink are only in Kafka."""
        return True


def _check_offset(partition: Partition | None, offset: Offset) -> None:
    if POSITION not in offset:
        raise ConnectException(f"Offset objects should either be null or contain the key '{POSITION}'")
    position = offset[POSITION]
    if not isinstance(position, int) or isinstance(position, bool):
        raise ConnectException(
            f"The value for the '{POSITION}' key in the offset is expected to be a Long value"
        )
    if position < 0:
        raise ConnectException(
            f"The value for the '{POSITION}' key in the offset should be a non-negative value"
        )
    if partition is None:
        raise ConnectException("Partition objects cannot be null")
    if FILENAME not in partition:
        raise ConnectException(f"Partition objects should contain the key '{FILENAME}'")
