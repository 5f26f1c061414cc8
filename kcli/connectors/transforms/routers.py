"""RegexRouter and TimestampRouter: change the topic of a record."""

from __future__ import annotations

from kcli.config.definition import ConfigDef, ConfigKey, ConfigType, Importance, TopicPattern
from kcli.connectors.records import R
from kcli.connectors.transforms.shared import PACKAGE, KafkaTransformation, with_topic
from kcli.formats.connect.errors import DataException, JavaException
from kcli.model.java_dates.formats import SimpleDateFormat
from kcli.model.java_regex import compile_java
from kcli.model.java_regex.replacement import Replacement

_REGEX = "regex"
_REPLACEMENT = "replacement"
_TOPIC_FORMAT = "topic.format"
_TIMESTAMP_FORMAT = "timestamp.format"


class RegexRouter(KafkaTransformation[R]):
    """Renames a topic whose whole name matches a regular expression. The first match is then replaced."""

    java_classes = (f"{PACKAGE}RegexRouter",)
    config_def = ConfigDef(
        (
            ConfigKey(
                _REGEX,
                ConfigType.STRING,
                None,
                TopicPattern(),
                Importance.HIGH,
                "A Java regular expression for the whole name of a topic.",
                required=True,
            ),
            ConfigKey(
                _REPLACEMENT,
                ConfigType.STRING,
                None,
                importance=Importance.HIGH,
                documentation="The new name. <code>$1</code> is the text of the first group.",
                required=True,
            ),
        )
    )

    def prepare(self) -> None:
        self._regex = compile_java(self.text(_REGEX), ascii_only=True)
        self._replacement = Replacement(self.text(_REPLACEMENT))

    def apply(self, record: R) -> R:
        if self._regex.fullmatch(record.topic) is None:
            return record
        try:
            return with_topic(record, self._replacement.first(self._regex, record.topic))
        except IndexError as error:
            raise JavaException("java.lang.IndexOutOfBoundsException", str(error)) from None
        except ValueError as error:
            raise JavaException("java.lang.IllegalArgumentException", str(error)) from None


class TimestampRouter(KafkaTransformation[R]):
    """Makes the name of the topic from the topic and the timestamp of the record, in UTC."""

    java_classes = (f"{PACKAGE}TimestampRouter",)
    config_def = ConfigDef(
        (
            ConfigKey(
                _TOPIC_FORMAT,
                ConfigType.STRING,
                "${topic}-${timestamp}",
                importance=Importance.HIGH,
                documentation="The new name, with <code>${topic}</code> for the topic and <code>${timestamp}</code> "
                "for the timestamp of the record.",
            ),
            ConfigKey(
                _TIMESTAMP_FORMAT,
                ConfigType.STRING,
                "yyyyMMdd",
                importance=Importance.HIGH,
                documentation="The format of the timestamp, as a pattern of <code>java.text.SimpleDateFormat</code>.",
            ),
        )
    )

    def prepare(self) -> None:
        self._format: SimpleDateFormat | None = None

    def apply(self, record: R) -> R:
        if record.timestamp is None:
            raise DataException(f"Timestamp missing on record: {record}")
        if self._format is None:
            self._format = self._made_format()
        topic = self.text(_TOPIC_FORMAT).replace("${topic}", record.topic)
        return with_topic(record, topic.replace("${timestamp}", self._format.format(record.timestamp)))

    def _made_format(self) -> SimpleDateFormat:
        # As in Java, only the first record shows that a pattern is invalid.
        try:
            return SimpleDateFormat(self.text(_TIMESTAMP_FORMAT))
        except ValueError as error:
            raise JavaException("java.lang.IllegalArgumentException", str(error)) from None
