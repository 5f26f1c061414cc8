"""The result of a validation: `ConfigInfos` of the REST API. All values are texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KeyInfo:
    """The definition of a key. `default_value` is None if there is no default."""

    name: str
    type: str
    required: bool
    default_value: str | None
    importance: str
    documentation: str
    group: str | None
    width: str
    display_name: str | None
    dependents: Sequence[str]
    order: int


@dataclass(frozen=True, slots=True)
class ValueInfo:
    name: str
    value: str | None
    recommended_values: Sequence[str]
    errors: Sequence[str]
    visible: bool


@dataclass(frozen=True, slots=True)
class ConfigInfo:
    definition: KeyInfo | None
    value: ValueInfo


@dataclass(frozen=True, slots=True)
class ConfigInfos:
    name: str
    error_count: int
    groups: Sequence[str]
    configs: Sequence[ConfigInfo]
