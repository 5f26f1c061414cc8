"""Compares the result of a step with its recording.

Notes and regular expressions stand for texts that change from run to run. Log lines and stack traces of a JVM are left
out on both sides.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from rigs.known_differences import WIDTHS

_TIMESTAMP = r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\]"
_LOG_LINE = re.compile(rf"{_TIMESTAMP} (?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL) ")
_THREAD_DIED = re.compile(r'Exception in thread "main" (?:[\w$]+\.)+[\w$]+(?:: (?P<message>.*))?')
_EXCEPTION = re.compile(
    r"(?:Caused by: |\s*Suppressed: )?(?:[a-z]\w*\.)+[A-Z][\w$]*(?:Exception|Error)(?::(?P<message>.*))?",
    re.ASCII,
)
_TRACE = re.compile(r"Caused by: .*|\s+(?:\.\.\. |at ).*")
_LOGGER = re.compile(r"\s*\((?:[a-z]\w*\.)+[\w$]+\)")
_FIGURE = re.compile(r"-?\d+(?:[.,:]\d+)*|NaN")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
# A UUID in base64, as a topic, a directory or a member of KIP-848 has it.
_SHORT_UUID = re.compile(r"(?<![\w+/-])(?=\S*[a-z])(?=\S*[A-Z])[\w+/-]{22}(?![\w+/-])", re.ASCII)
# Kafka prints its Java request object into some messages, and our broker prints the request in its own form.
_REQUEST_DUMP = re.compile(r"Request Request\(.*?\)(?= is not| needs|$)", re.MULTILINE)
_HINT = re.compile(
    r"Did you mean .*\?|\S+ may not .*\. This command allows it: kcli acls --add .*|\d+ more rights are missing\."
)


UNORDERED = "kafka-acls"
"""The tool that prints ACLs in the hash order of Java's enums, which differs from process to process. The first ACL has
one blank more than the others."""


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


def compare(step: dict[str, Any], came: Result) -> Compared:
    """Compares a step with its recording. If the output depends on timing, there are two recordings, and one of them
    must be equal."""
    step = {"exit": 0, "stderr": "", **step}  # a step that reads a log has neither
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
    text = _REQUEST_DUMP.sub("<request>", text)
    text = _SHORT_UUID.sub("<uuid>", _UUID.sub("<uuid>", text))
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
    if step.get("tool") == UNORDERED and stream == "stdout":
        return sorted(line.strip() for line in text.splitlines())
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


def _as_a_shell_shows(code: int | str) -> int | str:
    """Converts an exit code to the form of a shell. In the recordings, a negative number means a signal."""
    return 128 - code if isinstance(code, int) and code < 0 else code
