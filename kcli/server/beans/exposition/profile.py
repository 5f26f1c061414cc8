"""A profile: the rules by which beans get names for Prometheus.

A rule applies to beans of one kind whose name has a certain ending. The first rule that applies to a bean is used. The
rule lists the metrics that show the values of the bean. The names of the metrics are templates with these fields:

    {base}    the lower-case object name without its labels, such as kafka_server_brokertopicmetrics_bytesinpersec
    {stem}    the base without PerSec or Percent at its end, such as kafka_server_brokertopicmetrics_bytesin
    {name}    the property `name` as it is, such as BytesInPerSec
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache

from kcli.server.beans.bean import Kind

_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_]")


class MetricType(StrEnum):
    """The types of OpenMetrics that kcli uses."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    INFO = "info"
    SUMMARY = "summary"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric of a rule. Its value is the value of `attribute`. If `attribute` is empty, the metric has one value
    for each percentile or each bucket. `labels` are added to the labels of the bean.
    """

    name: str
    type: MetricType
    attribute: str = ""
    labels: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """The metrics for beans whose name ends with `ending`. If `type_` is not empty, the rule applies only to beans of
    this type.
    """

    ending: str
    metrics: tuple[Metric, ...]
    type_: str = ""

    def applies_to(self, type_: str, name: str) -> bool:
        return name.endswith(self.ending) and self.type_ in ("", type_)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensor:
    """One metric that shows an attribute of a sensor. The name of the metric is a template with the field
    {attribute}."""

    name: str
    type: MetricType = MetricType.GAUGE
    labels: Mapping[str, str] = field(default_factory=dict)
    """The new names of labels that are renamed. The key is the property of the object name."""
    constant: str = ""
    """A label with a fixed value, such as `resource="Produce"`."""
    needs: str = ""
    """A property of the object name. A bean without this property does not get the metric."""
    factor: float = 1.0
    least: float = float("-inf")
    """The smallest valid value. A smaller value means that the figure is unknown, so the metric is left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Info:
    """A metric that is always 1, with attributes of a sensor as labels. These attributes are texts. In `texts`, the key
    is the name of an attribute, and the value is the name of its label.
    """

    name: str
    texts: Mapping[str, str]
    type: MetricType = MetricType.INFO
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The names of all metrics."""

    name: str
    rules: Mapping[Kind, tuple[Rule, ...]]
    sensors: Mapping[str, tuple[Sensor, ...]]
    """The metrics for every attribute of a group (see `group_of`). The metrics of other groups have the name
    {base}_{attribute}."""
    attributes: Mapping[tuple[str, str], tuple[Sensor, ...]]
    """The metrics of single attributes, which replace the metrics of `sensors`. The key is the group and the
    attribute."""
    infos: Mapping[str, tuple[Info, ...]]
    """The metrics that show the text attributes of a group as labels. Other groups have the metric {base}_info with all
    their text attributes."""
    quantiles: Mapping[str, str]
    """The value of the label `quantile` for each attribute that is a percentile."""
    lower_case_labels: bool = False
    keeps_total: bool = True
    """Whether an attribute with the ending `-total` becomes a counter. If not, it becomes a gauge without this
    ending."""


def metric_name(*parts: str) -> str:
    """The name for Prometheus, such as kafka_server_raft_metrics for `kafka.server` and `raft-metrics`."""
    return _NOT_IN_A_NAME.sub("_", "_".join(part for part in parts if part)).lower()


@lru_cache(maxsize=256)  # there are about 40 labels
def label_name(key: str, *, lower_case: bool = False) -> str:
    """The label for a property of an object name."""
    name = _NOT_IN_A_NAME.sub("_", key)
    return name.lower() if lower_case else name


def group_of(domain: str, type_: str) -> str:
    """Returns the group of a bean, the key in the tables of a profile. For beans that Kafka has too, the group is the
    type. For other beans, the group is the domain and the type.
    """
    return type_ if domain.startswith("kafka.") else f"{domain}:{type_}"
