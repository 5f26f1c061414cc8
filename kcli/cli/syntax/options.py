"""Declares the tools of the command line.

The options of the tools are declared with `kcli.command.options`, which the jobs of Spark also use. This module also
exports the names of `kcli.command.options`, so that a tool needs to import from one module only.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from kcli.command.examples import Example, ExitStatus
from kcli.command.options import (
    COMMON,
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
    """Splits like Java's `String.split`: empty parts at the end are dropped, but an empty text gives one empty part."""
    parts = text.split(separator) if isinstance(separator, str) else separator.split(text)
    while text and parts and not parts[-1]:
        parts.pop()
    return parts


def separated(arguments: Iterable[str]) -> tuple[str, ...]:
    """Splits like joptsimple's `withValuesSeparatedBy(',')`.

    Returns the parts of all arguments, without empty parts.
    """
    parts: list[str] = []
    for argument in arguments:
        parts += [part for part in argument.split(",") if part] or [argument]
    return tuple(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectingOptions(CommonOptions):
    """The options of all tools that connect to a cluster."""

    profile: str | None = option(
        "The name of a profile. A profile contains servers, client settings and defaults of options. See PROFILES in "
        "kcli(1).",
        metavar="name",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CallingOptions(ConnectingOptions):
    """The options of every tool that makes admin calls."""

    timeout: int | None = option(
        "The time limit for a call to the cluster, including retries, in milliseconds (default.api.timeout.ms).",
        Kind.INTEGER,
        metavar="ms",
    )


class Family(Enum):
    """The syntax of a command: one of Kafka's two argument parsers, or RAW if the command parses `argv` itself."""

    JOPT = "jopt"
    ARGPARSE4J = "argparse4j"
    RAW = "raw"


class OnParseError(Enum):
    """The text after the message of a parse error: the usage table, or nothing."""

    USAGE = "usage"
    MESSAGE = "message"


Run = Callable[[Any, "Output"], "int | Coroutine[object, None, int | None] | None"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subcommand:
    """An action of an argparse4j tool, or a command of a raw tool, with its own options."""

    name: str
    help: str
    options: type[CommonOptions]
    run: Run | None = None
    """The function that runs the sub-command, or None for a raw tool, which runs its commands itself.

    Each command of a raw tool has its own manual page.
    """
    exclusive: tuple[Exclusive, ...] = ()
    positional: str = ""
    """The name of the positional arguments, which follow the action. Empty if the action has none."""
    is_kafkas: bool = True
    """Whether Kafka's script has the action too. If False, the shim of Kafka's script refuses the action."""
    examples: tuple[Example, ...] = ()
    exit_status: tuple[ExitStatus, ...] = ()
    """The examples and exit codes for the manual page of a raw tool's command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """The declaration of a tool: the options, texts and function of `kcli NAME`."""

    name: str
    description: str
    """The first line of the help, in Kafka's own words."""
    options: type[CommonOptions] = CommonOptions
    run: Run | None = None
    """The function that runs the command, or None if the command has sub-commands."""
    family: Family = Family.JOPT
    on_parse_error: OnParseError = OnParseError.USAGE
    prog: str = ""
    """For argparse4j: the program name in front of messages."""
    help_exit: int = 1
    bare_exit: int = 1
    """For argparse4j: the exit code without any argument. If it is 0, the help is shown instead of an error."""
    bare: Callable[[], None] | None = None
    """For jopt: called if there is no argument, instead of showing the help."""
    error_exit: int = 1
    """The exit code of errors. It differs from 1 if 1 is a result of the command, such as "not compatible"."""
    subcommands: tuple[Subcommand, ...] = ()
    exclusive: tuple[Exclusive, ...] = ()
    positional: str = ""
    """For argparse4j: the name of the positional arguments. After the first of them, no argument is read as an option.
    """
    operand: str = ""
    """For argparse4j: the name of the only positional argument, if the command has one. It is required, and options may
    be before and after it."""
    file_arguments: bool = False
    """For argparse4j: whether an argument `@file` is replaced by the lines of that file."""
    has_version: bool = False
    """For argparse4j: whether the command has `-v` and `--version`."""
    parse_failed: Callable[[ParseError], int] | None = None
    """Reports a parse error in the tool's own form, and returns the exit code."""
    sections: tuple[tuple[str, str], ...] = ()
    """More sections for the manual page: titles, each with a text that is shown unchanged."""
    examples: tuple[Example, ...] = ()
    exit_status: tuple[ExitStatus, ...] = ()


class CommandError(Exception):
    """Raised if the command cannot do its work.

    The message goes to stderr. The message is empty if the failure is already reported.
    """

    def __init__(self, message: str = "", *, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def forbid(options: CommonOptions, used: str, *others: str) -> None:
    """Raises UsageError if an option of `others` (names without dashes) is given together with `used`."""
    for other in others:
        if options.has(used) and options.has(other):
            raise UsageError(f'Option "[{used}]" can\'t be used with option "[{other}]"')


def require(options: CommonOptions, *names: str) -> None:
    """Raises UsageError if one of these options is missing."""
    for name in names:
        if not options.has(name):
            raise UsageError(f'Missing required argument "[{name}]"')
