"""Formats the usage line and the help of a command, in the layout of argparse4j."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from kcli.command.options import Argument, Option
from kcli.model.java_text import trim

WIDTH_COLUMNS = 80
HELP_COLUMN = 25


def usage_line(prog: str, options: Iterable[Option], *more: str) -> str:
    """Returns one paragraph: `usage: prog [-h] ... COMMAND ...`. `more` is the text after the options."""
    parts = ["[-h]", *(_usage_part(option) for option in options), *more]
    return "\n".join(_folded(f"usage: {prog}", parts))


def option_entry(option: Option) -> list[str]:
    """Returns the lines about an option."""
    return entry(_flags(option), _described(option))


def entry(left: str, text: str) -> list[str]:
    """Returns lines in two columns: a name on the left, and its meaning on the right."""
    lines = textwrap.wrap(text, WIDTH_COLUMNS - HELP_COLUMN) or [""]
    if len(left) + 4 > HELP_COLUMN:
        return [f"  {left}", *(" " * HELP_COLUMN + line for line in lines)]
    first = f"  {left}".ljust(HELP_COLUMN) + lines[0]
    return [first, *(" " * HELP_COLUMN + line for line in lines[1:])]


def _metavar(option: Option) -> str:
    if option.choices:
        return "{" + ",".join(option.choices) + "}"
    return option.metavar or option.name.upper().replace(".", "-")


def _usage_part(option: Option) -> str:
    text = f"--{option.name}"
    if option.argument is not Argument.NONE:
        text += f" {_metavar(option)}" + (f" [{_metavar(option)} ...]" if option.words else "")
    return text if option.required else f"[{text}]"


def _flags(option: Option) -> str:
    value = "" if option.argument is Argument.NONE else f" {_metavar(option)}"
    long = f"--{option.name}{value}"
    return f"-{option.short}{value}, {long}" if option.short else long


def _described(option: Option) -> str:
    shown = option.argument is not Argument.NONE and option.default is not None
    return option.help + (f" (default: {option.default})" if shown else "")


def _folded(head: str, parts: list[str]) -> list[str]:
    """Joins the parts to lines of limited width. The second and later lines are indented to the first part."""
    lines = [head]
    for part in parts:
        if len(lines[-1]) + 1 + len(part) > WIDTH_COLUMNS and trim(lines[-1]):
            lines.append(" " * len(head))
        lines[-1] += f" {part}"
    return lines
