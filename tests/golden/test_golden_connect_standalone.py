"""Runs of connect-standalone.sh recorded from Kafka Connect 4.1: exit codes, offset files, answers and messages."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from kcli.testing.broker_process import BrokerProcess
from rigs.connect_standalone import Case, Place, Run, cases
from rigs.connect_stories import Difference

ABSENT = "the recordings of Kafka Connect 4.1 are absent"

RUNS_AT_ONCE = 4

LONG = ("no-broker",)
"""A run that waits a minute for a broker. `make full` replays it."""

NOT_REPLAYED = {
    "no-plugin-path": "the file connectors are part of kcli, so the worker runs without plugin.path"
}

KNOWN: dict[str, str] = {
    "rest/output": "Java logs a trace for each answer with status 500",
    "help/exit": "--help shows the options of the command",
    "help/output": "the same",
    "help-second/exit": "the same",
    "help-second/output": "the same",
    "bad-bootstrap/output": "kcli names the setting and its value",
}
"""Parts of a run that differ from the recording, with the reason."""

UNSTEADY = {
    "rest/11": "whether the sink has read its two records before it is stopped",
    "second-bad/offsets": "whether the source has read its lines before the second connector fails",
    "same-name-twice/offsets": "the same",
    "json-flat/offsets": "whether the source has read its line before the worker stops",
}
"""Parts that are equal only in some runs."""


@pytest.mark.skipif(not cases(), reason=ABSENT)
def test_recorded_runs_are_equal(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    chosen = [
        case
        for case in cases()
        if case["id"] not in NOT_REPLAYED and (case["id"] not in LONG or request.config.getoption("--full"))
    ]
    with BrokerProcess(tmp_path / "broker", {"group.initial.rebalance.delay.ms": "0"}) as broker:
        metadata = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=30)
        place = Place(broker.bootstrap, str(metadata.cluster_id))

        def replay(case: Case) -> list[Difference]:
            directory = tmp_path / str(case["id"])
            directory.mkdir()
            return list(Run(case, place, directory).differences())

        with ThreadPoolExecutor(RUNS_AT_ONCE) as pool:
            results = list(pool.map(replay, chosen))
    differences = [difference for result in results for difference in result]
    new = [
        str(difference) for difference in differences if difference.step.split()[0] not in {*KNOWN, *UNSTEADY}
    ]
    assert not new, f"{len(new)} parts of {len(chosen)} runs differ:\n" + "\n".join(new)
    assert not KNOWN.keys() - {difference.step.split()[0] for difference in differences}, (
        "remove what is equal"
    )
