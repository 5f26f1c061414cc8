"""`kcli doctor --connect` finds advice for the errors that workers of Apache Kafka 4.1 reported."""

from __future__ import annotations

from kcli.client.diagnosis.connect.rules import judge_connectors
from kcli.client.diagnosis.connect.state import connector_states
from rigs.golden3 import recording, steps

CONVERTER = "use the converter that the producer used"
TOLERANCE = "To leave out single bad records, set errors.tolerance=all"
DEAD_LETTERS = f"{TOLERANCE} and errors.deadletterqueue.topic.name=TOPIC"

ADVICE = {
    "none": CONVERTER,
    "none-log": CONVERTER,
    "none-dlq-headers": CONVERTER,
    "dlq-rf3": "set the replication factor to at most the number of brokers",
    "transform-none": DEAD_LETTERS,
    "flaky-none": DEAD_LETTERS,
    "put-errant-none": TOLERANCE,
    "put-boom": "put() of the connector raised this error. errors.tolerance covers only",
    "src-transform-none": f"{TOLERANCE} and errors.log.enable=true",
    "src-too-large": "set producer.override.max.request.size",
    "src-fail-poll": "correct the cause, then: kcli connect restart src-fail-poll --failed",
    "tasks-max-enforce": "raise tasks.max",
}
"""The beginning of the advice for each recorded connector that failed."""


def test_each_recorded_failure_has_its_advice() -> None:
    advice = {}
    for step in steps(recording("connect/errors.jsonl")):
        info = {"config": step["config"]}
        states = connector_states({step["id"]: {"status": step["status"], "info": info}})
        assert states, step["id"]
        for finding in judge_connectors(states, (), "http://localhost:8083", None):
            if finding.is_wrong:
                advice[step["id"]] = finding.advice
    wrong = {
        name: text for name, text in advice.items() if name in ADVICE and not text.startswith(ADVICE[name])
    }
    assert wrong == {}
    assert advice
