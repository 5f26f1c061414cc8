"""A bean: the attributes of one object name, and how to read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple

from kcli.model.object_name import quoted
from kcli.server.metrics.exemplars import Exemplar
from kcli.server.metrics.meters import Attributes


class Kind(StrEnum):
    """The meaning of the attributes of a bean."""

    GAUGE = "gauge"
    """The single attribute Value: a number that can fall, or a text."""
    GAUGES = "gauges"
    """Several gauges of one type with the same labels, combined in one bean. In JMX, each attribute is a separate bean
    with the attribute as its name (see `single_beans`). The gauges of a partition are combined because a broker may
    have 100,000 of them, and one bean takes less time than several."""
    METER = "meter"
    """A Count that only grows, and its rates."""
    HISTOGRAM = "histogram"
    """The number, the mean, the minimum, the maximum and the percentiles of observations."""
    TIMER = "timer"
    """A meter and a histogram of durations."""
    SENSORS = "sensors"
    """Attributes of Kafka's own metric library. An attribute is a number that can fall or a text, except a number with
    the ending `-total`, which only grows."""
    COUNTERS = "counters"
    """Attributes that only grow. Kafka has no beans of this kind."""
    BUCKETS = "buckets"
    """The Count and the Sum of observations, and the number of observations up to each limit. Each number up to a limit
    is an attribute, and the attribute's name is the limit. The limits are in ascending order, and the last one is
    `+Inf`. Kafka has no beans of this kind."""


class Bean(NamedTuple):
    """One bean. `properties` has the properties of the object name in Kafka's order: type, name, then the labels.

    A bean is a named tuple, because a scrape makes up to 100,000 beans, and a frozen dataclass takes three times as
    long to make.
    """

    domain: str
    properties: Mapping[str, str]
    attributes: Attributes
    kind: Kind = Kind.SENSORS
    exemplars: Mapping[str, Exemplar] | None = None
    """A traced observation for each bucket. The key is the bucket's attribute. A bucket without a traced observation is
    missing."""

    @property
    def object_name(self) -> str:
        return self.domain + ":" + ",".join([f"{key}={value}" for key, value in self.properties.items()])


def bean(
    domain: str,
    type_: str,
    attributes: Attributes,
    name: str = "",
    *,
    kind: Kind = Kind.SENSORS,
    **labels: str,
) -> Bean:
    """Makes a bean with the object name `domain:type=…,name=…,label=value…`. A label without a value is left out."""
    properties = {"type": type_, "name": name} if name else {"type": type_}
    for label, value in labels.items():
        if value:
            properties[label] = quoted(value)
    return Bean(domain, properties, attributes, kind)


def gauge(domain: str, type_: str, name: str, value: str | int | float, **labels: str) -> Bean:
    """Makes a bean with the single attribute Value."""
    properties = {"type": type_, "name": name}
    for label, text in labels.items():
        if text:
            properties[label] = quoted(text)
    return Bean(domain, properties, {"Value": value}, Kind.GAUGE)


def gauges(domain: str, type_: str, values: Attributes, **labels: str) -> Bean:
    """Makes several gauges with the same labels."""
    return bean(domain, type_, values, kind=Kind.GAUGES, **labels)


def single_beans(whole: Bean) -> Iterator[Bean]:
    """Yields the beans under Kafka's names. A bean that combines several gauges becomes one bean for each gauge."""
    if whole.kind is not Kind.GAUGES:
        yield whole
        return
    type_, *labels = whole.properties.items()
    for name, value in whole.attributes.items():
        yield Bean(whole.domain, dict([type_, ("name", name), *labels]), {"Value": value}, Kind.GAUGE)


def meter(domain: str, type_: str, name: str, attributes: Attributes, **labels: str) -> Bean:
    """Makes a bean with the attributes of a meter."""
    return bean(domain, type_, attributes, name, kind=Kind.METER, **labels)


def histogram(domain: str, type_: str, name: str, attributes: Attributes, **labels: str) -> Bean:
    """Makes a bean with the attributes of a histogram."""
    return bean(domain, type_, attributes, name, kind=Kind.HISTOGRAM, **labels)
