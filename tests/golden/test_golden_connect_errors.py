"""Forty connectors that meet bad data, recorded with Kafka Connect 4.1.0: states, traces, offsets, files, dead letters
and log lines.

All of them run at the same time, because most of their time is a wait. Of a trace, the classes and messages are
compared. The messages of Java's own libraries are not, because only their classes mean anything here.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kcli.connect.model import State, TaskId
from kcli.formats.connect.errors import ConnectException
from rigs import connect_engine, golden3, node
from rigs.connect_engine import World
from rigs.loops import on_a_loop

CASES_MIN = 30
"""The connectors that a recording has at least."""
PATIENCE_S = 20.0
JSON_CONVERTER = connect_engine.JSON

_DELETED = "the recorded broker had deleted the old records (retention.ms) before the topic was read"
KNOWN: dict[str, str] = {
    "all-dlq-headers/topic all-dlq-headers": _DELETED,
    "all-dlq-headers/topic all-dlq-headers-dlq": _DELETED,
}

_FRAME = re.compile(r"\n(?:\tat |\t\.\.\. | at \[Source)[^\n]*")
_LIBRARY = re.compile(r"((?:java\.(?:lang|util|io|nio)|com\.fasterxml)[\w.$]*(?:Exception|Error)): [^\n]*")
_MILLISECONDS = re.compile(r"timestamp=17\d{11}(?=, headers)")
# The delays between attempts are random, so the last attempt has another number in each run.
_ATTEMPT = re.compile(r"attempt \d+$", re.M)
Case = Mapping[str, Any]


class Lines(logging.Handler):
    """Keeps the warnings and errors of tasks, as Java's log writes them."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        level = {"WARNING": "WARN"}.get(record.levelname, record.levelname)
        first, _, rest = record.getMessage().partition("\n")
        if record.exc_info and record.exc_info[1] is not None:
            from kcli.connect.tasks.traces import java_trace

            rest = java_trace(record.exc_info[1])
        self.lines.append(f"{level} {first} ({record.name})\n{rest}".rstrip("\n"))


def comparable(text: str | None) -> str | None:
    """A trace or a line of a log without frames, numbers of lines, and messages of Java's libraries."""
    if text is None:
        return None
    text = _LIBRARY.sub(r"\1", _FRAME.sub("", text))
    text = re.sub(r"\(([\w.]+):\d+\)$", r"(\1)", text, flags=re.M)
    text = _ATTEMPT.sub("attempt {N}", text)
    return _MILLISECONDS.sub("timestamp={MS}", text).rstrip("\n")


def with_directory(value: Any, directory: Path) -> Any:
    return json.loads(json.dumps(value).replace("{DIR}", str(directory)))


def bytes_of(part: object) -> bytes | None:
    if isinstance(part, Mapping):
        return base64.b64decode(part["base64"])
    return None if part is None else str(part).encode()


def produce_inputs(port: int, cases: Sequence[Case]) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": f"127.0.0.1:{port}", "linger.ms": 5})
    for case in cases:
        for item in case["input"] or ():
            record = item if isinstance(item, Mapping) else {"value": item}
            producer.produce(
                case["id"],
                bytes_of(record.get("value")),
                bytes_of(record.get("key")),
                0,
                timestamp=1_700_000_000_000,
                headers=[(name, bytes_of(value)) for name, value in record.get("headers") or ()],
            )
    assert producer.flush(PATIENCE_S) == 0


def read_topics(port: int) -> dict[str, list[dict[str, Any]]]:
    """All records of all topics, in the form of the recording."""
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    consumer = Consumer(
        {"bootstrap.servers": f"127.0.0.1:{port}", "group.id": "reader", "enable.partition.eof": True}
    )
    names = [name for name in consumer.list_topics(timeout=PATIENCE_S).topics if not name.startswith("__")]
    topics: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    consumer.assign([TopicPartition(name, 0, 0) for name in names])
    left = set(names)
    while left:
        message = consumer.poll(PATIENCE_S)
        assert message is not None, left
        if message.error() is not None:
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            left.discard(message.topic())
            continue
        key, value = (
            None if part is None else base64.b64encode(part).decode()
            for part in (message.key(), message.value())
        )
        headers = [
            [name, None if content is None else content.decode()] for name, content in message.headers() or ()
        ]
        topics[message.topic()].append({"key": key, "value": value, "headers": headers})
    consumer.close()
    return topics


def records_of(records: Sequence[Mapping[str, Any]] | None) -> object:
    """The records of a topic in their order by key, because several tasks write in any order."""
    if records is None:
        return None
    found = [[r["key"], r["value"], [[n, comparable(v)] for n, v in r["headers"]]] for r in records]
    return sorted(found, key=lambda record: str(record[0]))


