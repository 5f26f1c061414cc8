"""Replays recorded REST stories of Kafka Connect 4.1 against workers of kcli, and compares the answers."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic

from kcli.local_cluster.ports import free_port
from kcli.testing.broker_process import BrokerProcess
from rigs.connect_worker import RestResponse, WorkerProcess

GOLDEN = Path(os.environ.get("KCLI_GOLDEN3", Path(__file__).resolve().parents[3] / "shared" / "golden3"))
RECORDINGS = GOLDEN / "connect"

WAIT_SECONDS = 60.0
_POLL_SECONDS = 0.1
_REPEATED = re.compile(r"conflicting operation|a rebalance is expected")

OF_JAVA = re.compile(
    r"^(Cannot (invoke|deserialize|construct)|Unexpected|Unrecognized|No content|Illegal|"
    r"The template|java\.|com\.fasterxml)"
)
"""Messages of Java's libraries. They are compared only by their status."""

_FASTERXML = re.compile(r"com\.fasterxml\..*", re.DOTALL)
_PLUGINS = re.compile(r"available connectors are: .*", re.DOTALL)
_JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Difference:
    """A step whose answer differs from the recording."""

    step: str
    expected: object
    actual: object

    def __str__(self) -> str:
        return f"{self.step}\n  expected {_short(self.expected)}\n  actual   {_short(self.actual)}"


def _short(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)[:1500]


@dataclass(frozen=True, slots=True)
class Story:
    name: str
    settings: Mapping[str, object]
    steps: list[dict[str, object]] = field(default_factory=list)


def stories() -> list[Story]:
    """The recorded stories, or none where the recordings are absent."""
    if not RECORDINGS.is_dir():
        return []
    lines = map(json.loads, (RECORDINGS / "rest-stories.jsonl").read_text().splitlines())
    by_name = {line["story"]: Story(line["story"], line) for line in lines}
    for line in (RECORDINGS / "rest.jsonl").read_text().splitlines():
        step = json.loads(line)
        story = by_name.get(step["id"].partition("/")[0])
        if story is not None:
            story.steps.append(step)
    return [story for story in by_name.values() if story.steps]


