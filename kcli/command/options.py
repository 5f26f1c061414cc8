"""Declares the options of a command as the fields of a dataclass.

Parsers, help, man pages and completion read the same declarations:

    @dataclass(frozen=True, slots=True, kw_only=True)
    class TopicsOptions(CommonOptions):
        topic: str | None = option("The topic to work on.", metavar="topic")
        partitions: int | None = option("How many partitions.", Kind.INTEGER, metavar="# of partitions")
        list: bool = flag("List all topics.")

The field `replica_assignment` is the option `--replica-assignment`. A parser makes an instance of the dataclass. The
tools of the command line and the jobs of Spark both use this module, so it imports neither of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from kcli.model.java_text import parse_boolean, parse_double, parse_int, parse_long, parse_short

OptionValue = bool | int | float | str | tuple["OptionValue", ...] | None
"""The value of an option. An option that can be repeated has a tuple of values."""


class Kind(Enum):
    """The type of an option's argument. The value of each member is Java's name of the type, as in Kafka's help."""

    STRING = "String"
    SHORT = "Short"
    INTEGER = "Integer"
    LONG = "Long"
    DOUBLE = "Double"
    BOOLEAN = "Boolean"

    def convert(self, text: str) -> str | int | float | bool:
        """Returns the typed value. Raises ValueError if `text` has another type."""
        match self:
            case Kind.STRING:
                return text
            case Kind.SHORT:
                return parse_short(text)
            case Kind.INTEGER:
                return parse_int(text)
            case Kind.LONG:
                return parse_long(text)
            case Kind.DOUBLE:
                return parse_double(text)
            case Kind.BOOLEAN:
                return parse_boolean(text)


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
    """The one-letter name, without its dash, for example `b` for `-b`. Only argparse4j has such names."""
    choices: tuple[str, ...] = ()
    bare_value: OptionValue = None
    """The value of the option if its optional argument is omitted."""
    deprecated: bool = False
    """Whether the option is accepted but not offered by completion."""
    words: bool = False
    """Whether the option has several arguments, up to the next option (`nargs="+"` of argparse4j)."""


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
    """Returns a field for an option with an argument.

    The value of a repeatable option is a tuple of all its values, in order.
    """
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
    """The options of every command.

    `given` has the names (without dashes) of the options that were on the command line.
    """

    given: frozenset[str] = frozenset()
    arguments: tuple[str, ...] = ()
    """The positional arguments, which belong to no option (jopt accepts them)."""
    argv: tuple[str, ...] = ()
    """All arguments, for messages that repeat the command line."""
    client_properties: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    """The client settings of the profile, which may contain passwords.

    The command line takes precedence over these settings.
    """
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


# Our own options. In every help text they come after Kafka's options. They are accepted before and after a sub-command.
COMMON = frozenset({"output", "profile", "timeout"})


def options_of(declaration: type[CommonOptions]) -> list[Option]:
    """Returns the options of a dataclass with their names, in order of declaration.

    A subclass overrides an option by a field with the same name.
    """
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
    # If a tool declares its own --timeout, the common --timeout is left out, because the tool's option has Kafka's
    # meaning.
    yield from (option for option in common if option.name not in taken)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusive:
    """A group of options, as in argparse4j: at most one of them, or exactly one if `required`."""

    names: tuple[str, ...]
    required: bool = False


class UsageError(Exception):
    """Raised if the command line is invalid. The message and the usage go to stderr, and the exit code is 1."""


class ParseError(UsageError):
    """Raised for an argument that the parser refuses. `hint` suggests another spelling.

    `option` is the name of the option with the invalid argument.

    `java_class` is the name of joptsimple's exception. If `is_late` is True, joptsimple raises this exception only when
    the tool uses the value. Kafka's tool then does not print the usage table.
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
    """Raised for `--help`, and if a command without arguments shows its help."""


class VersionRequested(Exception):
    """Raised for `--version`."""


def did_you_mean(word: str, known: list[str]) -> str:
    """Returns a question with the name in `known` that is most similar, or an empty text."""
    from difflib import get_close_matches

    close = get_close_matches(word, known, n=1, cutoff=0.6)
    return f"Did you mean {close[0]}?" if close else ""
