"""Runs the steps of a story: tools, files, programs in the background, and the nodes themselves."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from kcli.testing.broker_process import BrokerProcess, free_port
from rigs.known_differences import STICKS
from rigs.replay.comparison import Result
from rigs.replay.programs import SCRIPTS, TIMED_OUT, Program

CLUSTER_ID = "Z29sZGVuLWNsdXN0ZXItMQ"
# The time that a tool had in the recordings.
STEP_LIMIT_SECONDS = 45.0
# The recordings do not contain the time that a program ran in the background. It was long enough for the first commit,
# after 5 s. Here the program runs this long before the next step.
HEAD_START_SECONDS = 3.0

# A console consumer ends this long after the last record. In the recordings this time was longer, because a JVM starts
# and joins slowly.
CONSUMER_TIMEOUT_MS = 2000
# Steps in which a tool waits until its time-out has passed. In the recordings, the time-outs were 60 and 30 s.
SHORT_TIMEOUTS = {
    "offsets-deleterecords-logdirs/050": ("--timeout", "3000"),
    "groups-reset-offsets/051": ("--timeout", "3000"),
}
LOGS = "logs"
"""The directory of the log files of a node, below the directory of the story."""
# Lines of the audit log that only Kafka writes: its broker sends Envelopes to the controller in the same process.
_OWN_REQUEST = re.compile(r" for request = Envelope ")
# Names that clients choose at random.
_RANDOM_GROUP = re.compile(r"console-consumer-\d+")
_REFERENCES = re.compile(r"resourceRefCount = \d+")
_LOGGED_AT = re.compile(r"\[[^\]]*\] ")
# Placeholders for the ports of the recordings of security.
OTHER_PORTS = ("SASLPORT", "SASLSSLPORT", "SSLPORT", "EXPPORT", "FREEPORT")
# The pause between two runs of a tool that is repeated, as in the recordings.
POLL_SECONDS = 0.4
# The time by which the first node of a cluster starts earlier than the others, as in the recordings.
FIRST_NODE_SECONDS = 1.5


class Stage:
    """The environment of a story: its nodes, its files, and its programs in the background."""

    def __init__(self, nodes: Mapping[int, BrokerProcess], directory: Path) -> None:
        """`nodes` has the nodes of a cluster by their ids, or only the node 1 of a story with one node."""
        self._nodes = nodes
        self._directory = directory
        self._background: dict[str, Program] = {}
        self._captured: dict[str, str] = {}
        self._log_positions: dict[str, int] = {}
        # Listeners of the stories of security, and ports on which no node listens.
        self._other_ports = [(f"{{{name}}}", str(free_port())) for name in OTHER_PORTS]

    def format(self, arguments: Mapping[int, list[str]]) -> None:
        """Formats the log directories as in the recordings. `arguments` has those of each node."""
        for node_id, node in self._nodes.items():
            given = map(self.filled, arguments[node_id])
            argv = ["storage", "format", "-t", CLUSTER_ID, "-c", str(node.write_properties()), *given]
            result = Program(argv, None, self._directory).wait(STEP_LIMIT_SECONDS)
            assert result.exit == 0, f"kcli {' '.join(argv)} failed: {result.stderr}"

    def start(self, node_ids: Iterable[int]) -> None:
        """Starts nodes. As in the recordings, the first node starts a little earlier than the others, so that it
        becomes the first active controller."""
        with ThreadPoolExecutor() as threads:
            starts = []
            for node_id in node_ids:
                starts.append(threads.submit(self._nodes[node_id].start))
                if len(starts) == 1:
                    time.sleep(FIRST_NODE_SECONDS if len(self._nodes) > 1 else 0)
            for start in starts:
                start.result()

    def act(self, step: dict[str, Any]) -> Result | None:
        """Runs one step. Returns None if there is nothing to compare."""
        match step["action"]:
            case "file":
                path = Path(self.filled(step["path"]))
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(self.filled(step["content"]), encoding="utf-8")
            case "sleep":
                time.sleep(step["seconds"])
            case "start":
                self._start(step)
            case "stop":
                return self._stop(step)
            case "run":
                return self._run(step)
            case "poll":
                return self._poll(step)
            case "node":
                getattr(self._nodes[step["node"]], step["do"])()
            case "log":
                return self._logged(step)
        return None

    def set_log_level(self, logger: str, level: str) -> None:
        """Sets the level of a logger of node 1."""
        server = ["--bootstrap-server", self._nodes[1].bootstrap]
        entity = ["--entity-type", "broker-loggers", "--entity-name", "1"]
        argv = ["configs", *server, "--alter", *entity, "--add-config", f"{logger}={level}"]
        result = Program(argv, None, self._directory).wait(STEP_LIMIT_SECONDS)
        assert result.exit == 0, result.stderr

    def _logged(self, step: dict[str, Any]) -> Result:
        """The lines that the node has added to a file of its log since the last such step. Each line comes once."""
        file = self._directory / LOGS / step["file"]
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        added = text[self._log_positions.get(step["file"], 0) :]
        self._log_positions[step["file"]] = len(text)
        lines = {_LOGGED_AT.sub("", line, count=1) for line in added.splitlines()}
        known = set(step["stdout"].splitlines())
        shown = {_REFERENCES.sub("resourceRefCount = {N}", self._text_of(line)) for line in lines}
        sometimes = {_RANDOM_GROUP.sub("{GROUP}", line) for line in step.get("sometimes", ())}
        kept = {line for line in shown if _RANDOM_GROUP.sub("{GROUP}", line) not in sometimes}
        # A line that Kafka writes for its own requests counts as written.
        return Result("".join(f"{line}\n" for line in kept | set(filter(_OWN_REQUEST.search, known))), "", 0)

    def end(self) -> None:
        """Stops the programs and the nodes that still run."""
        for program in self._background.values():
            program.signal(signal.SIGKILL)
            program.wait(STEP_LIMIT_SECONDS)
        for node in self._nodes.values():
            if node.process is not None:
                node.kill()

    def _poll(self, step: dict[str, Any]) -> Result | None:
        """Repeats a tool until its output matches. The last output is compared."""
        deadline = time.monotonic() + step["limit"]
        while True:
            result = self._run(step)
            if result is None or re.search(step["until"], result.stdout, re.MULTILINE):
                return result
            if time.monotonic() > deadline:
                return result
            time.sleep(POLL_SECONDS)

    def _run(self, step: dict[str, Any]) -> Result | None:
        tool = SCRIPTS.get(step["tool"])
        if tool is None or "not-replayed" in step.get("volatile", ()):
            return None
        started = time.monotonic()
        limit = STEP_LIMIT_SECONDS if step["exit"] != TIMED_OUT else 3.0
        argv = [tool.name, *map(self.filled, _hastened(step))]
        result = Program(argv, step["stdin"], self._directory, STICKS.get(step["id"])).wait(limit)
        for name, pattern in step.get("capture", {}).items():
            captured = re.search(pattern, result.stdout, re.MULTILINE)
            self._captured[f"{{{name}}}"] = captured[1] if captured else f"no {name}"
        if self._background:
            # The next steps may show the effects of a program in the background. So a step takes at least as long as in
            # the recording.
            time.sleep(max(0.0, started + step["seconds"] - time.monotonic()))
        return self._emptied(result)

    def _start(self, step: dict[str, Any]) -> None:
        tool = SCRIPTS.get(step["tool"])
        if tool is None:
            return
        argv = [tool.name, *map(self.filled, step["argv"])]
        program = Program(argv, step.get("stdin"), self._directory, STICKS.get(step["id"]))
        self._background[step["name"]] = program
        deadline = time.monotonic() + STEP_LIMIT_SECONDS
        while step.get("until") and step["until"] not in program.stdout() and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(HEAD_START_SECONDS)

    def _stop(self, step: dict[str, Any]) -> Result | None:
        program = self._background.pop(step["name"], None)
        if program is None:
            return None
        program.signal(signal.Signals[f"SIG{step['signal']}"])
        return self._emptied(program.wait(STEP_LIMIT_SECONDS))

    def _places(self) -> list[tuple[str, str]]:
        places = [("{DIR}", str(self._directory))]
        for node_id, node in self._nodes.items():
            number = str(node_id) if len(self._nodes) > 1 else ""
            places.append((f"{{PORT{number}}}", str(node.port)))
            places.append((f"{{CPORT{number}}}", str(node.controller_port)))
        return places + self._other_ports + list(self._captured.items())

    def filled(self, text: str) -> str:
        for placeholder, value in self._places():
            text = text.replace(placeholder, value)
        return text

    def _emptied(self, result: Result) -> Result:
        return Result(self._text_of(result.stdout), self._text_of(result.stderr), result.exit)

    def _text_of(self, text: str) -> str:
        for placeholder, value in self._places():
            # The digits of a port may also be a part of a longer number, such as a timestamp. Such a number is not
            # replaced.
            text = re.sub(rf"(?<!\d){re.escape(value)}(?!\d)", placeholder, text)
        return text


def _hastened(step: dict[str, Any]) -> list[str]:
    """The arguments of a step, with shorter time-outs if the step would only wait for the recorded ones."""
    argv: list[str] = [*step["argv"], *SHORT_TIMEOUTS.get(step["id"], ())]
    if step["tool"] == "kafka-console-consumer" and "--timeout-ms" in argv:
        at = argv.index("--timeout-ms") + 1
        if at < len(argv) and argv[at].isdigit():
            argv[at] = str(min(int(argv[at]), CONSUMER_TIMEOUT_MS))
    return argv