class Replay:
    """One story, with a broker and workers of its own."""

    def __init__(self, story: Story, directory: Path) -> None:
        self._story = story
        self._directory = directory / "files"
        self._directory.mkdir()
        self._broker = BrokerProcess(directory / "broker", {"group.initial.rebalance.delay.ms": "0"})
        self._workers: dict[int, WorkerProcess] = {}
        self._values = {"{DIR}": str(self._directory), "{KAFKA}": "/kafka", "{FREEPORT}": str(free_port())}

    def run(self) -> Iterator[Difference]:
        """Carries out the steps, and yields the differences. Stops at a wait that does not end."""
        for name, text in dict(self._story.settings.get("files") or {}).items():  # type: ignore[call-overload]
            (self._directory / name).write_text(self._filled(text))
        self._broker.start()
        self._values["{KPORT}"] = str(self._broker.port)
        self._values["{CLUSTER_ID}"] = self._cluster_id()
        for number in range(1, int(str(self._story.settings["workers"])) + 1):
            self._workers[number] = self._worker()
            self._values[f"{{PORT{number}}}"] = str(self._workers[number].port)
        try:
            for step in self._story.steps:
                difference = self._do(step)
                if difference is not None:
                    yield difference
                    if step["do"] in ("wait", "wait-file", "start-worker"):
                        return
        finally:
            for worker in self._workers.values():
                worker.close()
            self._broker.kill()

    def _cluster_id(self) -> str:
        metadata = AdminClient({"bootstrap.servers": self._broker.bootstrap}).list_topics(timeout=30)
        return str(metadata.cluster_id)

    def _worker(self) -> WorkerProcess:
        group = f"g-{self._story.name}"
        extra = dict(self._story.settings.get("worker_config_extra") or {})  # type: ignore[call-overload]
        environment = dict(self._story.settings.get("env") or {})  # type: ignore[call-overload]
        return WorkerProcess(
            self._directory,
            self._broker.bootstrap,
            {"group.id": group} | {key: self._filled(value) for key, value in extra.items()},
            environment={key: self._filled(value) for key, value in environment.items()},
        )

    def _filled(self, text: str) -> str:
        for name, value in self._values.items():
            text = text.replace(name, value)
        return text

    # Steps.

    def _do(self, step: dict[str, object]) -> Difference | None:
        id = str(step["id"])
        match step["do"]:
            case "http":
                return self._compared(step, self._answer(step))
            case "wait":
                return self._wait(step)
            case "file":
                path = Path(self._filled(str(step["file"])))
                with path.open("a" if step["mode"] == "append" else "w") as file:
                    file.write(self._filled(str(step["text"])))
            case "mkdir":
                Path(self._filled(str(step.get("dir") or step.get("file")))).mkdir(
                    parents=True, exist_ok=True
                )
            case "wait-file":
                return self._wait_for_file(step)
            case "produce":
                self._produce(step)
            case "create-topic":
                self._create_topic(step)
            case "sleep":
                time.sleep(float(str(step["seconds"])))
            case "start-worker":
                ready = 401 if "rest.extension.classes" in str(self._story.settings) else 200
                try:
                    self._at(step).start(ready_status=ready)
                except RuntimeError as error:
                    return Difference(id, "a worker that starts", str(error))
            case "stop-worker":
                self._at(step).stop()
            case "kill-worker":
                self._at(step).kill()
            case other:
                return Difference(id, "a known step", other)
        return None

    def _at(self, step: Mapping[str, object]) -> WorkerProcess:
        return self._workers[int(str(step["worker"]))]

    def _answer(self, step: Mapping[str, object]) -> RestResponse:
        body = step.get("request_body")
        recorded = step.get("request_headers")
        headers = (
            {str(key): self._filled(str(value)) for key, value in recorded.items()}
            if isinstance(recorded, dict)
            else None
        )
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            answer = self._at(step).request(
                str(step["method"]),
                self._filled(str(step["path"])),
                headers=headers,
                text=None if body is None else self._filled(str(body)),
            )
            if not _REPEATED.search(answer.text) or time.monotonic() > deadline:
                return answer
            time.sleep(1)

    def _wait(self, step: dict[str, object]) -> Difference | None:
        deadline = time.monotonic() + WAIT_SECONDS
        worker_ids = {str(number): f"127.0.0.1:{worker.port}" for number, worker in self._workers.items()}
        while True:
            answer = self._answer(step)
            if _reached(str(step["until"]), answer, worker_ids):
                return self._compared(step, answer)
            if time.monotonic() > deadline:
                return Difference(str(step["id"]), step["until"], answer.text)
            time.sleep(_POLL_SECONDS)

    def _wait_for_file(self, step: Mapping[str, object]) -> Difference | None:
        path, text = Path(self._filled(str(step["file"]))), self._filled(str(step["text"]))
        deadline = time.monotonic() + WAIT_SECONDS
        content = ""
        while time.monotonic() < deadline:
            content = path.read_text() if path.exists() else ""
            if content == text:
                return None
            time.sleep(_POLL_SECONDS)
        return Difference(str(step["id"]), text, content)

    def _produce(self, step: Mapping[str, object]) -> None:
        producer = confluent_kafka.Producer({"bootstrap.servers": self._broker.bootstrap})
        records = step["records"]
        assert isinstance(records, list)
        for value in records:
            producer.produce(
                str(step["topic"]),
                value=self._filled(value),
                partition=int(str(step["partition"])),
                timestamp=int(str(step["timestamp"])),
            )
        producer.flush(30)

    def _create_topic(self, step: Mapping[str, object]) -> None:
        admin = AdminClient({"bootstrap.servers": self._broker.bootstrap})
        topic = NewTopic(str(step["topic"]), int(str(step.get("partitions", 1))), 1)
        admin.create_topics([topic])[str(step["topic"])].result(30)

    # Comparison.

    def _compared(self, step: Mapping[str, object], answer: RestResponse) -> Difference | None:
        recorded = step["response"]
        assert isinstance(recorded, dict)
        candidates = [recorded] + ([step["alt_response"]] if step.get("alt_response") else [])
        actual = self._actual(answer)
        pointers = [str(pointer) for pointer in step.get("volatile") or ()]  # type: ignore[attr-defined]
        # Lists are compared without order, so that the place of an item says nothing.
        volatile = [
            pointer.removeprefix("/response")
            for pointer in pointers
            if pointer.startswith("/response/body") and not re.search(r"/\d+/", pointer)
        ]
        differences = [
            self._difference(str(step["path"]), candidate, actual, volatile) for candidate in candidates
        ]
        if None in differences:
            return None
        expected, got = differences[0]
        return Difference(f"{step['id']} {step['method']} {step['path']}", expected, got)

    def _without_workers(self, value: dict[str, object]) -> dict[str, object]:
        """Which worker has a task depends on the random member ids of the workers."""
        text = json.dumps(value)
        for worker in self._workers.values():
            text = text.replace(f'"worker_id": "127.0.0.1:{worker.port}"', '"worker_id": "a worker"')
        return dict(json.loads(text))

    def _actual(self, answer: RestResponse) -> dict[str, object]:
        headers = {name.lower(): value for name, value in answer.headers.items()}
        kept = {name: headers[name] for name in ("location", "content-type", "allow") if name in headers}
        body = answer.body if answer.text else ""
        return {"status": answer.status, "headers": kept, "body": body if body is not None else answer.text}

    def _difference(
        self,
        path: str,
        recorded: Mapping[str, object],
        actual: Mapping[str, object],
        volatile: list[str],
    ) -> tuple[object, object] | None:
        expected = json.loads(self._filled(json.dumps(recorded)))
        headers = {str(name).lower(): value for name, value in expected["headers"]}
        is_page = "text/html" in headers.get("content-type", "")
        body = expected.get("body", expected.get("text", ""))
        names = ("location", "allow") if is_page else ("location", "content-type", "allow")
        left = {
            "status": expected["status"],
            "headers": {name: headers[name] for name in names if name in headers},
            "body": "" if is_page else body,
        }
        right = dict(actual)
        shown = actual["headers"]
        assert isinstance(shown, dict)
        right["headers"] = {name: value for name, value in shown.items() if name in names}
        if is_page:
            right["body"] = ""
        for pointer in volatile:
            _remove(left, pointer)
            _remove(right, pointer)
        wanted, got = left.get("body"), right.get("body")
        if isinstance(wanted, dict) and isinstance(got, dict) and OF_JAVA.match(str(wanted.get("message"))):
            wanted = {**wanted, "message": got.get("message")}
        if path.startswith("/connector-plugins"):
            wanted, got = _plugins(wanted), _plugins(got)
        if path.rstrip("/") == "/admin/loggers" and _are_loggers(got):
            wanted = got = "levels of loggers"
        left["body"], right["body"] = wanted, got
        if len(self._workers) > 1:
            left, right = self._without_workers(left), self._without_workers(right)
        expected_part, actual_part = canonical(left), canonical(right)
        return None if expected_part == actual_part else different_parts(expected_part, actual_part)


