"""Runs the recorded command-line stories with our broker and our tools, and reports the steps whose output differs.

golden/README.md describes the recordings. A story is a series of steps on a new broker. Placeholders, notes and regular
expressions stand for texts that change from run to run. The exit code, stdout and the message lines of stderr are
compared. Log lines and stack traces of a JVM are left out on both sides.

To print each step that differs, run: PYTHONPATH=tests python -m rigs.replay [STORY[/STEP] ...]
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

# The configuration of the recordings, in addition to that of BrokerProcess.
BASE_CONFIG = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.index.size.max.bytes": "65536",
}
# The time that a tool had in the recordings, and the exit code that they note if it took longer.
STEP_LIMIT_SECONDS = 45.0
TIMED_OUT = "timeout"
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
    """The output of a tool, and its exit code."""

    stdout: str
    stderr: str
    exit: int | str


@dataclass
class Compared:
    """One step: the recorded result, our result, and the reason why they differ. The reason is empty if they are
    equal."""

    id: str
    differences: list[str] = field(default_factory=list)
    recorded: dict[str, Any] = field(default_factory=dict)
    came: Result | None = None


def stories() -> dict[str, dict[str, Any]]:
    """The stories by name, each with its requirements and its `steps`."""
    with open(CLI / "stories.jsonl", encoding="utf-8") as lines:
        found = {story["story"]: story | {"steps": []} for story in map(json.loads, lines)}
    with open(CLI / "transcripts.jsonl", encoding="utf-8") as lines:
        for step in map(json.loads, lines):
            found[step["story"]]["steps"].append(step)
    return found


def replay(story: dict[str, Any], directory: Path) -> Iterator[Compared]:
    """Runs a story in an empty directory, step by step. Skips the steps of tools that kcli does not have."""
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
    """Compares a step with its recording. If the output depends on timing, there are two recordings, and one of them
    must be equal."""
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
        # If the JVM only threw an exception, our tool may print the message of that exception.
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
    # Kafka's parser breaks the lines of its errors at the width of the terminal, even inside the name of an option.
    return re.sub(r"\s+", "", text) if stream == "stderr" else text


def _message_lines(text: str) -> tuple[list[str], set[str]]:
    """Returns the lines without log lines, exceptions and our suggestions, and the messages of the exceptions."""
    kept: list[str] = []
    thrown: set[str] = set()
    logged = False
    for line in text.splitlines():
        died = _THREAD_DIED.fullmatch(line)
        exception = _EXCEPTION.fullmatch(line)
        if _LOG_LINE.match(line):
            # A log line may have several lines. The last of them ends with the name of the logger.
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
    """The environment of a story: its broker, its files, and its programs in the background."""

    def __init__(self, broker: BrokerProcess, directory: Path) -> None:
        self._broker = broker
        self._directory = directory
        self._background: dict[str, _Program] = {}

    def format(self, arguments: list[str]) -> None:
        """Formats the log directory as in the recordings."""
        self._directory.mkdir(parents=True, exist_ok=True)
        properties = self._directory / "server.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in self._broker.properties.items()))
        argv = ["storage", "format", "--standalone", "-t", CLUSTER_ID, "-c", str(properties), *arguments]
        done = _Program(argv, None, self._directory)
        result = done.wait(STEP_LIMIT_SECONDS)
        assert result.exit == 0, f"kcli {' '.join(argv)} failed: {result.stderr}"

    def act(self, step: dict[str, Any]) -> Result | None:
        """Runs one step. Returns None if there is nothing to compare."""
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
        """Stops the programs that still run."""
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
            # The next steps may show the effects of a program in the background. So a step takes at least as long as in
            # the recording.
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


def _as_a_shell_shows(code: int | str) -> int | str:
    """Converts an exit code to the form of a shell. In the recordings, a negative number means a signal."""
    return 128 - code if isinstance(code, int) and code < 0 else code


class _Program:
    """Runs `kcli ARGV...` in a fork of this process. The fork need not import modules again, so hundreds of steps take
    only seconds.

    `partition` is the partition for records without a key, in place of a random partition.
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
        """The output that the program has written so far."""
        size = os.fstat(self._out.fileno()).st_size
        return os.pread(self._out.fileno(), size, 0).decode("utf-8", "replace")

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to the program."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, number)

    def wait(self, limit: float) -> Result:
        """Waits for the end of the program, and kills it after `limit` seconds."""
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
        # If a signal ends a program, a shell shows 128 plus the number of the signal.
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
    """Imports the modules that every fork would otherwise import."""
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
    """Runs the stories on the command line, or all stories, and prints the differences."""
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
