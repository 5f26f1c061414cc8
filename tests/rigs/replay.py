"""Runs the recorded command-line stories against our broker and our tools, and tells which steps come out different.

The recordings are described in golden/README.md: stories of steps, each on a fresh broker, with placeholders, notes and
regular expressions for what changes from run to run. A step is compared on exit code, stdout, and the message lines of
stderr; what a JVM adds there (log lines, exceptions' stack traces) is left out on both sides.

Alone: PYTHONPATH=tests python -m rigs.replay [STORY[/STEP] ...] prints each different step.
"""

# ruff: noqa: SIM115  the streams of a forked program live as long as it does

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kcli.cli.main import run
from kcli.cli.syntax.registry import TOOLS
from kcli.protocol import messages
from kcli.rdkafka import producer
from kcli.testing.broker_process import BrokerProcess
from rigs.known_differences import STICKS, WIDTHS

CLI = Path(__file__).resolve().parents[2] / ".." / "shared" / "golden" / "cli"
CLUSTER_ID = "Z29sZGVuLWNsdXN0ZXItMQ"

# The recordings' base configuration, beyond BrokerProcess's own.
BASE_CONFIG = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.index.size.max.bytes": "65536",
}
# What the recordings allowed a tool, and what they note when it was not enough.
STEP_LIMIT_SECONDS = 45.0
TIMED_OUT = "timeout"
# The recordings do not say how long a program in the background had run; its first commit, after 5 s, was made.
HEAD_START_SECONDS = 3.0

# A console consumer ends this long after the last record. The recordings gave the JVM more to start and join in.
CONSUMER_TIMEOUT_MS = 2000
# Steps in which a tool waits until its time-out is over: 60 and 30 s in the recordings.
SHORT_TIMEOUTS = {
    "offsets-deleterecords-logdirs/050": ("--timeout", "3000"),
    "groups-reset-offsets/051": ("--timeout", "3000"),
}

SCRIPTS = {tool.script.removesuffix(".sh"): tool for tool in TOOLS.values() if tool.script}

_TIMESTAMP = r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\]"
_LOG_LINE = re.compile(rf"{_TIMESTAMP} (?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL) ")
_THREAD_DIED = re.compile(r'Exception in thread "main" (?:[\w$]+\.)+[\w$]+(?:: (?P<message>.*))?')
_EXCEPTION = re.compile(
    r"(?:Caused by: )?(?:[a-z]\w*\.)+[A-Z][\w$]*(?:Exception|Error)(?::(?P<message>.*))?", re.ASCII
)
_TRACE = re.compile(r"Caused by: .*|\s+(?:\.\.\. |at ).*")
_LOGGER = re.compile(r"\s*\((?:[a-z]\w*\.)+[\w$]+\)")
_FIGURE = re.compile(r"-?\d+(?:[.,:]\d+)*|NaN")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_HINT = re.compile(r"Did you mean .*\?")


@dataclass(frozen=True)
class Result:
    """What a tool wrote and how it ended."""

    stdout: str
    stderr: str
    exit: int | str


@dataclass
class Compared:
    """One step: what was recorded, what came, and why they are not the same (empty: they are)."""

    id: str
    differences: list[str] = field(default_factory=list)
    recorded: dict[str, Any] = field(default_factory=dict)
    came: Result | None = None


def stories() -> dict[str, dict[str, Any]]:
    """Name -> its needs and its `steps`."""
    with open(CLI / "stories.jsonl", encoding="utf-8") as lines:
        found = {story["story"]: story | {"steps": []} for story in map(json.loads, lines)}
    with open(CLI / "transcripts.jsonl", encoding="utf-8") as lines:
        for step in map(json.loads, lines):
            found[step["story"]]["steps"].append(step)
    return found


def replay(story: dict[str, Any], directory: Path) -> Iterator[Compared]:
    """Run a story in an empty directory, step by step; steps of tools that are not built are passed over."""
    broker = BrokerProcess(directory, BASE_CONFIG | story["broker_config"])
    stage = _Stage(broker, directory)
    _import_tools()
    with contextlib.ExitStack() as stack:
        if story["broker"]:
            stage.format(story["format_args"])
            stack.enter_context(broker)
        stack.callback(stage.end)
        for step in story["steps"]:
            came = stage.act(step)
            if came is not None:
                yield compare(step, came)


def compare(step: dict[str, Any], came: Result) -> Compared:
    """The step against its recording, or, where timing decides what is printed, against either of the two."""
    compared = Compared(step["id"], _differences(step, came), step, came)
    if compared.differences and "alt" in step:
        second = _differences(step | step["alt"], came)
        if not second:
            compared.differences = []
    return compared


def _differences(step: dict[str, Any], came: Result) -> list[str]:
    found = []
    if _as_a_shell_shows(step["exit"]) != came.exit:
        found.append(f"exit {came.exit}, recorded {step['exit']}")
    found += [
        stream
        for stream in ("stdout", "stderr")
        if not _same(step, stream, step[stream], getattr(came, stream))
    ]
    return found


