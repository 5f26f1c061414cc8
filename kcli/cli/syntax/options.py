"""Declares the tools of the command line.

Their options are declared with `kcli.command.options`, which the jobs of Spark share. This module exports its names
too, so that a tool imports from one place.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from kcli.cli.syntax.examples import Example, ExitStatus
from kcli.command.options import (
    COMMON,
    INT_MAX,
    LONG_MAX,
    LONG_MIN,
    Argument,
    CommonOptions,
    Exclusive,
    HelpRequested,
    Kind,
    Option,
    ParseError,
    UsageError,
    VersionRequested,
    did_you_mean,
    flag,
    option,
    options_of,
)

if TYPE_CHECKING:
    from re import Pattern

    from kcli.cli.output import Output

__all__ = [
    "COMMON",
    "INT_MAX",
    "LONG_MAX",
    "LONG_MIN",
    "Argument",
    "CallingOptions",
    "Command",
    "CommandError",
    "CommonOptions",
    "ConnectingOptions",
    "Exclusive",
    "Family",
    "HelpRequested",
    "Kind",
    "OnParseError",
    "Option",
    "ParseError",
    "Run",
    "Subcommand",
    "UsageError",
    "VersionRequested",
    "did_you_mean",
    "flag",
    "forbid",
    "java_split",
    "option",
    "options_of",
    "require",
    "separated",
]


def java_split(text: str, separator: str | Pattern[str] = ",") -> list[str]:
    """Java's `String.split`: empty parts at the end are dropped, except that of an empty text."""
    parts = text.split(separator) if isinstance(separator, str) else separator.split(text)
    while text and parts and not parts[-1]:
        parts.pop()
    return parts


def separated(arguments: Iterable[str]) -> tuple[str, ...]:
    """joptsimple's `withValuesSeparatedBy(',')`: every part that is not empty, of each time the option is given."""
    parts: list[str] = []
    for argument in arguments:
        parts += [part for part in argument.split(",") if part] or [argument]
    return tuple(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectingOptions(CommonOptions):
    """The options of every tool that connects to a cluster."""

    profile: str | None = option(
        "The profile of profiles.toml that has the servers, client settings and defaults of options. See "
        "PROFILES in kcli(1).",
        metavar="name",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CallingOptions(ConnectingOptions):
    """The options of every tool that makes admin calls."""

    timeout: int | None = option(
        "The time limit of a call to the cluster, with all retries, in milliseconds "
        "(default.api.timeout.ms).",
        Kind.INTEGER,
        metavar="ms",
    )


class Family(Enum):
    """Which of Kafka's two argument parsers the command follows, or none: it reads `argv` itself."""

    JOPT = "jopt"
    ARGPARSE4J = "argparse4j"
    RAW = "raw"


class OnParseError(Enum):
    """The output after the message of a parse error: the usage table, or nothing."""

    USAGE = "usage"
    MESSAGE = "message"


Run = Callable[[Any, "Output"], "int | Coroutine[object, None, int | None] | None"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subcommand:
    """One of the actions of an argparse4j tool, or of the commands that a raw tool runs, with options of its own."""

    name: str
    help: str
    options: type[CommonOptions]
    run: Run | None = None
    """None for a raw tool, which runs its commands itself. Each of those has a manual page of its own."""
    exclusive: tuple[Exclusive, ...] = ()
    sections: tuple[tuple[str, str], ...] = ()
    """More for that page: titles, each with an example that is shown as it is."""
    exit_status: tuple[ExitStatus, ...] = ()
    """Its exit codes, for that page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A tool: the options, texts and function of `kcli NAME`."""

    name: str
    description: str
    """Kafka's own sentence: the first line of the help."""
    options: type[CommonOptions] = CommonOptions
    run: Run | None = None
    """None if sub-commands do the work."""
    family: Family = Family.JOPT
    on_parse_error: OnParseError = OnParseError.USAGE
    prog: str = ""
    """argparse4j: the name in front of its messages."""
    help_exit: int = 1
    bare_exit: int = 1
    """argparse4j: exit code without any argument; 0 shows the help instead of an error."""
    bare: Callable[[], None] | None = None
    """jopt: called without any argument, if the answer is not the help."""
    subcommands: tuple[Subcommand, ...] = ()
    exclusive: tuple[Exclusive, ...] = ()
    positional: str = ""
    """argparse4j: the name of the words after the options; from the first of them on, no word is an option."""
    file_arguments: bool = False
    """argparse4j: `@file` stands for the lines of a file."""
    has_version: bool = False
    """argparse4j: takes `-v` and `--version`."""
    parse_failed: Callable[[ParseError], int] | None = None
    """Reports a parse error in the tool's own way; returns the exit code."""
    sections: tuple[tuple[str, str], ...] = ()
    """More sections for the manual page: titles, each with a text that is shown as it is."""
    examples: tuple[Example, ...] = ()
    exit_status: tuple[ExitStatus, ...] = ()


class CommandError(Exception):
    """The command could not do its work: its message goes to stderr. An empty message was reported before."""

    def __init__(self, message: str = "", *, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def forbid(options: CommonOptions, used: str, *others: str) -> None:
    """Raises UsageError if an option of `others` (names without dashes) is given together with `used`."""
    for other in others:
        if options.has(used) and options.has(other):
            raise UsageError(f'Option "[{used}]" can\'t be used with option "[{other}]"')


def require(options: CommonOptions, *names: str) -> None:
    """Refuse a command line that lacks one of these options."""
    for name in names:
        if not options.has(name):
            raise UsageError(f'Missing required argument "[{name}]"')
