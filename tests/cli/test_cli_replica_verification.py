"""replica-verification on a real broker, as a process that is stopped."""

from __future__ import annotations

import signal
import subprocess
import sys

from kcli.testing.broker_process import BrokerProcess

KCLI = [sys.executable, "-m", "kcli"]
INTERRUPTED = 130


def test_it_follows_a_partition_to_its_end(broker: BrokerProcess) -> None:
    topic = "verified"
    servers = ("--bootstrap-server", broker.bootstrap)
    subprocess.run([*KCLI, "topics", *servers, "--create", "--topic", topic], check=True, timeout=60)
    subprocess.run(
        [*KCLI, "console-producer", *servers, "--topic", topic], input=b"a\nb\nc\n", check=True, timeout=60
    )
    words = ["--broker-list", broker.bootstrap, "--topics-include", topic, "--time", "-2"]
    words += ["--report-interval-ms", "1", "--max-wait-ms", "50"]
    with subprocess.Popen(
        [*KCLI, "replica-verification", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        started, *reports = [process.stdout.readline() for _ in range(4)]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert started.endswith(": verification process is started\n")
    end = f": max lag is 0 for partition {topic}-0 at offset 3 among 1 partitions\n"
    assert reports[-1].endswith(end)
    assert process.returncode == INTERRUPTED
