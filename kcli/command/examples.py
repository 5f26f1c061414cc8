"""Examples and exit codes, which are declared with a command and shown in its help and its manual page."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass

from kcli.command.help import WIDTH_COLUMNS

ExitStatus = tuple[int, str]
"""An exit code, and the cases in which the command returns it."""

SUCCESS: ExitStatus = (0, "The command succeeded.")
FAILURE: ExitStatus = (1, "The command failed, or its options are wrong.")
INTERRUPTED: ExitStatus = (130, "Ctrl-C ended the command.")
TERMINATED: ExitStatus = (143, "SIGTERM ended the command.")
USUAL: tuple[ExitStatus, ...] = (SUCCESS, FAILURE, INTERRUPTED)

CODE_COLUMNS = 7


@dataclass(frozen=True, slots=True)
class Example:
    """Example lines for a POSIX shell. The lines expect a broker at localhost:9092 whose log directory is `data`.

    A test runs every example but those of Spark jobs. If `is_endless` is true, the command runs until Ctrl-C, and
    then exits with `exit_code`. If `is_kafkas` is False, Kafka's script does not have the action of the example.
    """

    purpose: str
    shell: str
    exit_code: int = 0
    is_endless: bool = False
    is_kafkas: bool = True


def help_lines(examples: Iterable[Example], exit_status: Iterable[ExitStatus]) -> list[str]:
    """Returns the last lines of a help text: examples and exit codes."""
    lines: list[str] = []
    for example in examples:
        lines += ["", f"  {example.purpose}", *(f"    {line}" for line in example.shell.splitlines())]
    if lines:
        lines = ["", "examples:", *lines[1:]]
    codes: list[str] = []
    for code, meaning in exit_status:
        first = f"  {code}".ljust(CODE_COLUMNS)
        codes += textwrap.wrap(
            meaning, WIDTH_COLUMNS, initial_indent=first, subsequent_indent=" " * CODE_COLUMNS
        )
    return [*lines, "", "exit status:", *codes] if codes else lines