def _same(step: dict[str, Any], stream: str, recorded: str, came: str) -> bool:
    notes = step.get(f"{stream}_notes", ())
    candidates = [came]
    if stream == "stderr" or "stack_frames_omitted" in notes:
        told, thrown = _message_lines(recorded)
        ours, _ = _message_lines(came)
        recorded = "\n".join(told)
        # Where the JVM only threw an exception, ours may say its message in so many words.
        candidates = ["\n".join(ours), "\n".join(line for line in ours if line not in thrown)]
    expected = _comparable(step, stream, recorded)
    shown = [_comparable(step, stream, each) for each in candidates]
    return expected in shown or ("usage_text_omitted" in notes and any(expected in each for each in shown))


def _comparable(step: dict[str, Any], stream: str, text: str) -> Any:
    text = _UUID.sub("<uuid>", text)
    rules = [*step.get("volatile", ())]
    if step.get("id") in WIDTHS:
        rules.append("stdout column-widths")
    for rule in rules:
        where, _, what = rule.partition(" ")
        if where != stream:
            continue
        name, _, pattern = what.partition(": ")
        if name == "line-order":
            text = "\n".join(sorted(text.splitlines()))
        elif name == "column-widths":
            text = re.sub(r"[ -]+", " ", text)
        elif pattern:
            text = re.sub(pattern, f"<{name}>", text)
    match step.get("compare"):
        case "set":
            return sorted(set(text.splitlines()))
        case "shape":
            return sorted({re.sub(r"\s+", " ", _FIGURE.sub("#", line)) for line in text.splitlines()})
    # Kafka's parser justifies its errors to the terminal's width, even between two halves of an option.
    return re.sub(r"\s+", "", text) if stream == "stderr" else text


def _message_lines(text: str) -> tuple[list[str], set[str]]:
    """What is left for people without log lines, exceptions and our guesses; and what the exceptions say."""
    kept: list[str] = []
    thrown: set[str] = set()
    logged = False
    for line in text.splitlines():
        died = _THREAD_DIED.fullmatch(line)
        exception = _EXCEPTION.fullmatch(line)
        if _LOG_LINE.match(line):
            # A log line goes on until the name of its logger ends it.
            logged = not re.search(r"\([\w.$]+\)$", line)
        elif logged:
            logged = not _LOGGER.fullmatch(line)
        elif died is not None:
            kept.append(died["message"] or "")
        elif exception is not None:
            thrown.add((exception["message"] or "").strip())
        elif not (_TRACE.fullmatch(line) or _HINT.fullmatch(line)):
            kept.append(line)
    return kept, thrown


class _Stage:
    """Where a story plays: its broker, its files, its programs in the background."""

    def __init__(self, broker: BrokerProcess, directory: Path) -> None:
        self._broker = broker
        self._directory = directory
        self._background: dict[str, _Program] = {}

    def format(self, arguments: list[str]) -> None:
        """Format the log directory as the recordings did."""
        self._directory.mkdir(parents=True, exist_ok=True)
        properties = self._directory / "server.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in self._broker.properties.items()))
        argv = ["storage", "format", "--standalone", "-t", CLUSTER_ID, "-c", str(properties), *arguments]
        done = _Program(argv, None, self._directory)
        result = done.wait(STEP_LIMIT_SECONDS)
        assert result.exit == 0, f"kcli {' '.join(argv)} failed: {result.stderr}"

    def act(self, step: dict[str, Any]) -> Result | None:
        """Do one step; None where there is nothing to compare."""
        match step["action"]:
            case "file":
                path = Path(self._filled(step["path"]))
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(self._filled(step["content"]), encoding="utf-8")
            case "sleep":
                time.sleep(step["seconds"])
            case "start":
                self._start(step)
            case "stop":
                return self._stop(step)
            case "run":
                return self._run(step)
        return None

    def end(self) -> None:
        """Stop what still runs."""
        for program in self._background.values():
            program.signal(signal.SIGKILL)
            program.wait(STEP_LIMIT_SECONDS)

    def _run(self, step: dict[str, Any]) -> Result | None:
        tool = SCRIPTS.get(step["tool"])
        if tool is None or "not-replayed" in step.get("volatile", ()):
            return None
        started = time.monotonic()
        limit = STEP_LIMIT_SECONDS if step["exit"] != TIMED_OUT else 3.0
        argv = [tool.name, *map(self._filled, _hastened(step))]
        result = _Program(argv, step["stdin"], self._directory, STICKS.get(step["id"])).wait(limit)
        if self._background:
            # What a program in the background has done by now shows in the next steps: keep the recording's pace.
            time.sleep(max(0.0, started + step["seconds"] - time.monotonic()))
        return self._emptied(result)

    def _start(self, step: dict[str, Any]) -> None:
        tool = SCRIPTS.get(step["tool"])
        if tool is None:
            return
        argv = [tool.name, *map(self._filled, step["argv"])]
        program = _Program(argv, step.get("stdin"), self._directory, STICKS.get(step["id"]))
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
        return [
            ("{DIR}", str(self._directory)),
            ("{PORT}", str(self._broker.port)),
            ("{CPORT}", str(self._broker.controller_port)),
        ]

    def _filled(self, text: str) -> str:
        for placeholder, value in self._places():
            text = text.replace(placeholder, value)
        return text

    def _emptied(self, result: Result) -> Result:
        return Result(self._text_of(result.stdout), self._text_of(result.stderr), result.exit)

    def _text_of(self, text: str) -> str:
        for placeholder, value in self._places():
            # A port may also be five digits of a longer number, such as a timestamp, which stays.
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


