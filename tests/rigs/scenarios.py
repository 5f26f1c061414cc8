"""Runs scenario files. A line `> command` is a command to a coordinator shard. The indented lines after it are the
effects.

Other lines are comments and are not changed. After an intended change, run with KCLI_REWRITE_SCENARIOS=1 and review the
difference. Every world has these commands:

    config key=value …           before anything else
    +ms                          time passes, deadline by deadline
    hold | flush                 keep writes back; commit them
    fail CODE | fail-last CODE   have the oldest, or the newest, of those kept back fail
    restart                      the shard is loaded again from its log
"""

from __future__ import annotations

import dataclasses
import os
import re
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kcli.coordinator.runtime import Ready
from kcli.errors import ErrorCode, KafkaError, KcliError
from kcli.model.topic_partition import TopicPartition
from rigs.answers import answers

SCENARIOS = Path(__file__).parents[1] / "scenario"

_LONG = re.compile(r"#(\d+)")
_SHORT = re.compile("00000000-0000-0000-0000-(0*)([1-9a-f][0-9a-f]*)")


class Commands:
    """Carries out a command by the method `_do_<verb>`, and collects its effects in `out`."""

    def __init__(self) -> None:
        self.out: list[str] = []

    def run(self, command: str) -> list[str]:
        """Carries out one command. Returns its effects in order."""
        self.out = []
        verb, *words = command.split()
        try:
            getattr(self, f"_do_{verb.replace('-', '_')}")(words)
        except KcliError as error:
            self.out.append(self.refused(words, error))
        return self.out

    def refused(self, _words: list[str], error: KcliError) -> str:
        kind = error.code.name if isinstance(error, KafkaError) else type(error).__name__
        return f"refused {kind}: {error}"


class World(Commands):
    """A shard, its log and its clock. A world of one coordinator adds `_do_<verb>` methods and says how to `load` a
    shard, and how to `encode`, `decode` and `show_record` its records."""

    encode: Callable[[Any], tuple[bytes, bytes | None]]
    decode: Callable[[bytes, bytes | None], Any]

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config
        self.now_ms = 0
        self._log: list[tuple[bytes, bytes | None, int, str]] = []
        """Key, value, producer id; or a marker: how that producer's transaction ended."""
        self._held: list[Ready[Any]] = []
        self._holding = False
        self.shard = self.loaded()

    def load(self) -> Any:
        """A new shard that has not read any record."""
        raise NotImplementedError

    def show_record(self, record: Any) -> str:
        raise NotImplementedError

    def show_send(self, send: object) -> str:
        raise AssertionError(f"nobody expects {send}")

    def run(self, command: str) -> list[str]:
        """Carries out one command. Returns the records and answers of the shard, in order."""
        if not command.startswith("+"):
            return super().run(command)
        self.out = []
        self._pass_time(int(command[1:]))
        return self.out

    def refused(self, words: list[str], error: KcliError) -> str:
        return f"{words[0]} {super().refused(words, error)}"

    # Commands

    def _do_config(self, words: list[str]) -> None:
        given = {key: _configured(value) for key, value in pairs(words).items()}
        self.config = dataclasses.replace(self.config, **given)
        self.shard = self.loaded()

    def _do_hold(self, _words: list[str]) -> None:
        self._holding = True

    def _do_flush(self, _words: list[str]) -> None:
        self._holding = False
        held, self._held = self._held, []
        for ready in held:
            self._committed(ready)

    def _do_fail(self, words: list[str]) -> None:
        self._fail(self._held.pop(0), words)

    def _do_fail_last(self, words: list[str]) -> None:
        self._fail(self._held.pop(), words)

    def _fail(self, ready: Ready[Any], words: list[str]) -> None:
        code = ErrorCode[words[0]]
        if ready.continuations:
            self.take(ready.written(code, self.now_ms))
        self.out.extend(f"{token} fails {code.name}" for token, _ in answers(ready))

    def _do_restart(self, _words: list[str]) -> None:
        self.shard = self.loaded()

    # Time and the log

    def loaded(self) -> Any:
        """A shard that has read the log and has started."""
        shard = self.shard = self.load()
        for offset, (key, value, producer_id, outcome) in enumerate(self._log):
            if outcome:
                shard.end_transaction(producer_id, committed=outcome == "yes")
                continue
            record = self.decode(key, value)
            assert record is not None
            shard.replay(record, offset, producer_id)
        self.take(shard.start(self.now_ms))
        return shard

    def _pass_time(self, duration_ms: int) -> None:
        end_ms = self.now_ms + duration_ms
        while (deadline_ms := self.shard.next_deadline_ms) is not None and deadline_ms <= end_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            before = len(self.out)
            while (ready := self.shard.tick(self.now_ms)) is not None:
                self.take(ready)
            self.out[before:] = [f"[{self.now_ms}] {line}" for line in self.out[before:]]
        self.now_ms = end_ms

    def take(self, ready: Ready[Any]) -> None:
        """Carries out a `Ready`, or keeps it for a later `flush`."""
        if ready.records and self._holding:
            self._held.append(ready)
            self.out.extend(f"held {self.show_record(record)}" for record in ready.records)
        else:
            self._committed(ready)

    def _committed(self, ready: Ready[Any]) -> None:
        for record in ready.records:
            self.out.append(f"log {self.show_record(record)}")
            self.write(record, -1 if ready.producer is None else ready.producer.producer_id)
        if ready.continuations:
            self.take(ready.written(ErrorCode.NONE, self.now_ms))
        self.out.extend(f"{token} <- {self.show_reply(response)}" for token, response in answers(ready))
        self.out.extend(self.show_send(send) for send in ready.sends)

    def show_reply(self, response: object) -> str:
        return show(response)

    def write(self, record: Any, producer_id: int = -1) -> None:
        self._log.append((*self.encode(record), producer_id, ""))
        self.shard.replay(record, len(self._log) - 1, producer_id)

    def end_transaction(self, producer_id: int, outcome: str) -> None:
        self._log.append((b"", None, producer_id, outcome))
        self.shard.end_transaction(producer_id, committed=outcome == "yes")

    def values_of(self, wanted: Callable[[Any], bool]) -> list[Any]:
        """The records in the log for which `wanted` returns True."""
        records = (self.decode(key, value) for key, value, _, outcome in self._log if not outcome)
        return [record for record in records if wanted(record)]


