"""Asking before something is lost, only where somebody can answer: scripts go on as with Kafka's own tools."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence

from kcli.cli.output import warn
from kcli.cli.syntax.options import CommandError

MAX_SHOWN = 20
"""Names in a question: more would scroll it off the screen."""


def can_ask() -> bool:
    """Whether a question would be seen and answered by a person."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def confirm(loss: str, *, yes: bool) -> None:
    """Go on after a yes, with `--yes`, or where nobody can be asked. Raises CommandError after any other answer."""
    if yes or not can_ask():
        return
    warn(loss)
    sys.stderr.write("Go on? [y/N] ")
    sys.stderr.flush()
    if _line().strip().lower() not in ("y", "yes"):
        raise CommandError("Nothing was deleted.")


def _line() -> str:
    """A line of the terminal. An event loop would only note a Ctrl-C and go on waiting for the line."""
    noted = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return sys.stdin.readline()
    finally:
        signal.signal(signal.SIGINT, noted)


def listed(names: Sequence[str]) -> str:
    """The names for a question, the first of them where there are many."""
    shown = ", ".join(names[:MAX_SHOWN])
    return shown if len(names) <= MAX_SHOWN else f"{shown} and {len(names) - MAX_SHOWN} more"
