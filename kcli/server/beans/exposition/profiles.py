"""The profiles: tables of names for the metrics of Kafka.

Exporters for Kafka use different names for the same metric. A public dashboard reads the names of one exporter.

    default     the names of Strimzi's rules for jmx_exporter. Metrics that Strimzi leaves out have the names of
                jmx_exporter's own example
    confluent   the names of Confluent's rules, which Grafana Cloud uses too
    reporter    the names of the Strimzi Metrics Reporter

In all profiles, sensors have the name kafka_server_<group>_<attribute>, with their tags as labels. kcli's own figures
also have the same names in all profiles (own_names.py).
"""

from __future__ import annotations

from collections.abc import Mapping

from kcli.server.beans.bean import Kind
from kcli.server.beans.exposition.own_names import OWN_ATTRIBUTES, OWN_INFOS, OWN_SENSORS
from kcli.server.beans.exposition.profile import Info, Metric, MetricType, Profile, Rule, Sensor

_COUNTER, _GAUGE = MetricType.COUNTER, MetricType.GAUGE
_SUMMARY, _UNKNOWN = MetricType.SUMMARY, MetricType.UNKNOWN

_PERCENTILES = {
    "50thPercentile": "0.50",
    "75thPercentile": "0.75",
    "95thPercentile": "0.95",
    "98thPercentile": "0.98",
    "99thPercentile": "0.99",
    "999thPercentile": "0.999",
}

_VALUE = Rule("", (Metric("{base}", _GAUGE, "Value"),))
_SUMMARIES = (Rule("", (Metric("{base}", _SUMMARY),)),)
_HISTOGRAMS = (Rule("", (Metric("{base}", MetricType.HISTOGRAM),)),)

# default

_TOTAL = Metric("{stem}_total", _COUNTER, "Count")
# kafbat UI reads these averages from a broker. Their names are the names that jmx_exporter uses if it has no rules.
_AVERAGE = Metric(
    "kafka_server_BrokerTopicMetrics_FifteenMinuteRate", _GAUGE, "FifteenMinuteRate", 'name="{name}"'
)
_METERS = (
    Rule("BytesInPerSec", (_TOTAL, _AVERAGE), "BrokerTopicMetrics"),
    Rule("BytesOutPerSec", (_TOTAL, _AVERAGE), "BrokerTopicMetrics"),
    Rule("PerSec", (_TOTAL,)),
    Rule(
        "Percent",
        (Metric("{stem}_percent", _GAUGE, "OneMinuteRate"), Metric("{base}_count", _UNKNOWN, "Count")),
    ),
    Rule("", (Metric("{base}_count", _UNKNOWN, "Count"),)),
)


def _with_short_name(group: str, short: str) -> dict[str, tuple[Sensor, ...]]:
    """Returns two metrics for each attribute of a group: one with Strimzi's name, which omits the `-` of the group, and
    one with the name of jmx_exporter's example.
    """
    long = group.replace("-", "_")
    return {
        group: (
            Sensor(name=f"kafka_server_{short}_{{attribute}}"),
            Sensor(name=f"kafka_server_{long}_{{attribute}}"),
        )
    }


def _quota(resource: str) -> dict[str, tuple[Sensor, ...]]:
    """Returns two metrics for each attribute of a quota: one with the usual name of a sensor, and one with the name of
    jmx_exporter's example for Kafka 2.
    """
    return {
        resource: (
            Sensor(name=f"kafka_server_{resource.lower()}_{{attribute}}"),
            Sensor(
                name="kafka_server_quota_{attribute}",
                labels={"client-id": "clientId"},
                constant=f'resource="{resource}"',
            ),
        )
    }


