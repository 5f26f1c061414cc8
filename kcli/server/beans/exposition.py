"""Beans as text: the exposition format of Prometheus, and JSON in the form of Hadoop's /jmx.

The names for Prometheus are the names that the usual configuration of jmx_exporter for Kafka gives. So dashboards that
use these names work:

    kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec,topic=t
        kafka_server_brokertopicmetrics_messagesin_total{topic="t"}
    kafka.network:type=RequestMetrics,name=TotalTimeMs,request=Fetch
        kafka_network_requestmetrics_totaltimems{request="Fetch",quantile="0.99"}
    kafka.server:type=ReplicaManager,name=PartitionCount
        kafka_server_replicamanager_partitioncount
    kafka.server:type=raft-metrics, its attribute current-epoch
        kafka_server_raft_metrics_current_epoch
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping

from kcli.model.object_name import unquoted
from kcli.server.beans.bean import Bean

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_QUANTILES = {
    "50thPercentile": "0.50",
    "75thPercentile": "0.75",
    "95thPercentile": "0.95",
    "98thPercentile": "0.98",
    "99thPercentile": "0.99",
    "999thPercentile": "0.999",
}
# Prometheus' names for the figures of a process, with their types and the factor to their units.
_PROCESS = {
    "MaxFileDescriptorCount": ("process_max_fds", "gauge", 1.0),
    "OpenFileDescriptorCount": ("process_open_fds", "gauge", 1.0),
    "ProcessCpuSeconds": ("process_cpu_seconds_total", "counter", 1.0),
    "ResidentMemoryBytes": ("process_resident_memory_bytes", "gauge", 1.0),
    "StartTimeMs": ("process_start_time_seconds", "gauge", 0.001),
    "VirtualMemoryBytes": ("process_virtual_memory_bytes", "gauge", 1.0),
}
_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_]")


class PrometheusText:
    """Collects beans by metric, because all lines of a metric must follow each other."""

    def __init__(self) -> None:
        self._metrics: dict[str, tuple[str, list[str]]] = {}

    def add(self, bean: Bean) -> None:
        attributes = bean.attributes
        name = bean.properties.get("name", "")
        base = _name(bean.domain, bean.properties["type"], name)
        labels = _labels(bean.properties)
        if bean.properties["type"] == "Process" and bean.domain == "kcli":
            self._add_process(bean)
        elif "OneMinuteRate" in attributes:
            self._add_meter(base, labels, attributes)
        elif "50thPercentile" in attributes:
            self._add_histogram(base, labels, attributes)
        elif "Value" in attributes and isinstance(attributes["Value"], (int, float)):
            self._add(base, "gauge", labels, attributes["Value"])
        else:
            self._add_attributes(base, labels, attributes)

    def blocks(self) -> Iterator[str]:
        """Yields the text of each metric."""
        for name, (kind, lines) in self._metrics.items():
            yield f"# TYPE {name} {kind}\n" + "\n".join(lines) + "\n"

    def _add(self, name: str, kind: str, labels: str, value: float) -> None:
        self._line(name, kind, f"{name}{_braced(labels)} {_number(value)}")

    def _line(self, metric: str, kind: str, line: str) -> None:
        found = self._metrics.get(metric)
        if found is None:
            found = self._metrics[metric] = (kind, [])
        found[1].append(line)

    def _add_meter(self, base: str, labels: str, attributes: Mapping[str, str | int | float]) -> None:
        if base.endswith("percent"):
            rate = attributes["OneMinuteRate"]
            self._add(f"{base.removesuffix('percent')}_percent", "gauge", labels, float(rate))
        else:
            self._add(f"{base.removesuffix('persec')}_total", "counter", labels, float(attributes["Count"]))

    def _add_histogram(self, base: str, labels: str, attributes: Mapping[str, str | int | float]) -> None:
        for attribute, quantile in _QUANTILES.items():
            both = f'{labels}{"," if labels else ""}quantile="{quantile}"'
            self._line(base, "summary", f"{base}{{{both}}} {_number(float(attributes[attribute]))}")
        count = float(attributes["Count"])
        total = count * float(attributes["Mean"])
        self._line(base, "summary", f"{base}_sum{_braced(labels)} {_number(total)}")
        self._line(base, "summary", f"{base}_count{_braced(labels)} {_number(count)}")

    def _add_attributes(self, base: str, labels: str, attributes: Mapping[str, str | int | float]) -> None:
        """Adds each number as a metric, and all texts as labels of one metric that is always 1."""
        words = []
        for attribute, value in attributes.items():
            if isinstance(value, str):
                words.append(f'{_name(attribute)}="{_escaped(value)}"')
            else:
                self._add(f"{base}_{_name(attribute)}", "gauge", labels, value)
        if words:
            self._add(f"{base}_info", "gauge", ",".join([labels, *words] if labels else words), 1)

    def _add_process(self, bean: Bean) -> None:
        for attribute, (name, kind, factor) in _PROCESS.items():
            value = float(bean.attributes[attribute])
            if value >= 0:
                self._add(name, kind, "", value * factor)


def json_bean(bean: Bean) -> str:
    """The JSON text of one bean, an element of the list `beans`."""
    return json.dumps({"name": bean.object_name, **bean.attributes}, ensure_ascii=False)


def _name(*parts: str) -> str:
    """The name for Prometheus, such as kafka_server_raft_metrics for `kafka.server` and `raft-metrics`."""
    return _NOT_IN_A_NAME.sub("_", "_".join(part for part in parts if part)).lower()


def _labels(properties: Mapping[str, str]) -> str:
    return ",".join(
        [
            f'{_NOT_IN_A_NAME.sub("_", key)}="{_escaped(unquoted(value))}"'
            for key, value in properties.items()
            if key not in ("type", "name")
        ]
    )


def _braced(labels: str) -> str:
    return f"{{{labels}}}" if labels else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isfinite(value) and value == int(value):
        return str(int(value))
    return repr(float(value))
