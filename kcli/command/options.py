"""Declares the options of a command as the fields of a dataclass.

Parsers, help, man pages and completion read the same declarations:

    @dataclass(frozen=True, slots=True, kw_only=True)
    class TopicsOptions(CommonOptions):
        topic: str | None = option("The topic to work on.", metavar="topic")
        partitions: int | None = option("How many partitions.", Kind.INTEGER, metavar="# of partitions")
        list: bool = flag("List all topics.")

The field `replica_assignment` is the option `--replica-assignment`. A parser makes an instance of the dataclass. The
tools of the command line and the jobs of Spark share this module, so it imports neither of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

SHORT_MIN, SHORT_MAX = -(1 << 15), (1 << 15) - 1
INT_MIN, INT_MAX = -(2**31), 2**31 - 1
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1


OptionValue = bool | int | float | str | tuple["OptionValue", ...] | None
"""The value of an option; of one that can be repeated, the tuple of its values."""


class Kind(Enum):
    """The type of an option's argument. The value is Java's name of the type, as in Kafka's help."""

    STRING = "String"
    SHORT = "Short"
    INTEGER = "Integer"
    LONG = "Long"
    DOUBLE = "Double"
    BOOLEAN = "Boolean"

    def convert(self, text: str) -> str | int | float | bool:
        """Returns the typed value. ValueError if `text` is not one."""
        match self:
            case Kind.STRING:
                return text
            case Kind.SHORT:
                return _java_short(text)
            case Kind.INTEGER:
                return _java_integer(text, INT_MIN, INT_MAX)
            case Kind.LONG:
                return _java_integer(text, LONG_MIN, LONG_MAX)
            case Kind.DOUBLE:
                return float(text)
            case Kind.BOOLEAN:
                return text.lower() == "true"


def _java_short(text: str) -> int:
    """Reads a number as Java's `parseShort`, with its own message for numbers out of range."""
    value = _java_integer(text, INT_MIN, INT_MAX)
    if not SHORT_MIN <= value <= SHORT_MAX:
        raise ValueError(f'Value out of range. Value:"{text}" Radix:10')
    return value


def _java_integer(text: str, least: int, most: int) -> int:
    """Reads a number as Java's `parseInt` and `parseLong`: a sign and digits only, in range."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits.isdecimal():
        raise ValueError(f'For input string: "{text}"')
    value = int(text)
    if not least <= value <= most:
        raise ValueError(f'For input string: "{text}"')
    return value


class Argument(Enum):
    """Whether an option takes an argument."""

    NONE = "none"
    OPTIONAL = "optional"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option of a command, without its dashes."""

    name: str = ""
    field: str = ""
    help: str
    kind: Kind = Kind.STRING
    argument: Argument = Argument.REQUIRED
    metavar: str = ""
    default: OptionValue = None
    repeatable: bool = False
    required: bool = False
    short: str = ""
    """One letter, without its dash (argparse4j: `-b`)."""
    choices: tuple[str, ...] = ()
    bare_value: OptionValue = None
    """The value of an optional argument that is left out."""
    deprecated: bool = False
    """Accepted, but not in completion."""
    words: bool = False
    """argparse4j `nargs="+"`: takes every word up to the next option."""


def option(
    help: str,
    kind: Kind = Kind.STRING,
    *,
    name: str = "",
    metavar: str = "",
    default: OptionValue = None,
    repeatable: bool = False,
    required: bool = False,
    optional_argument: bool = False,
    bare_value: OptionValue = None,
    short: str = "",
    choices: tuple[str, ...] = (),
    deprecated: bool = False,
    words: bool = False,
) -> Any:
    """Returns a field for an option with an argument. A repeatable one is a tuple of all values, in order."""
    declared = Option(
        name=name,
        help=help,
        kind=kind,
        argument=Argument.OPTIONAL if optional_argument else Argument.REQUIRED,
        metavar=metavar,
        default=default,
        repeatable=repeatable or words,
        required=required,
        short=short,
        choices=choices,
        bare_value=bare_value,
        deprecated=deprecated,
        words=words,
    )
    empty = () if declared.repeatable and default is None else default
    return dataclasses.field(default=empty, metadata={"option": declared})


def flag(help: str, *, name: str = "", short: str = "", deprecated: bool = False) -> bool:
    """Returns a field for an option without an argument, which is false by default."""
    declared = Option(
        name=name, help=help, argument=Argument.NONE, default=False, short=short, deprecated=deprecated
    )
    field: bool = dataclasses.field(default=False, metadata={"option": declared})
    return field


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonOptions:
    """The options of every command. `given` names (without dashes) the options that were on the command line."""

    given: frozenset[str] = frozenset()
    arguments: tuple[str, ...] = ()
    """The words that belong to no option (jopt accepts them)."""
    argv: tuple[str, ...] = ()
    """All words, for messages that repeat them."""
    client_properties: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    """The client settings of the profile, perhaps with passwords. The command line takes precedence over them."""
    output: str = option(
        "The format of the results: Kafka's text, one JSON object per line, or tab-separated values with "
        "a header line.",
        metavar="format",
        default="text",
        choices=("text", "json", "tsv"),
    )

    def has(self, name: str) -> bool:
        """Whether `--name` was on the command line."""
        return name in self.given


# Our own options. They come after Kafka's in every help, and are accepted before and after a sub-command.
COMMON = frozenset({"output", "profile", "timeout"})


def options_of(declaration: type[CommonOptions]) -> list[Option]:
    """Returns the options of a dataclass with their names, in order of declaration. A subclass overrides by field."""
    return list(_declared(declaration))


def _declared(declaration: type[CommonOptions]) -> Iterator[Option]:
    common: list[Option] = []
    taken: set[str] = set()
    for field in dataclasses.fields(declaration):
        declared = field.metadata.get("option")
        if declared is None:
            continue
        name = declared.name or field.name.rstrip("_").replace("_", "-")
        named = dataclasses.replace(declared, field=field.name, name=name)
        if field.name in COMMON:
            common.append(named)
        else:
            taken.add(name)
            yield named
    # If a tool has its own --timeout, that one is used, because it has Kafka's meaning.
    yield from (option for option in common if option.name not in taken)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusive:
    """A group of options, as in argparse4j: at most one of them, or exactly one if `required`."""

    names: tuple[str, ...]
    required: bool = False


class UsageError(Exception):
    """The command line is wrong. The message and the usage go to stderr, and the exit code is 1."""


class ParseError(UsageError):
    """An argument that the parser refuses. `hint` suggests another spelling, and `option` is the option concerned.

    `java_class`: joptsimple's exception. `is_late`: joptsimple raises it only when the tool asks for the value, too
    late for the usage table.
    """

    def __init__(
        self,
        message: str,
        hint: str = "",
        *,
        option: str = "",
        java_class: str = "OptionException",
        is_late: bool = False,
    ) -> None:
        super().__init__(message)
        self.hint = hint
        self.option = option
        self.java_class = java_class
        self.is_late = is_late


class HelpRequested(Exception):
    """`--help`, or a call without arguments that shows it."""


class VersionRequested(Exception):
    """`--version`."""


def did_you_mean(word: str, known: list[str]) -> str:
    """Returns a question with the closest of `known`, or nothing."""
    from difflib import get_close_matches

    close = get_close_matches(word, known, n=1, cutoff=0.6)
    return f"Did you mean {close[0]}?" if close else ""
