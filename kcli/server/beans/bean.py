"""A bean: the attributes of one object name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kcli.model.object_name import quoted
from kcli.server.metrics.meters import Attributes


@dataclass(frozen=True, slots=True)
class Bean:
    """One bean. `properties` of its name are in Kafka's order: type, name, then the labels."""

    domain: str
    properties: Mapping[str, str]
    attributes: Attributes

    @property
    def object_name(self) -> str:
        return self.domain + ":" + ",".join([f"{key}={value}" for key, value in self.properties.items()])


def bean(domain: str, type_: str, attributes: Attributes, name: str = "", **labels: str) -> Bean:
    """Makes a bean with the object name `domain:type=…,name=…,label=value…`."""
    properties = {"type": type_}
    if name:
        properties["name"] = name
    for label, value in labels.items():
        properties[label] = quoted(value)
    return Bean(domain, properties, attributes)


def gauge(domain: str, type_: str, name: str, value: str | int | float, **labels: str) -> Bean:
    """Makes a bean with the single attribute Value."""
    return bean(domain, type_, {"Value": value}, name, **labels)