def different_parts(left: object, right: object) -> tuple[object, object]:
    """Leaves out what is equal, so that a report is short."""
    if isinstance(left, dict) and isinstance(right, dict):
        keys = [key for key in {**left, **right} if left.get(key, _ABSENT) != right.get(key, _ABSENT)]
        pairs = {key: different_parts(left.get(key, _ABSENT), right.get(key, _ABSENT)) for key in keys}
        return {key: pair[0] for key, pair in pairs.items()}, {key: pair[1] for key, pair in pairs.items()}
    if isinstance(left, list) and isinstance(right, list):
        return [item for item in left if item not in right], [item for item in right if item not in left]
    return left, right


_ABSENT = "(absent)"


def _remove(value: object, pointer: str) -> None:
    """Removes what a JSON pointer names, because it differed between two recordings."""
    *path, last = pointer.strip("/").split("/")
    for part in path:
        if not isinstance(value, dict):
            return
        value = value.get(part)
    if isinstance(value, dict):
        value.pop(last, None)


_OF_KAFKA = "org.apache.kafka."
_OF_OTHERS = ("io.confluent.", "io.debezium.")
"""The packages of converters and transformations that kcli has beside Kafka's."""


def canonical(value: object, name: str = "") -> object:
    """The comparable part of an answer: lists without order, Java's traces by their first and their cause lines."""
    match value:
        case dict():
            if "level" in value and "last_modified" in value:
                return {**value, "last_modified": value["last_modified"] is not None}
            return {key: canonical(item, key) for key, item in value.items() if key != "documentation"}
        case list():
            items = [canonical(item, name) for item in value]
            if name == "recommended_values":  # as in Kafka, which has only its own plugins
                items = [item for item in items if not str(item).startswith(_OF_OTHERS)]
            return sorted(items, key=lambda item: json.dumps(item, sort_keys=True))
        case str() if name == "trace":
            lines = value.splitlines()
            causes = [line for line in lines[1:] if line.startswith("Caused by:")]
            return [_FASTERXML.sub("", _message(line)) for line in (lines[:1] + causes)]
        case str() if name == "message":
            return _message(value)
        case str() if name == "allow":
            return sorted(part.strip() for part in value.split(","))
        case str() if name == "{MS}":
            return None
        case _:
            return value


