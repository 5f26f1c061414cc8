"""The lines of a scrape, collected by metric, because all lines of a metric must follow each other.

A scrape of a large broker has 200,000 lines. So everything that the beans of one object name share is worked out once
for each scrape: the names, the types, and the lists of lines. Labels are worked out once for all beans of a partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

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
"""The label texts that are kept for the next beans. The beans of a partition follow each other closely."""

_CUT = ("persec", "percent")


class Families:
    """Makes the lines of beans by the rules of a profile."""

    def __init__(self, profile: Profile, *, with_exemplars: bool = False) -> None:
        self._profile = profile
        self._with_exemplars = with_exemplars
        self._families: dict[str, Family] = {}
        self._writers: dict[tuple[str, str, str, Kind], tuple[Write, ...]] = {}
        self._sensors: dict[tuple[str, str], tuple[Sensor, ...]] = {}
        self._labels: dict[tuple[tuple[str, str], ...], str] = {}

    def __iter__(self) -> Iterator[Family]:
        return iter(self._families.values())

    def add(self, bean: Bean) -> None:
        properties = bean.properties
        name = properties.get("name", "")
        key = (bean.domain, properties["type"], name, bean.kind)
        writers = self._writers.get(key)
        if writers is None:
            writers = self._writers[key] = tuple(self._make_writers(bean, name))
        labels = self._labels_of(tuple(properties.items())[2 if name else 1 :])
        for write in writers:
            write(bean, labels)

    # The writers of an object name.

    def _make_writers(self, bean: Bean, name: str) -> Iterator[Write]:
        type_ = bean.properties["type"]
        base = metric_name(bean.domain, type_, name)
        rule = _rule(self._profile.rules.get(bean.kind, ()), type_, name)
        if rule is None or isinstance(bean.attributes.get("Value"), str):
            yield lambda bean, labels: self._add_sensors(bean, base, labels)
            return
        for metric in rule.metrics:
            yield self._writer(metric, base, name)

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
        found = self._families.get(name)
        if found is None:
            found = self._families[name] = Family(name, type_)
        return found

    # Sensors.

    def _add_sensors(self, bean: Bean, base: str, labels: str) -> None:
        """Adds each number as a metric, and the texts as labels of metrics that are always 1."""
        has_texts = False
        for attribute, value in bean.attributes.items():
            if isinstance(value, str):
                has_texts = True
                continue
            for sensor in self._sensors_of(bean, base, attribute):
                if value >= sensor.least and (not sensor.needs or sensor.needs in bean.properties):
                    self._add_sensor(sensor, bean, value, labels)
        if has_texts:
            self._add_texts(bean, base, labels)

    def _add_sensor(self, sensor: Sensor, bean: Bean, value: int | float, labels: str) -> None:
        family = self._family(sensor.name, sensor.type)
        scaled = value if sensor.factor == 1.0 else value * sensor.factor
        own = self._renamed(bean, sensor.labels, labels)
        family.lines.append(f"{family.name}{braced(own, sensor.constant)} {number(scaled)}")

    def _add_texts(self, bean: Bean, base: str, labels: str) -> None:
        infos = self._profile.infos.get(group_of(bean.domain, bean.properties["type"]))
        if infos is None:
            texts = {
                name: metric_name(name) for name, value in bean.attributes.items() if isinstance(value, str)
            }
            infos = (Info(name=f"{base}_info", texts=texts),)
        for info in infos:
            family = self._family(info.name, info.type)
            words = [
                f'{label}="{escaped(str(bean.attributes[name]))}"'
                for name, label in info.texts.items()
                if name in bean.attributes
            ]
            family.lines.append(f"{family.name}{braced(self._renamed(bean, info.labels, labels), *words)} 1")

    def _renamed(self, bean: Bean, names: Mapping[str, str], labels: str) -> str:
        """The labels of the bean with other names, or `labels` if no name changes."""
        if not names:
            return labels
        return label_text(bean.properties.items(), names, lower_case=self._profile.lower_case_labels)

    def _sensors_of(self, bean: Bean, base: str, attribute: str) -> tuple[Sensor, ...]:
        key = (base, attribute)
        found = self._sensors.get(key)
        if found is None:
            group = group_of(bean.domain, bean.properties["type"])
            found = self._sensors[key] = self._make_sensors(group, base, attribute, bean.kind)
        return found

    def _make_sensors(self, group: str, base: str, attribute: str, kind: Kind) -> tuple[Sensor, ...]:
        profile = self._profile
        found = profile.attributes.get((group, attribute))
        if found is not None:
            return found
        stem = attribute.removesuffix("-total")
        counts = kind is Kind.COUNTERS or (stem != attribute and profile.keeps_total)
        name = metric_name(stem, "total" if counts else "")
        templates = profile.sensors.get(group, (Sensor(name=base + "_{attribute}"),))
        return tuple(_of_attribute(sensor, name, counts=counts) for sensor in templates)

    # Labels.

    def _labels_of(self, properties: tuple[tuple[str, str], ...]) -> str:
        if not properties:
            return ""
        found = self._labels.get(properties)
        if found is None:
            if len(self._labels) >= LABELS_KEPT_MAX:
                self._labels.clear()
            found = self._labels[properties] = label_text(
                properties, {}, lower_case=self._profile.lower_case_labels
            )
        return found


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
