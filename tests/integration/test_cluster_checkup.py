"""`kcli doctor --check-up` on three real nodes, in which faults were planted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from kcli.testing.cluster_processes import ClusterProcesses

PATIENCE_S = 60


def kcli(bootstrap: str, *words: str, code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "kcli", *words, "--bootstrap-server", bootstrap],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def check_up(bootstrap: str, code: int) -> dict[str, dict[str, Any]]:
    """The findings by the names of their checks."""
    words = ("doctor", "--check-up", "--looks", "1", "--output", "json", "--timeout", "15000")
    lines = kcli(bootstrap, *words, code=code).splitlines()
    return {found["check"]: found for found in map(json.loads, lines)}


def test_planted_faults_are_found_with_their_evidence(tmp_path: Path) -> None:
    overrides = {"broker.session.timeout.ms": "6000", "replica.lag.time.max.ms": "2000"}
    cluster = ClusterProcesses(tmp_path, nodes=3, overrides=overrides)
    cluster.nodes[2].overrides["log.retention.hours"] = "5"
    cluster.create()
    with cluster:
        everywhere = cluster.bootstrap
        kcli(
            everywhere,
            "topics",
            "--create",
            "--topic",
            "good",
            "--partitions",
            "3",
            "--replication-factor",
            "3",
        )
        healthy = check_up(everywhere, 0)
        assert healthy.keys() == {"broker-configs", "not-checked"}, healthy
        assert healthy["broker-configs"]["evidence"] == [
            "log.retention.hours: broker 1=168, broker 2=5, broker 3=168"
        ]

        kcli(
            everywhere, "topics", "--create", "--topic", "strict", "--replica-assignment", "3:1:2",
            "--config", "min.insync.replicas=3",
        )  # fmt: skip
        kcli(everywhere, "topics", "--create", "--topic", "single", "--replica-assignment", "3")
        leaders = ",".join(["1:2:3"] * 12)
        kcli(everywhere, "topics", "--create", "--topic", "heavy", "--replica-assignment", leaders)
        cluster.nodes[3].kill()
        left = ",".join(cluster.nodes[number].bootstrap for number in (1, 2))
        found: dict[str, dict[str, Any]] = {}
        deadline = time.monotonic() + PATIENCE_S
        while "fenced-broker" not in found or "under-min-isr" not in found:
            assert time.monotonic() < deadline, found
            found = check_up(left, 1) if found else _until_fenced(left)
        assert found["no-leader"]["evidence"] == ["single-0: replicas 3"]
        assert found["under-min-isr"]["evidence"] == ["strict-0: 2 in sync (ids 1,2), min.insync.replicas 3"]
        assert "broker 3: " in found["under-replicated"]["text"]
        assert found["one-replica"]["evidence"] == ["single"]
        assert found["min-isr"]["command"].endswith("--entity-name strict --add-config min.insync.replicas=2")
        assert found["fenced-broker"]["subject"] == "broker 3"
        assert "Broker 1 leads more than 1.25 times" in found["uneven-leaders"]["text"]
        severities = {name: each["severity"] for name, each in found.items()}
        assert severities["no-leader"] == severities["under-min-isr"] == "CRITICAL"
        assert severities["one-replica"] == "WARNING"


def _until_fenced(bootstrap: str) -> dict[str, dict[str, Any]]:
    """Waits until the cluster has noticed that a broker is gone, because its partitions have other replicas in sync."""
    deadline = time.monotonic() + PATIENCE_S
    while "Isr: 1,2" not in kcli(bootstrap, "topics", "--describe", "--topic", "strict"):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    return check_up(bootstrap, 1)