def _plugins(body: object) -> object:
    """A list of plugins without those that kcli has beside Kafka's."""
    if not isinstance(body, list) or not all(isinstance(one, dict) and "class" in one for one in body):
        return body
    return [one for one in body if one["class"].startswith(_OF_KAFKA)]


def _are_loggers(body: object) -> bool:
    return isinstance(body, dict) and all(
        isinstance(one, dict) and one.keys() == {"level", "last_modified"} for one in body.values()
    )


def _message(text: str) -> str:
    return _PLUGINS.sub("available connectors are: …", text)


def _runs(status: Mapping[str, object], worker: str | None) -> bool:
    """Whether a connector and all its tasks run, on one worker if it is given."""
    connector, tasks = status["connector"], status["tasks"]
    assert isinstance(connector, dict)
    assert isinstance(tasks, list)
    parts = [connector, *tasks]
    return bool(tasks) and all(
        part["state"] == "RUNNING" and worker in (None, part["worker_id"]) for part in parts
    )


def _reached(until: str, answer: RestResponse, worker_ids: Mapping[str, str]) -> bool:
    """Whether an answer fits a recorded condition, such as `connector RUNNING, tasks ['RUNNING']`."""
    body = answer.body
    if until.startswith("status "):
        return answer.status == int(until.split()[1])
    if until == "list steady":
        return answer.status == 200
    if until == "topics empty":
        return isinstance(body, dict) and all(not item["topics"] for item in body.values())
    if until.startswith("all RUNNING"):
        worker = worker_ids.get(until.removeprefix("all RUNNING on worker "))
        if not isinstance(body, dict) or answer.status != 200:
            return False
        states = [body] if "connector" in body else [item["status"] for item in body.values()]
        return bool(states) and all(_runs(state, worker) for state in states)
    if until == "offsets not empty":
        return isinstance(body, dict) and bool(body.get("offsets"))
    if until.startswith("kafka_offset "):
        return f'"kafka_offset":{until.split()[1]}' in answer.text.replace(" ", "")
    match = re.fullmatch(r"connector (\w+)(?:, tasks (\[.*\]))?", until)
    if match is None:
        return answer.status == 200 and until in answer.text
    if not isinstance(body, dict) or "connector" not in body:
        return False
    tasks = None if match.group(2) is None else sorted(json.loads(match.group(2).replace("'", '"')))
    states = sorted(task["state"] for task in body["tasks"])
    return body["connector"]["state"] == match.group(1) and (tasks is None or tasks == states)