_DEFAULT = Profile(
    name="default",
    rules={
        Kind.GAUGE: (
            Rule("Percent", (Metric("{base}", _GAUGE, "Value"), Metric("{stem}_percent", _GAUGE, "Value"))),
            _VALUE,
        ),
        Kind.METER: _METERS,
        Kind.HISTOGRAM: _SUMMARIES,
        Kind.TIMER: _SUMMARIES,
        Kind.BUCKETS: _HISTOGRAMS,
    },
    sensors=(
        OWN_SENSORS
        | _with_short_name("raft-metrics", "raftmetrics")
        | _with_short_name("raft-channel-metrics", "raftchannelmetrics")
        | _with_short_name("broker-metadata-metrics", "brokermetadatametrics")
        | _quota("Produce")
        | _quota("Fetch")
        | _quota("Request")
        | _quota("ControllerMutation")
    ),
    attributes=OWN_ATTRIBUTES
    | {
        ("socket-server-metrics", "connections"): (
            Sensor(
                name="kafka_server_socket_server_metrics_connections_software", needs="clientSoftwareName"
            ),
            Sensor(name="kafka_server_socket_server_metrics_connections_tls_info", needs="cipher"),
        ),
    },
    infos=OWN_INFOS
    | {
        "raft-metrics": (
            Info(
                name="kafka_server_raftmetrics_current_state",
                texts={"current-state": "current_state"},
                type=_GAUGE,
            ),
            Info(name="kafka_server_raft_metrics_current_state_info", texts={"current-state": "state"}),
        )
    },
    quantiles=_PERCENTILES,
)

# confluent. The count of a meter and of a histogram has the name of the bean, without an ending.

_COUNT = Metric("{base}", _UNKNOWN, "Count")
_CONFLUENT_HISTOGRAMS = (Rule("", (Metric("{base}", _UNKNOWN), _COUNT)),)
_SOCKET_LABELS = {
    "networkProcessor": "network_processor",
    "clientSoftwareName": "client_software_name",
    "clientSoftwareVersion": "client_software_version",
}

_CONFLUENT = Profile(
    name="confluent",
    rules={
        Kind.GAUGE: (_VALUE,),
        Kind.METER: (
            Rule("AvgIdlePercent", (_COUNT, Metric("{base}_oneminuterate", _GAUGE, "OneMinuteRate"))),
            Rule("", (_COUNT,)),
        ),
        Kind.HISTOGRAM: _CONFLUENT_HISTOGRAMS,
        Kind.TIMER: _CONFLUENT_HISTOGRAMS,
        Kind.BUCKETS: _HISTOGRAMS,
    },
    sensors=OWN_SENSORS
    | {
        "socket-server-metrics": (
            Sensor(name="kafka_server_socketservermetrics_{attribute}", labels=_SOCKET_LABELS),
        )
    },
    attributes=OWN_ATTRIBUTES,
    infos=OWN_INFOS,
    quantiles=_PERCENTILES,
    lower_case_labels=True,
)

# reporter. The endings of OpenMetrics belong to its types, so a sensor loses `-total`.

_REPORTER = Profile(
    name="reporter",
    rules={
        Kind.GAUGE: (_VALUE,),
        Kind.METER: (Rule("", (Metric("{base}_total", _COUNTER, "Count"),)),),
        Kind.HISTOGRAM: _SUMMARIES,
        Kind.TIMER: _SUMMARIES,
        Kind.BUCKETS: _HISTOGRAMS,
    },
    sensors=OWN_SENSORS,
    attributes=OWN_ATTRIBUTES,
    infos=OWN_INFOS
    | {
        "raft-metrics": (
            Info(
                name="kafka_server_raft_metrics_current_state_info",
                texts={"current-state": "current_state"},
            ),
        )
    },
    quantiles={
        attribute: repr(float(label)) if label != "0.50" else "0.5"
        for attribute, label in _PERCENTILES.items()
    },
    keeps_total=False,
)

DEFAULT = _DEFAULT
PROFILES: Mapping[str, Profile] = {profile.name: profile for profile in (_DEFAULT, _CONFLUENT, _REPORTER)}
