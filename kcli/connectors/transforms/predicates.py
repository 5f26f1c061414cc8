"""The predicates HasHeaderKey, RecordIsTombstone and TopicNameMatches (KIP-585)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kcli import KAFKA_VERSION
from kcli.config.definition import (
    ConfigDef,
    ConfigKey,
    ConfigType,
    ConfigValue,
    Importance,
    NonEmpty,
    TopicPattern,
)
from kcli.connectors.records import R
from kcli.connectors.transformation import Predicate
from kcli.connectors.transforms.shared import PACKAGE
from kcli.model.java_regex import compile_java

_PACKAGE = f"{PACKAGE}predicates."
_NAME = "name"
_PATTERN = "pattern"


@dataclass(frozen=True, slots=True)
class _NonEmptyRegex:
    """A regular expression that is not empty."""

    def check(self, key: str, value: ConfigValue) -> None:
        NonEmpty().check(key, value)
        TopicPattern().check(key, value)

    def __str__(self) -> str:
        return f"{NonEmpty()},{TopicPattern()}"


class HasHeaderKey(Predicate[R]):
    """True for records that have a header with a certain name."""

    version = KAFKA_VERSION
    java_classes = (f"{_PACKAGE}HasHeaderKey",)
    config_def = ConfigDef(
        (
            ConfigKey(
                _NAME,
                ConfigType.STRING,
                None,
                NonEmpty(),
                Importance.MEDIUM,
                "The name of the header.",
                required=True,
            ),
        )
    )

    def configure(self, config: Mapping[str, str]) -> None:
        self._name = self.config_def.parse(config)[_NAME]

    def test(self, record: R) -> bool:
        return any(header.key == self._name for header in record.headers)


class RecordIsTombstone(Predicate[R]):
    """True for records whose value is null."""

    version = KAFKA_VERSION
    java_classes = (f"{_PACKAGE}RecordIsTombstone",)
    config_def = ConfigDef(())

    def test(self, record: R) -> bool:
        return record.value is None


class TopicNameMatches(Predicate[R]):
    """True for records whose topic has a name that a regular expression matches as a whole."""

    version = KAFKA_VERSION
    java_classes = (f"{_PACKAGE}TopicNameMatches",)
    config_def = ConfigDef(
        (
            ConfigKey(
                _PATTERN,
                ConfigType.STRING,
                None,
                _NonEmptyRegex(),
                Importance.MEDIUM,
                "A Java regular expression for the whole name of the topic.",
                required=True,
            ),
        )
    )

    def configure(self, config: Mapping[str, str]) -> None:
        pattern = self.config_def.parse(config)[_PATTERN]
        assert isinstance(pattern, str), "the key is a text"
        self._pattern = compile_java(pattern, ascii_only=True)

    def test(self, record: R) -> bool:
        return self._pattern.fullmatch(record.topic) is not None