def _as_a_shell_shows(code: int | str) -> int | str:
    """A recorded death by signal is a negative number."""
    return 128 - code if isinstance(code, int) and code < 0 else code


class _Program:
    """`kcli ARGV...` in a fork of this process: the imports are done, so that hundreds of steps take seconds.

    `partition`: where its records without a key go, instead of a partition chosen at random.
    """

    def __init__(
        self, argv: list[str], stdin: str | None, directory: Path, partition: int | None = None
    ) -> None:
        self._out = tempfile.TemporaryFile()
        self._err = tempfile.TemporaryFile()
        with tempfile.TemporaryFile() as incoming:
            if stdin is not None:
                incoming.write(stdin.encode("utf-8"))
                incoming.seek(0)
            sys.stdout.flush()
            sys.stderr.flush()
            self._pid = os.fork()
            if self._pid == 0:
                self._become(argv, incoming.fileno(), directory, partition)

    def stdout(self) -> str:
        """What it has written so far."""
        size = os.fstat(self._out.fileno()).st_size
        return os.pread(self._out.fileno(), size, 0).decode("utf-8", "replace")

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, number)

    def wait(self, limit: float) -> Result:
        """Its end, which comes by force after `limit` seconds."""
        deadline = time.monotonic() + limit
        pause = 0.002
        timed_out = False
        while True:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > deadline and not timed_out:
                timed_out = True
                self.signal(signal.SIGKILL)
            time.sleep(pause)
            pause = min(pause * 1.5, 0.05)
        code = os.waitstatus_to_exitcode(status)
        # A shell shows a death by signal as 128 + its number.
        shown: int | str = TIMED_OUT if timed_out else code if code >= 0 else 128 - code
        size = os.fstat(self._err.fileno()).st_size
        err = os.pread(self._err.fileno(), size, 0).decode("utf-8", "replace")
        result = Result(self.stdout(), err, shown)
        self._out.close()
        self._err.close()
        return result

    def _become(self, argv: list[str], stdin: int, directory: Path, partition: int | None) -> None:
        code = 70
        try:
            os.dup2(stdin, 0)
            os.dup2(self._out.fileno(), 1)
            os.dup2(self._err.fileno(), 2)
            os.chdir(directory)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.environ |= {"COLUMNS": "80", "TZ": "UTC"}
            time.tzset()
            sys.stdin = open(0, encoding="utf-8", newline=None, closefd=False)
            sys.stdout = open(1, "w", encoding="utf-8", closefd=False)
            sys.stderr = open(2, "w", encoding="utf-8", closefd=False)
            if partition is not None:
                setattr(producer, "random", SimpleNamespace(choice=lambda partitions: partition))  # noqa: B010
            code = run(argv)
            sys.stdout.flush()
            sys.stderr.flush()
        except BaseException:
            import traceback

            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(code)


def _import_tools() -> None:
    """Import once what every fork would import again."""
    for tool in SCRIPTS.values():
        tool.load()
    for name in os.listdir(os.path.dirname(messages.__file__ or "")):
        if name.endswith(".py"):
            importlib.import_module(f"{messages.__name__}.{name.removesuffix('.py')}")


def _show(compared: Compared) -> None:
    step, came = compared.recorded, compared.came
    assert came is not None
    print(
        f"## {compared.id} {step.get('tool', '')} {' '.join(step.get('argv', ()))}: {', '.join(compared.differences)}"
    )
    for stream in ("stdout", "stderr"):
        if stream in compared.differences:
            print(f"-- recorded {stream}\n{step[stream]}\n-- came\n{getattr(came, stream)}")


def main() -> None:
    """Replay the stories (all unless named) and print what is different."""
    wanted = sys.argv[1:]
    found = stories()
    for name in wanted or found:
        story_name, _, number = name.partition("/")
        with tempfile.TemporaryDirectory() as directory:
            started = time.monotonic()
            counts = {True: 0, False: 0}
            for compared in replay(found[story_name], Path(directory)):
                counts[not compared.differences] += 1
                if compared.differences and (not number or compared.id.endswith(f"/{number}")):
                    _show(compared)
            seconds = time.monotonic() - started
            print(f"== {story_name}: {counts[True]} equal, {counts[False]} different, {seconds:.0f} s")


if __name__ == "__main__":
    main()
