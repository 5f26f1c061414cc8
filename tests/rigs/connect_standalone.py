"""Replays recorded runs of connect-standalone.sh of Kafka Connect 4.1."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kcli.connect.stores.java_map import InvalidMap, decode_map, encode_map
from kcli.local_cluster.ports import free_port
from rigs.connect_stories import OF_JAVA, RECORDINGS, Difference, canonical, different_parts
from rigs.connect_worker import rest_request

READY_SECONDS = 60.0
STEP_SECONDS = 30.0
END_SECONDS = 120.0
_POLL_SECONDS = 0.05

Case = Mapping[str, object]

_PLACE = re.compile(r" \([\w.$]+(:\d+)?\)$")
_EXCEPTION = re.compile(r"^(?:[\w.$]+Exception: )+(.*)")
_TOLD = ("Kafka Connect started", "Kafka Connect stopped", "Created connector ", "Usage: ")
"""Lines of the log at INFO that users look for."""


@dataclass(frozen=True, slots=True)
class Place:
    """The broker of all cases."""

    bootstrap: str
    cluster_id: str


def cases() -> list[Case]:
    """The recorded runs, or none where the recordings are absent."""
    file = RECORDINGS / "standalone" / "standalone.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []


def decoded(content: object) -> object:
    """The entries of an offset file. Java writes them in the order of the addresses of its objects."""
    if content is None:
        return None
    octets = base64.b64decode(str(content))
    try:
        entries = decode_map(octets)
    except InvalidMap:
        return octets.hex()
    if encode_map(entries) != octets and len(entries) < 2:
        return octets.hex()  # not the bytes that Java would write
    return {str(key): str(value) for key, value in entries.items()}


class Run:
    """One recorded run, in a directory of its own."""

    def __init__(self, case: Case, place: Place, directory: Path) -> None:
        self._case = case
        self._directory = directory
        self._port = free_port()
        self._values = {
            "{DIR}": str(directory),
            "{ID}": str(case["id"]),
            "{PORT1}": str(self._port),
            "{KPORT}": place.bootstrap.rpartition(":")[2],
            "{FREEPORT}": str(free_port()),
            "{CLUSTER_ID}": place.cluster_id,
            "{KAFKA}": "/kafka",
        }
        self._log = directory / "log"
        self._process: subprocess.Popen[bytes] | None = None

    def differences(self) -> Iterator[Difference]:
        case = self._case
        for name, text in dict(case["files"]).items():  # type: ignore[call-overload]
            (self._directory / name).write_text(self._filled(text))
        properties = dict(case["worker"])  # type: ignore[call-overload]
        (self._directory / "worker.properties").write_text(
            "".join(f"{key}={self._filled(value)}\n" for key, value in properties.items())
        )
        self._start()
        try:
            if case["exit"] == 128 + signal.SIGTERM:
                self._wait_until_ready()
            for number, step in enumerate(case["steps"]):
                yield from self._step(f"{case['id']}/{number}", step)
            yield from self._ended()
        finally:
            assert self._process is not None, "started"
            self._process.kill()
            self._process.wait()
            if self._process.stdin is not None:
                self._process.stdin.close()

    def _filled(self, text: str) -> str:
        for name, value in self._values.items():
            text = text.replace(name, value)
        return text

    def _start(self) -> None:
        stdin = self._case["stdin"]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "kcli", "connect-standalone", *map(self._filled, self._case["args"])],  # type: ignore[call-overload]
                stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._directory,
                env=os.environ | {"PYTHONUNBUFFERED": "1"},
            )
        if stdin is not None:
            assert self._process.stdin is not None
            self._process.stdin.write(str(stdin).encode())
            self._process.stdin.flush()

    def _wait_until_ready(self) -> None:
        """Waits until the worker has started, and its connectors are created."""
        output = self._case["output"]
        assert isinstance(output, list)
        created = sum("Created connector " in text for text in self._told(map(str, output)))
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            text = self._output()
            if "Kafka Connect started" in text and text.count("Created connector ") >= created:
                return
            if self._process is not None and self._process.poll() is not None:
                return
            time.sleep(_POLL_SECONDS)

    def _output(self) -> str:
        return self._log.read_text(errors="replace")

    def _step(self, id: str, step: Mapping[str, object]) -> Iterator[Difference]:
        match step["do"]:
            case "append":
                with (self._directory / str(step["file"])).open("a") as file:
                    file.write(self._filled(str(step["text"])))
            case "read":
                expected = self._filled(str(step["text"]))
                yield from self._eventually(id, expected, lambda: self._text(str(step["file"])))
            case "offsets-file":
                yield from self._eventually(id, decoded(step["base64"]), self._offsets)
            case "restart":
                self._stop()
                self._log.write_text("")
                self._start()
                self._wait_until_ready()
            case "http":
                yield from self._http(id, step)

    def _text(self, name: str) -> str:
        path = self._directory / name
        return path.read_text() if path.exists() else ""

    def _offsets(self) -> object:
        path = self._directory / "connect.offsets"
        return decoded(base64.b64encode(path.read_bytes()).decode()) if path.exists() else None

    def _eventually(self, id: str, expected: object, read: Callable[[], object]) -> Iterator[Difference]:
        deadline = time.monotonic() + STEP_SECONDS
        actual = read()
        while actual != expected and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
            actual = read()
        if actual != expected:
            yield Difference(id, expected, actual)

    def _http(self, id: str, step: Mapping[str, object]) -> Iterator[Difference]:
        """Compares an answer. A read is repeated for a while, because the recorded client asked later."""
        deadline = time.monotonic() + (STEP_SECONDS if step["method"] == "GET" else 0)
        while differences := list(self._answer(id, step)):
            if time.monotonic() > deadline:
                yield from differences
                return
            time.sleep(_POLL_SECONDS)

    def _answer(self, id: str, step: Mapping[str, object]) -> Iterator[Difference]:
        body = step.get("request_body")
        text = None if body is None else self._filled(body if isinstance(body, str) else json.dumps(body))
        url = f"http://127.0.0.1:{self._port}{self._filled(str(step['path']))}"
        try:
            answer = rest_request(url, str(step["method"]), text=text)
        except OSError as error:
            if "error" not in step:
                yield Difference(id, step.get("body"), str(error))
            return
        expected = json.loads(
            self._filled(json.dumps({"status": step["status"], "body": step.get("body", "")}))
        )
        wanted, got = expected["body"], answer.body if answer.text else ""
        if isinstance(wanted, dict) and isinstance(got, dict) and OF_JAVA.match(str(wanted.get("message"))):
            wanted = {**wanted, "message": got.get("message")}
        left = canonical({"status": expected["status"], "body": wanted})
        right = canonical({"status": answer.status, "body": got})
        if left != right:
            yield Difference(f"{id} {step['method']} {step['path']}", *different_parts(left, right))

    def _stop(self) -> int:
        assert self._process is not None, "started"
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(END_SECONDS)

    def _ended(self) -> Iterator[Difference]:
        case, id = self._case, str(self._case["id"])
        assert self._process is not None, "started"
        code = self._stop() if case["exit"] == 128 + signal.SIGTERM else self._process.wait(END_SECONDS)
        code = 128 - code if code < 0 else code
        if code != case["exit"]:
            yield Difference(f"{id}/exit", case["exit"], (code, self._output()[-1500:]))
        offsets = decoded(case["offsets_file"])
        if self._offsets() != offsets:
            yield Difference(f"{id}/offsets", offsets, self._offsets())
        output = self._output()
        lines = [self._filled(str(line)) for line in case["output"]]  # type: ignore[attr-defined]
        missing = [line for line in self._told(lines) if line not in output]
        if missing:
            yield Difference(f"{id}/output", missing, output[-1500:])

    def _told(self, lines: Iterable[str]) -> Iterator[str]:
        """The texts that both logs must have: what users look for, and errors with the message of their exception."""
        for line in lines:
            first, *rest = line.splitlines()
            level, _, text = _PLACE.sub("", first).partition(" ")
            if (level == "INFO" and text.startswith(_TOLD)) or level == "ERROR":
                yield text.removesuffix(":")
            if level == "ERROR" and rest and (match := _EXCEPTION.match(rest[0])):
                message = match.group(1).partition(", available connectors are")[0]
                if not rest[0].startswith("java."):
                    yield message
