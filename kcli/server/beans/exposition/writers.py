"""Writers: functions that add the lines of a bean to the family of a metric."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from kcli.model.object_name import unquoted
from kcli.server.beans.bean import Bean
from kcli.server.beans.exposition.profile import MetricType, label_name
from kcli.server.metrics.exemplars import Exemplar
from kcli.server.metrics.meters import Attributes

Write = Callable[[Bean, str], None]
"""Adds the lines of a bean. The text has the labels of the bean, without braces."""


@dataclass(frozen=True, slots=True)
class Family:
    """The lines of one metric. `name` is the name in Prometheus' text format, so the name of a counter ends with
    `_total`.
    """

    name: str
    type: MetricType
    lines: list[str] = field(default_factory=list)


def number_writer(family: Family, attribute: str, constant: str) -> Write:
    """Writes the value of one attribute. `constant` is an additional label. If the value is a text, no line
    is written.
    """
    name, append = family.name, family.lines.append

    def write(bean: Bean, labels: str) -> None:
        value = bean.attributes[attribute]
        if type(value) is int and not constant:
            append(f"{name}{{{labels}}} {value}" if labels else f"{name} {value}")
        elif not isinstance(value, str):
            append(f"{name}{braced(labels, constant)} {number(value)}")

    return write


def quantile_writer(family: Family, quantiles: Mapping[str, str]) -> Write:
    """Writes the percentiles of a bean. If the metric is a summary, also writes the sum and the count."""
    name, append = family.name, family.lines.append
    own = [(attribute, f'quantile="{label}"') for attribute, label in quantiles.items()]

    def write(bean: Bean, labels: str) -> None:
        attributes = bean.attributes
        for attribute, quantile in own:
            append(f"{name}{braced(labels, quantile)} {number(_as_number(attributes, attribute))}")
        if family.type is MetricType.SUMMARY:
            count = _as_number(attributes, "Count")
            append(f"{name}_sum{braced(labels)} {number(count * _as_number(attributes, 'Mean'))}")
            append(f"{name}_count{braced(labels)} {number(count)}")

    return write


def bucket_writer(family: Family, *, with_exemplars: bool) -> Write:
    """Writes the buckets of a histogram, its sum and its count. The name of a bucket's attribute is the upper limit of
    the bucket.
    """
    name, append = family.name, family.lines.append

    def write(bean: Bean, labels: str) -> None:
        attributes = bean.attributes
        exemplars = (bean.exemplars or {}) if with_exemplars else {}
        for limit in attributes:
            if limit in ("Count", "Sum"):
                continue
            exemplar = exemplars.get(limit)
            line = f"{name}_bucket{braced(labels, _limit(limit))} {attributes[limit]}"
            append(line if exemplar is None else line + _exemplar(exemplar))
        append(f"{name}_sum{braced(labels)} {number(_as_number(attributes, 'Sum'))}")
        append(f"{name}_count{braced(labels)} {attributes['Count']}")

    return write


def _limit(limit: str) -> str:
    return f'le="{limit}"'


def _exemplar(exemplar: Exemplar) -> str:
    return f' # {{trace_id="{escaped(exemplar.trace_id)}"}} {number(exemplar.seconds)} {exemplar.time_ms / 1000:.3f}'


def _as_number(attributes: Attributes, name: str) -> float:
    return float(attributes[name])


# Text.


def label_text(
    properties: Iterable[tuple[str, str]], renamed: Mapping[str, str], *, lower_case: bool = False
) -> str:
    """The labels for properties of an object name."""
    return ",".join(
        [
            f'{renamed.get(key) or label_name(key, lower_case=lower_case)}="{escaped(unquoted(value))}"'
            for key, value in properties
        ]
    )


def braced(*labels: str) -> str:
    text = ",".join([label for label in labels if label])
    return f"{{{text}}}" if text else ""


def escaped(value: str) -> str:
    """The value of a label. The format escapes only three characters. All other characters are unchanged."""
    if '"' not in value and "\\" not in value and "\n" not in value:
        return value
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def number(value: float) -> str:
    """The shortest text of a number. NaN and infinite values are written as in Prometheus: NaN, +Inf and -Inf."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else repr(float(value))
