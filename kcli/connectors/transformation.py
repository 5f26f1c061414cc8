"""The interface of single message transforms and predicates (KIP-66, KIP-585)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Generic

from kcli.config.definition import ConfigDef
from kcli.connectors.records import R


class Transformation(Generic[R]):
    """Changes one record at a time. Java's names of the class are in `java_classes`."""

    version: ClassVar[str | None] = None
    java_classes: ClassVar[tuple[str, ...]] = ()
    config_def: ClassVar[ConfigDef]

    def configure(self, config: Mapping[str, str]) -> None:
        """Takes the configuration, without the prefix `transforms.NAME.`. Raises ConfigError."""

    def apply(self, record: R) -> R | None:
        """Returns the changed record, or None to drop it. Does not change `record` itself."""
        raise NotImplementedError

    def close(self) -> None:
        """Frees what `configure` has opened."""


class Predicate(Generic[R]):
    """Decides whether a transformation is applied to a record."""

    version: ClassVar[str | None] = None
    java_classes: ClassVar[tuple[str, ...]] = ()
    config_def: ClassVar[ConfigDef]

    def configure(self, config: Mapping[str, str]) -> None:
        """Takes the configuration, without the prefix `predicates.NAME.`. Raises ConfigError."""

    def test(self, record: R) -> bool:
        raise NotImplementedError

    def close(self) -> None:
        """Frees what `configure` has opened."""
