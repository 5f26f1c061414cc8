"""Asks for confirmation before a deletion or a move.

The question is only asked on a terminal, so that scripts run as with Kafka's own tools.
"""

from __future__ import annotations

import signal
import sys

from kcli.cli.output import warn
from kcli.cli.syntax.options import CommandError
from kcli.model.java_text import trim


def can_ask() -> bool:
    """Whether stdin and stderr are terminals, so that a person can see and answer a question."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def confirm(loss: str, *, yes: bool, refused: str = "Nothing was deleted.") -> None:
    """Asks for a yes, unless `--yes` is given or there is no terminal. Raises CommandError after any other answer."""
    if yes or not can_ask():
        return
    warn(loss)
    sys.stderr.write("Continue? [y/N] ")
    sys.stderr.flush()
    if trim(_line()).lower() not in ("y", "yes"):
        raise CommandError(refused)


def _line() -> str:
    """Reads a line of the terminal.

    The SIGINT handler of an event loop cannot interrupt a read. So during the read, SIGINT has Python's default
    handler.
    """
    noted = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return sys.stdin.readline()
    finally:
        signal.signal(signal.SIGINT, noted)
