"""Random transactions over several partitions by producers that are killed, and a broker that is too; then the judge.

Each producer tells in lines of JSON what it is about to do before it does it, so that its history is known wherever
it was killed.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kcli.testing.broker_process import BrokerProcess
from rigs.transaction_histories import TIMEOUT, broker_with_topic, committed_log
from simulation.checks.history import Outcome, Transaction, anomalies, write_cycles

pytestmark = pytest.mark.compat

RUN_SECONDS = 12

PRODUCER = """
import json, random, sys, time
from confluent_kafka import Producer
bootstrap, name, first, takes_turns = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "turns"
def say(what, **more):
    print(json.dumps({"what": what, "at": time.monotonic(), **more}), flush=True)
producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "linger.ms": 1})
producer.init_transactions(30)
number = first
while True:
    if takes_turns:
        say("ready")
        sys.stdin.readline()
    commits = random.random() < 0.7
    writes = [(random.randrange(4), f"{name}/{number}/{nth}") for nth in range(random.randint(1, 6))]
    say("begin", number=number, writes=writes)
    producer.begin_transaction()
    for partition, value in writes:
        producer.produce("registers", value, partition=partition)
        if random.random() < 0.3:
            producer.flush()
    if commits:
        say("commit", number=number)
        producer.commit_transaction(30)
        say("committed", number=number)
    else:
        producer.abort_transaction(30)
        say("aborted", number=number)
    number += 1
"""


class Worker:
    """A producer's process. After each death it starts again under the same transactional id."""

    def __init__(self, script: Path, bootstrap: str, name: str, *, turns: bool = False) -> None:
        self._command = [sys.executable, str(script), bootstrap, name]
        self._turns = turns
        self.history: dict[int, Transaction] = {}
        self.name = name
        self.ready = threading.Event()
        self.start()

    def start(self) -> None:
        first = len(self.history)
        how = "turns" if self._turns else "free"
        self.process = subprocess.Popen(
            [*self._command, str(first), how],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._reader = threading.Thread(target=self._listen, args=(self.process,))
        self._reader.start()

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if not line.endswith("\n"):
                return  # killed in the middle of a word
            event = json.loads(line)
            at = event["at"]
            match event["what"]:
                case "ready":
                    self.ready.set()
                case "begin":
                    writes = [(partition, value) for partition, value in event["writes"]]
                    transaction = Transaction(self.name, event["number"], at, writes=writes)
                    self.history[event["number"]] = transaction
                case "commit":
                    self.history[event["number"]].outcome = Outcome.UNKNOWN
                case "committed":
                    self.history[event["number"]].outcome = Outcome.COMMITTED
                    self.history[event["number"]].ended = at

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()

    def turn(self) -> None:
        """One transaction from its begin to its end."""
        assert self.ready.wait(TIMEOUT)
        self.ready.clear()
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        assert self.ready.wait(TIMEOUT), "the transaction did not end"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with broker_with_topic(tmp_path / "broker") as running:
        yield running


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "producer.py"
    path.write_text(PRODUCER)
    return path


def finish(broker: BrokerProcess, workers: list[Worker]) -> None:
    """Ends what the last incarnations left open, as their successors would."""
    for worker in workers:
        worker.kill()
        Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": worker.name}).init_transactions(
            TIMEOUT
        )


def is_enough(workers: list[Worker]) -> bool:
    outcomes = [transaction.outcome for worker in workers for transaction in tuple(worker.history.values())]
    return outcomes.count(Outcome.COMMITTED) > 20 and outcomes.count(Outcome.ABORTED) > 10


def test_histories_with_kills_have_no_anomalies(broker: BrokerProcess, script: Path) -> None:
    workers = [Worker(script, broker.bootstrap, f"writer-{number}") for number in range(3)]
    chosen = random.Random()
    begun = time.monotonic()
    kills = 0
    while time.monotonic() < begun + RUN_SECONDS or not is_enough(workers):
        assert time.monotonic() < begun + RUN_SECONDS + TIMEOUT, "hardly a transaction ends"
        time.sleep(chosen.uniform(0.2, 1.0))
        kills += 1
        if kills % 4 == 0:
            broker.kill()
            broker.start()
        else:
            worker = chosen.choice(workers)
            worker.kill()
            worker.start()
    finish(broker, workers)
    history = [transaction for worker in workers for transaction in worker.history.values()]
    log = committed_log(broker)
    assert anomalies(history, log) == []


def test_transactions_that_take_turns_have_no_write_cycles(broker: BrokerProcess, script: Path) -> None:
    workers = [Worker(script, broker.bootstrap, f"writer-{number}", turns=True) for number in range(3)]
    for _ in range(60):
        random.choice(workers).turn()
    finish(broker, workers)
    history = [transaction for worker in workers for transaction in worker.history.values()]
    log = committed_log(broker)
    assert anomalies(history, log) == []
    assert write_cycles(history, log) == []
    assert sum(map(len, log.values())) > 60
