"""A finding of the check-up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

EVIDENCE_MAX = 10
"""The most items of evidence that a finding shows. More items would hide the other findings."""


class Severity(StrEnum):
    """The severity of a finding. The report shows findings in the order of these values."""

    CRITICAL = "critical"
    """Clients cannot use a part of the cluster, or lose data at the next failure."""
    WARNING = "warning"
    """The cluster works, but something is wrong or will be wrong soon."""
    ADVICE = "advice"
    """A choice that most operators would make differently."""
    UNKNOWN = "unknown"
    """The check could not be made. The text or the evidence has the reason."""


ORDER = tuple(Severity)


@dataclass(frozen=True, slots=True)
class CheckupFinding:
    """One problem, with the facts that prove it and a command that repairs it or shows more.

    `check` is the name of the rule. `subject` is the topic, broker, group or cluster. If there is no command, `command`
    is empty, and `text` describes what to do.
    """

    severity: Severity
    check: str
    subject: str
    text: str
    evidence: tuple[str, ...] = ()
    command: str = ""


def listed(items: Iterable[object], shown_max: int = EVIDENCE_MAX) -> tuple[str, ...]:
    """The first items as texts. If there are more items, the last text is the number of the other items."""
    texts = [str(item) for item in items]
    more = len(texts) - shown_max
    return (*texts[:shown_max], f"and {more} more") if more > 0 else tuple(texts)


def worst_first(findings: Iterable[CheckupFinding]) -> Sequence[CheckupFinding]:
    return sorted(
        findings, key=lambda finding: (ORDER.index(finding.severity), finding.check, finding.subject)
    )
