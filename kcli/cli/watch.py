"""`--watch`: prints a result repeatedly. On a terminal, the new output replaces the old one."""

from __future__ import annotations

import asyncio
import contextlib
import io
import shutil
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TypeVar

from kcli.cli.output import Output, plain_row
from kcli.cli.syntax.options import UsageError

Row = TypeVar("Row")

DEFAULT_SECONDS = 2.0
# ECMA-48: cursor to the top left; erase to the end of the line, and to the end of the screen.
_HOME, _END_OF_LINE, _END_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"


class StampedOutput(Output):
    """Adds the time of the update to each row, so that updates of json or tsv can be distinguished."""

    time = ""

    def row(self, row: Row, text: Callable[[Row], str] | str) -> None:
        line = text if isinstance(text, str) else text(row)
        if self.is_text:
            super().row(row, line)
        else:
            super().row({"time": self.time, **plain_row(row)}, line)


def check_interval(seconds: float | None) -> None:
    """Raises UsageError for an interval that is too short or too long."""
    if seconds is not None and not 0.1 <= seconds <= 86_400:
        raise UsageError(f"--watch {seconds:g}: expected 0.1 to 86400 seconds")


async def watch(seconds: float, show: Callable[[Output], Awaitable[bool | None]], format: str) -> None:
    """Calls `show` at an interval until it returns True, or until Ctrl-C, which is not a failure."""
    output = StampedOutput(format)
    is_screen = sys.stdout.isatty()
    with contextlib.suppress(asyncio.CancelledError):
        is_over: bool | None = False
        while not is_over:
            output.time = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            if is_screen:
                is_over = await _draw(output, show, seconds)
            else:
                output.say(output.time)
                is_over = await show(output)
            sys.stdout.flush()
            await asyncio.sleep(0 if is_over else seconds)


async def _draw(
    output: StampedOutput, show: Callable[[Output], Awaitable[bool | None]], seconds: float
) -> bool | None:
    """Draws the output, cut to the size of the screen. Uses a single write, because the screen would flicker with
    several writes."""
    block = io.StringIO()
    with contextlib.redirect_stdout(block), contextlib.redirect_stderr(block):
        is_over = await show(output)
    size = shutil.get_terminal_size()
    lines = [f"{output.time}  every {seconds:g} s, Ctrl-C ends", *block.getvalue().splitlines()]
    room = size.lines - 1
    if len(lines) > room:
        lines = [*lines[: room - 1], f"… {len(lines) - room + 1} more lines"]
    shown = "".join(f"{line[: size.columns]}{_END_OF_LINE}\n" for line in lines)
    sys.stdout.write(f"{_HOME}{shown}{_END_OF_SCREEN}")
    return is_over
