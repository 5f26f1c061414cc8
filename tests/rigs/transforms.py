"""Small records for tests of transformations, and the plugins of Kafka's class names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import pytest

from kcli.config.definition import ConfigError
from kcli.connectors.builtin import BUILT_IN, PREDICATE, TRANSFORM
from kcli.connectors.records import ConnectRecord, Header, SinkRecord
from kcli.connectors.transformation import Predicate, Transformation
from kcli.connectors.transforms.shared import PACKAGE
from kcli.formats.connect.errors import java_chain
from kcli.formats.connect.schema import Schema

Plugin = Transformation[Any] | Predicate[Any]


def _class(name: str) -> type[Plugin]:
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)


CLASSES: Mapping[str, type[Plugin]] = {
    java_class: kind
    for group in (TRANSFORM, PREDICATE)
    for kind in map(_class, BUILT_IN[group])
    for java_class in kind.java_classes
}
"""The transformations and predicates by the names of their Java classes."""


def sink(
    value: object = None,
    schema: Schema | None = None,
    *,
    key: object = None,
    key_schema: Schema | None = None,
    topic: str = "t",
    timestamp: int | None = 1_700_000_000_123,
    headers: Sequence[Header] = (),
) -> SinkRecord:
    return SinkRecord(topic, 3, 42, value, schema, key, key_schema, timestamp, headers=headers)


def transformation(name: str, /, **config: str) -> Transformation[ConnectRecord]:
    """The configured transformation of a class, such as `Cast$Value`, or with its package if it is not one of Kafka.

    An underscore in a key stands for a dot.
    """
    plugin = CLASSES[name if "." in name else PACKAGE + name]()
    assert isinstance(plugin, Transformation)
    plugin.configure({key.replace("_", "."): value for key, value in config.items()})
    return plugin


def refusal(name: str, record: ConnectRecord, /, **config: str) -> list[tuple[str, str]]:
    """The Java class and message of the error of `apply`, and of its causes. The package of Connect is left out."""
    applied = transformation(name, **config)
    with pytest.raises(Exception) as caught:
        applied.apply(record)
    return [(java.rpartition(".")[2], message) for java, message in java_chain(caught.value)]


def config_refusal(name: str, /, **config: str) -> str:
    with pytest.raises(ConfigError) as caught:
        transformation(name, **config)
    return str(caught.value)
