"""Makes the converters and the transformations of a task from its specification."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

from kcli.connect.tasks.spec import PluginSpec, TaskSpec, TransformSpec
from kcli.connectors.records import ConnectRecord
from kcli.connectors.transformation import Predicate, Transformation
from kcli.formats.connect.converter import Converter, HeaderConverter

CONVERTER_TYPE = "converter.type"
"""The key that tells a converter what it is for (KIP-145)."""

R = TypeVar("R", bound=ConnectRecord)


@dataclass(frozen=True, slots=True)
class Step:
    """One transformation of the chain."""

    class_name: str
    transformation: Transformation[ConnectRecord]
    predicate: Predicate[ConnectRecord] | None
    negate: bool

    def apply(self, record: R) -> R | None:
        """Returns the changed record, or None if the transformation drops it."""
        if self.predicate is not None and self.predicate.test(record) == self.negate:
            return record
        return cast("R | None", self.transformation.apply(record))


@dataclass(frozen=True, slots=True)
class Plugins:
    """The converters and transformations of one task. The names are the classes that logs show."""

    key: Converter
    value: Converter
    header: HeaderConverter
    key_name: str
    value_name: str
    header_name: str
    steps: Sequence[Step]

    def close(self) -> None:
        for step in self.steps:
            step.transformation.close()
            if step.predicate is not None:
                step.predicate.close()
        for converter in (self.key, self.value, self.header):
            converter.close()


def make_plugins(spec: TaskSpec) -> Plugins:
    """Makes and configures the plugins. Raises ConnectException or ConfigError."""
    return Plugins(
        _converter(spec.key_converter, is_key=True),
        _converter(spec.value_converter, is_key=False),
        _header_converter(spec.header_converter),
        spec.key_converter.class_name,
        spec.value_converter.class_name,
        spec.header_converter.class_name,
        [_step(transform) for transform in spec.transforms],
    )


def _converter(spec: PluginSpec, *, is_key: bool) -> Converter:
    converter = cast("type[Converter]", spec.load())()
    kind = "key" if is_key else "value"
    converter.configure({**spec.config, CONVERTER_TYPE: kind}, is_key=is_key)
    return converter


def _header_converter(spec: PluginSpec) -> HeaderConverter:
    converter = cast("type[HeaderConverter]", spec.load())()
    converter.configure({**spec.config, CONVERTER_TYPE: "header"})
    return converter


def _step(spec: TransformSpec) -> Step:
    transformation = cast("type[Transformation[ConnectRecord]]", spec.transformation.load())()
    transformation.configure(dict(spec.transformation.config))
    predicate = None
    if spec.predicate is not None:
        predicate = cast("type[Predicate[ConnectRecord]]", spec.predicate.load())()
        predicate.configure(dict(spec.predicate.config))
    return Step(spec.transformation.class_name, transformation, predicate, spec.negate)