class CountingUuids:
    """Ids that count: 1, 2, 3 …"""

    def __init__(self) -> None:
        self._last = 0

    def uuid(self) -> uuid.UUID:
        self._last += 1
        return uuid.UUID(int=self._last)


def check(path: Path, world: Commands) -> None:
    """Runs a file in a new world. The effects must be equal to those in the file."""
    expected = path.read_text()
    actual = replayed(world, expected)
    if os.environ.get("KCLI_REWRITE_SCENARIOS") == "1":
        path.write_text(actual)
    assert actual == expected


def replayed(world: Commands, text: str) -> str:
    """The scenario with the real effects after each command. Comments and blank lines are not changed."""
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith(">"):
            lines.append(line)
            command = _LONG.sub(_id_of, line[1:].strip())
            lines.extend(f"  {_short(said)}" for said in world.run(command))
        elif not line.startswith("  "):
            lines.append(line)
    return "\n".join(lines) + "\n"


def files(kind: str) -> list[Path]:
    return sorted(SCENARIOS.glob(f"{kind}_*.txt"))


# The arguments of commands, and the texts of values


def show(value: object, text: Callable[[object], str] | None = None) -> str:
    """The text of a message: its fields that differ from their defaults."""
    said = text or show_text
    if not dataclasses.is_dataclass(value):
        return said(value)
    shown = [
        f"{field.name}={said(getattr(value, field.name))}"
        for field in dataclasses.fields(value)
        if getattr(value, field.name) != field.default
    ]
    return f"{type(value).__name__}({' '.join(shown)})"


def show_text(value: object) -> str:
    match value:
        case ErrorCode():
            return value.name
        case tuple():
            return f"[{', '.join(show(item) for item in value)}]"
        case "":
            return "''"
        case _:
            return str(value)


def pairs(words: list[str]) -> dict[str, str]:
    return dict(word.split("=", 1) for word in words if "=" in word)


def partition(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))


def _configured(value: str) -> object:
    return int(value) if value.lstrip("-").isdigit() else value


def _id_of(match: re.Match[str]) -> str:
    return str(uuid.UUID(int=int(match[1])))


def _short(text: str) -> str:
    return _SHORT.sub(lambda match: f"#{int(match[2], 16)}", text)
