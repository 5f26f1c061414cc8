"""Collects the lines of a scrape by metric, because the format requires all lines of a metric to be together.

A scrape of a large broker has 200,000 lines. So if several beans share a value, a scrape computes this value only once.
Such values are the names and types of metrics, and the labels of a partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from kcli.server.beans.bean import Bean, Kind
from kcli.server.beans.exposition.profile import (
    Info,
    Metric,
    MetricType,
    Profile,
    Rule,
    Sensor,
    group_of,
    metric_name,
)
from kcli.server.beans.exposition.writers import (
    Family,
    Write,
    braced,
    bucket_writer,
    escaped,
    label_text,
    number,
    number_writer,
    quantile_writer,
)

LABELS_KEPT_MAX = 1_000
"""The maximum number of label texts in the cache. A small cache is enough, because the beans of one partition follow
each other closely."""

_CUT = ("persec", "percent")


NO_NAMES: Mapping[str, str] = {}

Properties = tuple[tuple[str, str], ...]
"""The properties of an object name, except its type and its name."""


@dataclass(frozen=True, slots=True)
class SensorLine:
    """One metric that shows an attribute of a bean. `append` adds a line to the family of the metric. See `Sensor`."""

    name: str
    append: Callable[[str], None]
    labels: Mapping[str, str]
    constant: str
    needs: str
    factor: float
    least: float


class Families:
    """Makes the lines of all metrics from beans, by the rules of a profile."""

    def __init__(self, profile: Profile, *, with_exemplars: bool = False) -> None:
        self._profile = profile
        self._with_exemplars = with_exemplars
        self._families: dict[str, Family] = {}
        self._writers: dict[tuple[str, str, str, Kind], tuple[Write, ...]] = {}
        self._gauges: dict[tuple[str, str], tuple[tuple[str, Callable[[str], None]], ...]] = {}
        self._bases: dict[tuple[str, str, str], str] = {}
        self._lines: dict[tuple[str, str], tuple[SensorLine, ...]] = {}
        self._labels: dict[tuple[int, Properties], str] = {}

    def __iter__(self) -> Iterator[Family]:
        return iter(self._families.values())

    def add(self, bean: Bean) -> None:
        if bean.kind is Kind.GAUGES:
            self._add_gauges(bean)
            return
        properties = bean.properties
        name = properties.get("name", "")
        writers = self._writers.get((bean.domain, properties["type"], name, bean.kind))
        if writers is None:
            writers = self._make_writers(bean, name)
        own = tuple(properties.items())[2 if name else 1 :]
        labels = self._labels_of(own, NO_NAMES)
        if writers and not isinstance(bean.attributes.get("Value"), str):
            for write in writers:
                write(bean, labels)
        else:
            base = self._bases[bean.domain, properties["type"], name]
            self._add_sensors(bean, base, own, labels)

    def _add_gauges(self, bean: Bean) -> None:
        """Adds several gauges with the same labels."""
        type_, *rest = bean.properties.items()
        labels = self._labels_of(tuple(rest), NO_NAMES)
        for name, value in bean.attributes.items():
            for metric, append in self._gauges.get((type_[1], name)) or self._make_gauges(bean, name):
                append(f"{metric}{braced(labels)} {value if type(value) is int else number(float(value))}")

    def _make_gauges(self, bean: Bean, name: str) -> tuple[tuple[str, Callable[[str], None]], ...]:
        type_ = bean.properties["type"]
        rule = _rule(self._profile.rules[Kind.GAUGE], type_, name)
        base = metric_name(bean.domain, type_, name)
        names = [metric.name.format(base=base, stem=_stem(base)) for metric in (rule.metrics if rule else ())]
        made = tuple(
            (family_name, self._family(family_name, MetricType.GAUGE).lines.append) for family_name in names
        )
        self._gauges[type_, name] = made
        return made

    # The writers of an object name.

    def _make_writers(self, bean: Bean, name: str) -> tuple[Write, ...]:
        """Makes the writers for all beans with this domain, type and name. Sensors have no writers, because
        `_add_sensors` adds their lines.
        """
        type_ = bean.properties["type"]
        base = self._bases[bean.domain, type_, name] = metric_name(bean.domain, type_, name)
        rule = _rule(self._profile.rules.get(bean.kind, ()), type_, name)
        metrics = () if rule is None else rule.metrics
        made = tuple(self._writer(metric, base, name) for metric in metrics)
        self._writers[bean.domain, type_, name, bean.kind] = made
        return made

    def _writer(self, metric: Metric, base: str, name: str) -> Write:
        full = metric.name.format(base=base, stem=_stem(base), name=name)
        family = self._family(full, metric.type)
        constant = metric.labels.format(name=name)
        if metric.attribute:
            return number_writer(family, metric.attribute, constant)
        if metric.type is MetricType.HISTOGRAM:
            return bucket_writer(family, with_exemplars=self._with_exemplars)
        return quantile_writer(family, self._profile.quantiles)

    def _family(self, name: str, type_: MetricType) -> Family:
        family = self._families.get(name)
        if family is None:
            family = self._families[name] = Family(name, type_)
        return family

    # Sensors.

    def _add_sensors(self, bean: Bean, base: str, properties: Properties, labels: str) -> None:
        """Adds a line for each attribute that is a number. Attributes that are texts become labels of a metric that is
        always 1.
        """
        has_texts = False
        for attribute, value in bean.attributes.items():
            if isinstance(value, str):
                has_texts = True
                continue
            for line in self._lines.get((base, attribute)) or self._make_lines(bean, base, attribute):
                if value < line.least or (line.needs and line.needs not in bean.properties):
                    continue
                own = self._labels_of(properties, line.labels) if line.labels else labels
                text = value if type(value) is int and line.factor == 1.0 else number(value * line.factor)
                line.append(f"{line.name}{braced(own, line.constant)} {text}")
        if has_texts:
            self._add_texts(bean, base, properties, labels)

    def _add_texts(self, bean: Bean, base: str, properties: Properties, labels: str) -> None:
        attributes = bean.attributes
        infos = self._profile.infos.get(group_of(bean.domain, bean.properties["type"]))
        if infos is None:
            texts = {name: metric_name(name) for name, value in attributes.items() if isinstance(value, str)}
            infos = (Info(name=f"{base}_info", texts=texts),)
        for info in infos:
            family = self._family(info.name, info.type)
            words = [
                f'{label}="{escaped(str(attributes[name]))}"'
                for name, label in info.texts.items()
                if name in attributes
            ]
            own = self._labels_of(properties, info.labels) if info.labels else labels
            family.lines.append(f"{family.name}{braced(own, *words)} 1")

    def _make_lines(self, bean: Bean, base: str, attribute: str) -> tuple[SensorLine, ...]:
        group = group_of(bean.domain, bean.properties["type"])
        made = tuple(map(self._line, self._sensors_of(group, base, attribute, bean.kind)))
        self._lines[base, attribute] = made
        return made

    def _line(self, sensor: Sensor) -> SensorLine:
        family = self._family(sensor.name, sensor.type)
        return SensorLine(
            family.name,
            family.lines.append,
            sensor.labels,
            sensor.constant,
            sensor.needs,
            sensor.factor,
            sensor.least,
        )

    def _sensors_of(self, group: str, base: str, attribute: str, kind: Kind) -> tuple[Sensor, ...]:
        profile = self._profile
        sensors = profile.attributes.get((group, attribute))
        if sensors is not None:
            return sensors
        stem = attribute.removesuffix("-total")
        counts = kind is Kind.COUNTERS or (stem != attribute and profile.keeps_total)
        name = metric_name(stem, "total" if counts else "")
        templates = profile.sensors.get(group, (Sensor(name=base + "_{attribute}"),))
        return tuple(_of_attribute(sensor, name, counts=counts) for sensor in templates)

    # Labels.

    def _labels_of(self, properties: Properties, names: Mapping[str, str]) -> str:
        """Returns the labels of a bean, without braces. `names` has the profile's names for labels."""
        if not properties:
            return ""
        key = (id(names), properties)
        labels = self._labels.get(key)
        if labels is None:
            if len(self._labels) >= LABELS_KEPT_MAX:
                self._labels.clear()
            labels = label_text(properties, names, lower_case=self._profile.lower_case_labels)
            self._labels[key] = labels
        return labels


def _rule(rules: Iterable[Rule], type_: str, name: str) -> Rule | None:
    return next((rule for rule in rules if rule.applies_to(type_, name)), None)


def _stem(base: str) -> str:
    for ending in _CUT:
        if base.endswith(ending):
            return base.removesuffix(ending)
    return base


def _of_attribute(sensor: Sensor, attribute: str, *, counts: bool) -> Sensor:
    return Sensor(
        name=sensor.name.format(attribute=attribute),
        type=MetricType.COUNTER if counts else sensor.type,
        labels=sensor.labels,
        constant=sensor.constant,
    )