async def start(it: World, case: Case, directory: Path) -> None:
    config = with_directory(case["config"], directory)
    with contextlib.suppress(ConnectException):  # a recorded failure, which the statuses show
        await it.start(case["id"], config)


def states(it: World, case: Case) -> list[tuple[int, State | None]]:
    numbers = [-1, *(task["id"] for task in case["status"]["tasks"])]
    return [(number, it.statuses.last.get(TaskId(case["id"], number), (None, None))[0]) for number in numbers]


def recorded_states(case: Case) -> list[tuple[int, State]]:
    status = case["status"]
    tasks = [(task["id"], State(task["state"])) for task in status["tasks"]]
    return [(-1, State(status["connector"]["state"])), *tasks]


def file_of(case: Case, directory: Path) -> str | None:
    file = directory / f"{case['id']}.out"
    return file.read_text() if file.exists() else None


async def offsets(it: World, case: Case, directory: Path) -> list[str]:
    config = with_directory(case["config"], directory)
    pairs = await it.engine.offsets(case["id"], config)
    return sorted(json.dumps([partition, offset], sort_keys=True) for partition, offset in pairs)


def recorded_offsets(case: Case, directory: Path) -> list[str]:
    items = with_directory(case["offsets"]["offsets"], directory)
    return sorted(json.dumps([item["partition"], item["offset"]], sort_keys=True) for item in items)


async def looks_as_recorded(it: World, case: Case, directory: Path) -> bool:
    return (
        states(it, case) == recorded_states(case)
        and file_of(case, directory) == case["sink_file"]
        and await offsets(it, case, directory) == recorded_offsets(case, directory)
    )


async def settled(it: World, case: Case, directory: Path) -> None:
    """Waits until the connector looks as recorded, or until the patience is over."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE_S):
            while True:
                if await looks_as_recorded(it, case, directory):
                    return
                await asyncio.sleep(0.2)


def compare(case: Case, it: World, directory: Path, lines: Sequence[str]) -> dict[str, str]:
    """The differences of a case, except those of its topics and offsets."""
    pairs: dict[str, tuple[object, object]] = {"states": (states(it, case), recorded_states(case))}
    for place in (case["status"]["connector"], *case["status"]["tasks"]):
        trace = it.statuses.last.get(TaskId(case["id"], place.get("id", -1)), (None, None))[1]
        pairs[f"trace of {place.get('id', 'connector')}"] = (
            comparable(trace),
            comparable(place.get("trace")),
        )
    pairs["file"] = (file_of(case, directory), case["sink_file"])
    own = sorted(str(comparable(line)) for line in lines if f"[{case['id']}|" in line.partition("\n")[0])
    pairs["log"] = (own, sorted(str(comparable(line)) for line in with_directory(case["log"], directory)))
    return differences(case, pairs)


def differences(case: Case, pairs: Mapping[str, tuple[object, object]]) -> dict[str, str]:
    return {
        f"{case['id']}/{what}": f"\n  ours  {ours}\n  Kafka {theirs}"
        for what, (ours, theirs) in pairs.items()
        if ours != theirs
    }


@on_a_loop
async def test_connectors_that_meet_bad_data_behave_as_recorded(tmp_path: Path) -> None:
    cases = list(golden3.steps(golden3.recording("connect/errors.jsonl")))
    assert len(cases) >= CASES_MIN
    for case in cases:
        if case["input_file"] is not None:
            (tmp_path / f"{case['id']}.in").write_text(case["input_file"])
    lines = Lines()
    logging.getLogger().addHandler(lines)
    actual: dict[str, str] = {}
    keys = {
        "key_converter": JSON_CONVERTER,
        "value_converter": JSON_CONVERTER,
        "header_converter": "org.apache.kafka.connect.storage.SimpleHeaderConverter",
        "offset_flush_interval_ms": "1000",
    }
    try:
        async with (
            node.running(tmp_path / "data", num_partitions="1", log_retention_ms="-1") as broker,
            connect_engine.running(broker.port(), **keys) as it,
        ):
            await asyncio.to_thread(produce_inputs, broker.port(), cases)
            await asyncio.gather(*(start(it, case, tmp_path) for case in cases))
            await asyncio.gather(*(settled(it, case, tmp_path) for case in cases))
            topics = await asyncio.to_thread(read_topics, broker.port())
            for case in cases:
                actual |= compare(case, it, tmp_path, lines.lines)
                pairs: dict[str, tuple[object, object]] = {
                    "offsets": (await offsets(it, case, tmp_path), recorded_offsets(case, tmp_path))
                }
                for name, records in case["topics"].items():
                    pairs[f"topic {name}"] = (records_of(topics.get(name)), records_of(records))
                actual |= differences(case, pairs)
    finally:
        logging.getLogger().removeHandler(lines)
    golden3.check_differences(actual, KNOWN)
