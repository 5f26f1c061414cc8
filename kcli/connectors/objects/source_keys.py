"""The keys of the source (io.confluent.connect.s3.source.S3SourceConnectorConfig, and some of our own)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kcli.config.definition import ConfigDef, ConfigKey, ConfigType, Importance, NonEmpty, OneOf, Range
from kcli.connectors.keys import KeyGroup, number, text
from kcli.connectors.objects.formats import FormatSettings, format_named, format_of_object
from kcli.connectors.objects.names import Layout
from kcli.connectors.objects.store_keys import FORMAT, format_keys, format_settings, store_keys

GLOB, TOPIC = "kcli.objects.glob", "kcli.topic"
TASK_NUMBER, TASK_COUNT = "kcli.task.number", "kcli.task.count"
"""Keys that only the configuration of a task has."""
FAIL, IGNORE = "fail", "ignore"
_STRING, _INT, _LONG = ConfigType.STRING, ConfigType.INT, ConfigType.LONG
_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW


def _reading_keys() -> list[ConfigKey]:
    group = KeyGroup("Objects")
    group.add(
        ConfigKey("topics.dir", _STRING, "topics", None, _HIGH,
                  "The directory whose objects are read, if there is no kcli.objects.glob."),
        "Topics dir",
    )  # fmt: skip
    group.add(
        ConfigKey(GLOB, _STRING, "", None, _HIGH,
                  "The objects to read, such as logs/**/*.json. ** stands for any directories."),
        "Pattern of names",
    )  # fmt: skip
    group.add(
        ConfigKey(TOPIC, _STRING, "", None, _HIGH,
                  "The topic of all records. Without it, the name of an object, such as orders+0+0000000042.avro, has"
                  " the topic and the partition."),
        "Topic",
    )  # fmt: skip
    group.add(
        ConfigKey("file.delim", _STRING, "+", NonEmpty(), _MEDIUM, "The text between topic, partition and offset."),
        "File delim",
    )  # fmt: skip
    group.add(
        ConfigKey("s3.poll.interval.ms", _LONG, "60000", Range(low=1), _MEDIUM, "The time between two looks for new"
                  " objects."),
        "Poll interval (ms)",
    )  # fmt: skip
    group.add(
        ConfigKey("record.batch.max.size", _INT, "200", Range(low=1), _MEDIUM, "The most records of one poll."),
        "Record batch max size",
    )  # fmt: skip
    group.add(
        ConfigKey("behavior.on.error", _STRING, FAIL, OneOf((FAIL, IGNORE)), _HIGH,
                  "Whether an object with invalid content fails the task, or is left out with an error in the log."),
        "Behavior on error",
    )  # fmt: skip
    return group.keys


SOURCE_KEYS = ConfigDef([*store_keys(), *format_keys(""), *_reading_keys()])


@dataclass(frozen=True, slots=True)
class SourceSettings:
    pattern: str
    topic: str
    layout: Layout
    formats: Mapping[str, FormatSettings]
    """The settings of each format."""
    format: str | None
    """None stands for the format that the extension of each object names."""
    poll_s: float
    batch_records: int
    ignores_errors: bool

    @classmethod
    def of(cls, config: Mapping[str, str]) -> SourceSettings:
        """Parses a configuration. Raises ConfigError."""
        values = SOURCE_KEYS.parse(config)
        topics_dir = text(values, "topics.dir").strip("/")
        kinds = ("json", "csv", "avro", "parquet", "bytes")
        return cls(
            pattern=text(values, GLOB) or (f"{topics_dir}/**" if topics_dir else "**"),
            topic=text(values, TOPIC),
            layout=Layout(topics_dir, "/", text(values, "file.delim"), 10),
            formats={kind: format_settings(values, kind) for kind in kinds},
            format=format_named(text(values, FORMAT)),
            poll_s=number(values, "s3.poll.interval.ms") / 1000,
            batch_records=number(values, "record.batch.max.size"),
            ignores_errors=values["behavior.on.error"] == IGNORE,
        )

    def format_of(self, name: str) -> FormatSettings | None:
        """None if the extension of an object names no format."""
        kind = self.format or format_of_object(name)
        return None if kind is None else self.formats[kind]
