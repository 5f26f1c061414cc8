"""The alert rules of monitoring/, with Prometheus' own test tool: each alert fires, and stays quiet if all is well."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RULES = ROOT / "monitoring" / "alerts.yml"

pytestmark = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")

CONTROLLER, REPLICAS = "kafka_controller_kafkacontroller", "kafka_server_replicamanager"
DAY = 86_400
LATENCY, DELAY = "kcli_request_duration_seconds_bucket", "kcli_event_loop_delay_seconds_bucket"
LOCAL = "kcli_request_local_duration_seconds_bucket"


@dataclass(frozen=True)
class Case:
    """The series in which an alert fires, and those in which it does not. `after` is the time of the look.

    A series is a name with labels, and its values in promtool's notation, one for each minute.
    """

    bad: dict[str, str]
    good: dict[str, str]
    after: str = "30m"


def always(name: str, bad: float, good: float, after: str = "30m") -> Case:
    return Case({name: f"{bad}x90"}, {name: f"{good}x90"}, after)


def buckets(name: str, labels: str, slow: bool) -> dict[str, str]:
    """Observations that are all below 10 ms, or all between 1 s and 10 s."""
    fast = "0x90" if slow else "0+100x90"
    both = ("0.01", fast), ("1", fast), ("10", "0+100x90"), ("+Inf", "0+100x90")
    return {f'{name}{{{labels}instance="a",le="{limit}"}}': values for limit, values in both}


def slow(name: str, labels: str = "") -> Case:
    return Case(buckets(name, labels, slow=True), buckets(name, labels, slow=False))


CASES = {
    "KafkaNodeDown": always('up{job="kafka",instance="a"}', 0, 1),
    "KafkaBrokerMissing": Case(
        {
            f'{REPLICAS}_leadercount{{instance="a"}}': "1x90",
            f'{REPLICAS}_leadercount{{instance="b"}}': "1x20 stale",
        },
        {
            f'{REPLICAS}_leadercount{{instance="a"}}': "1x90",
            f'{REPLICAS}_leadercount{{instance="b"}}': "1x90",
        },
    ),
    "KafkaActiveControllers": Case(
        {f'{CONTROLLER}_activecontrollercount{{instance="{each}"}}': "1x90" for each in "ab"},
        {
            f'{CONTROLLER}_activecontrollercount{{instance="{each}"}}': f"{int(each == 'a')}x90"
            for each in "ab"
        },
    ),
    "KafkaFencedBrokers": always(f"{CONTROLLER}_fencedbrokercount", 1, 0),
    "KafkaMetadataErrors": always(f"{CONTROLLER}_metadataerrorcount", 1, 0),
    "KafkaMetadataLag": always("kafka_server_brokermetadatametrics_last_applied_record_lag_ms", 31_000, 700),
    "KafkaCertificateExpires": always(
        'kcli_certificate_expiry_timestamp_seconds{listener="SSL",subject="CN=a"}', 13 * DAY, 15 * DAY, "5m"
    ),
    "KafkaOfflinePartitions": always(f"{CONTROLLER}_offlinepartitionscount", 2, 0),
    "KafkaUnderMinIsrPartitions": always(f"{REPLICAS}_underminisrpartitioncount", 1, 0),
    "KafkaUnderReplicatedPartitions": Case(
        {f"{REPLICAS}_underreplicatedpartitions": "3x90", f"{REPLICAS}_reassigningpartitions": "0x90"},
        {f"{REPLICAS}_underreplicatedpartitions": "3x90", f"{REPLICAS}_reassigningpartitions": "1x90"},
    ),
    "KafkaUncleanLeaderElection": Case(
        {"kafka_controller_controllerstats_uncleanleaderelections_total": "0x25 1x60"},
        {"kafka_controller_controllerstats_uncleanleaderelections_total": "7x90"},
    ),
    "KafkaIsrShrinks": Case(
        {f"{REPLICAS}_isrshrinks_total": "0+2x90", f"{REPLICAS}_isrexpands_total": "0+1x90"},
        {f"{REPLICAS}_isrshrinks_total": "0+2x90", f"{REPLICAS}_isrexpands_total": "0+2x90"},
        after="60m",
    ),
    "KafkaReplicaFetcherFailed": always(
        'kafka_server_replicafetchermanager_deadthreadcount{clientId="Replica"}', 1, 0
    ),
    "KafkaLateTransactions": always(f"{REPLICAS}_partitionswithlatetransactionscount", 1, 0),
    "KafkaOfflineLogDirectory": always("kafka_log_logmanager_offlinelogdirectorycount", 1, 0),
    "KafkaDiskAlmostFull": Case(
        {"kcli_log_dir_usable_bytes": "9x90", "kcli_log_dir_total_bytes": "100x90"},
        {"kcli_log_dir_usable_bytes": "11x90", "kcli_log_dir_total_bytes": "100x90"},
    ),
    "KafkaDiskFullSoon": Case(
        {"kcli_log_dir_usable_bytes": "30000-100x90"}, {"kcli_log_dir_usable_bytes": "90000-100x90"}, "80m"
    ),
    "KafkaLogCleanerFailed": always(
        'kafka_log_logcleanermanager_uncleanable_partitions_count{logDirectory="/d"}', 2, 0
    ),
    "KafkaRequestHandlersBusy": always(
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent", 0.2, 0.8
    ),
    "KafkaEventLoopDelayed": slow(DELAY),
    "KafkaRequestQueueLong": always("kafka_network_requestchannel_requestqueuesize", 450, 3),
    "KafkaProduceSlow": slow(LATENCY, 'api="Produce",'),
    "KafkaFetchSlow": slow(LOCAL, 'api="Fetch",'),
    "KafkaClientsThrottled": always('kafka_server_fetch_throttle_time{client_id="c"}', 12.5, 0),
    "KafkaGroupStopped": always('kcli_group_status{group="g"}', 4, 1),
    "KafkaGroupFallsBehind": always('kcli_group_status{group="g"}', 2, 1, "45m"),
}


def _names(series: dict[str, str]) -> set[str]:
    return {each.partition("{")[0] for each in series}


def _apart(*, bad: bool) -> list[dict[str, dict[str, str]]]:
    """The series of all alerts, in few groups. In a group, no two alerts have series of the same metric. promtool
    evaluates every rule for every group, so a group for each alert would take ten times as long."""
    groups: list[dict[str, dict[str, str]]] = []
    for alert, case in CASES.items():
        series = case.bad if bad else case.good
        for group in groups:
            if not any(_names(series) & _names(other) for other in group.values()):
                group[alert] = series
                break
        else:
            groups.append({alert: series})
    return groups


def _test(group: dict[str, dict[str, str]], *, fires: bool) -> dict[str, object]:
    return {
        "interval": "1m",
        "input_series": [
            {"series": name, "values": values} for series in group.values() for name, values in series.items()
        ],
        # Only the number of firing alerts is compared, because the annotations have values in them.
        "promql_expr_test": [
            {
                "expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}})',
                "eval_time": CASES[alert].after,
                "exp_samples": [{"labels": "{}", "value": 1}] if fires else [],
            }
            for alert in group
        ],
    }


def test_the_configuration_for_prometheus_is_valid() -> None:
    """promtool also checks the rules that the configuration names."""
    result = subprocess.run(
        ["promtool", "check", "config", str(ROOT / "monitoring" / "prometheus.yml")],
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"SUCCESS: {len(CASES)} rules found" in result.stdout


def test_every_alert_has_a_case() -> None:
    assert set(CASES) == set(re.findall(r"- alert: (\w+)", RULES.read_text()))


def test_each_alert_fires_and_stays_quiet(tmp_path: Path) -> None:
    tests = [_test(group, fires=fires) for fires in (True, False) for group in _apart(bad=fires)]
    file = tmp_path / "alerts_test.yml"  # JSON is also YAML
    file.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}))
    result = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_each_alert_has_a_severity_and_a_runbook_with_its_heading() -> None:
    for block in RULES.read_text().split("- alert: ")[1:]:
        alert = block.split("\n", 1)[0]
        assert re.search(r"severity: (page|ticket)", block), alert
        page, anchor = re.search(r"runbook_url: (\S+)#(\w+)", block).groups()
        headings = [
            line[3:].strip() for line in (ROOT / page).read_text().splitlines() if line.startswith("## ")
        ]
        assert (anchor, alert) == (alert.lower(), alert) and alert in headings, (
            f"{page} has no section {alert}"
        )
