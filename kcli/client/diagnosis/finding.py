"""The result of one check of a diagnosis."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """The result of a check. After `WRONG`, the later checks are not made, because they cannot succeed."""

    OK = "ok"
    WARNING = "warning"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. `subject` is the server, topic or group. `advice` is the change that solves a
    problem.
    """

    status: Status
    step: str
    subject: str
    text: str
    advice: str = ""

    @property
    def is_wrong(self) -> bool:
        return self.status is Status.WRONG


def ok(step: str, subject: str, text: str) -> Finding:
    return Finding(Status.OK, step, subject, text)


def warning(step: str, subject: str, text: str, advice: str) -> Finding:
    return Finding(Status.WARNING, step, subject, text, advice)


def wrong(step: str, subject: str, text: str, advice: str) -> Finding:
    return Finding(Status.WRONG, step, subject, text, advice)
