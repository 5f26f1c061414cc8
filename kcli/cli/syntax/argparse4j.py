"""The command-line syntax of Kafka's newer tools: argparse4j 0.7.0.

Sub-commands; `--name value`, `--name=value`, any unambiguous beginning of `--name`, and one-letter options. Errors are
a usage line and `PROG: error: TEXT` on stderr, exit 1. Help goes to stdout; its exit code differs by tool.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Any

from kcli.cli.syntax.options import (
    COMMON,
    Argument,
    Command,
    CommonOptions,
    Exclusive,
    HelpRequested,
    Option,
    ParseError,
    Subcommand,
    VersionRequested,
    did_you_mean,
    options_of,
)
from kcli.cli.syntax.profiles import Profile, chosen_profile

WIDTH_COLUMNS = 80
HELP_COLUMN = 25


@dataclass(slots=True)
class _Words:
    """The command line, and how far it has been read."""

    argv: list[str]
    at: int = 0
    past_options: bool = False
    """Behind `--` nothing is an option any more."""

    def more(self) -> bool:
        return self.at < len(self.argv)

    def take(self) -> str:
        word = self.argv[self.at]
        self.at += 1
        return word

    def ends_options(self, word: str) -> bool:
        ends = word == "--" and not self.past_options
        self.past_options |= ends
        return ends

    def is_flag(self, word: str) -> bool:
        return not self.past_options and _is_flag(word)


def parse(command: Command, argv: list[str]) -> tuple[CommonOptions, Subcommand | None]:
    """The options filled from `argv`, and the sub-command chosen. Raises ParseError, HelpRequested or
    VersionRequested."""
    if not argv and command.bare_exit == 0:
        raise HelpRequested
    words = _Words(_expanded(argv) if command.file_arguments else argv)
    top = options_of(command.options)
    values: dict[str, Any] = {}
    given: list[str] = []
    chosen: Subcommand | None = None
    while words.more() and chosen is None:
        word = words.take()
        if words.ends_options(word):
            continue
        if command.has_version and word in ("-v", "--version"):
            raise VersionRequested
        if words.is_flag(word):
            _take_option(word, words, top, values, given, command.exclusive)
        elif command.subcommands:
            chosen = _subcommand(command, word)
        elif command.positional:
            words.at -= 1
            break
        else:
            raise ParseError(f"unrecognized arguments: '{word}'")
    known = _own_options(command, chosen) if chosen is not None else []
    if chosen is not None:
        _parse_subcommand(chosen, known, words, values, given)
    profile = chosen_profile([*top, *known], values.get("profile"))
    if profile is not None:
        _take_profile(profile, command, top, command.exclusive, values, given, argv)
        _take_profile(profile, command, known, chosen.exclusive if chosen else (), values, given, argv)
        values["client_properties"] = profile.properties
    if chosen is not None:
        _check_required(known, given)
        _check_groups(chosen.exclusive, known, given)
    _check_required(top, given)
    if command.subcommands and chosen is None:
        raise ParseError("too few arguments")
    _check_groups(command.exclusive, top, given)
    declaration = chosen.options if chosen is not None else command.options
    arguments = tuple(words.argv[words.at :])
    return declaration(given=frozenset(given), arguments=arguments, argv=tuple(argv), **values), chosen


def usage(command: Command) -> str:
    """One paragraph: `usage: prog [-h] ... COMMAND ...`."""
    head = f"usage: {command.prog}"
    parts = ["[-h]"] + [_usage_part(option) for option in options_of(command.options)]
    if command.subcommands:
        parts.append("{" + ",".join(sub.name for sub in command.subcommands) + "} ...")
    if command.positional:
        parts.append(f"[{command.positional} ...]")
    return "\n".join(_folded(head, parts))


def help_text(command: Command) -> str:
    """Usage, description, sub-commands and options, in argparse4j's layout and our words."""
    lines = [usage(command), "", *textwrap.wrap(command.description, WIDTH_COLUMNS), ""]
    if command.subcommands:
        lines.append("sub-commands:")
        for sub in command.subcommands:
            lines += _entry(sub.name, sub.help)
            for option in _own_options(command, sub):
                lines += ["  " + line for line in _entry(_flags(option), _described(option))]
        lines.append("")
    lines.append("options:")
    lines += _entry("-h, --help", "Show this help message and exit.")
    if command.has_version:
        lines += _entry("-v, --version", "Print the version and exit.")
    for option in options_of(command.options):
        lines += _entry(_flags(option), _described(option))
    return "\n".join(lines)


def flags_of(option: Option) -> str:
    """`--id/-i`, as messages name it."""
    return f"--{option.name}/-{option.short}" if option.short else f"--{option.name}"


def _expanded(argv: list[str]) -> list[str]:
    words: list[str] = []
    for word in argv:
        if word.startswith("@") and len(word) > 1:
            try:
                with open(word[1:], encoding="utf-8") as file:
                    words += file.read().splitlines()
            except OSError as error:
                raise ParseError(
                    f"Could not read arguments from file '{word[1:]}': {error.strerror}"
                ) from None
        else:
            words.append(word)
    return words


def _is_flag(word: str) -> bool:
    """A dash and more, unless it is a negative number."""
    if not word.startswith("-") or len(word) == 1:
        return False
    try:
        float(word)
    except ValueError:
        return True
    return False


def _subcommand(command: Command, word: str) -> Subcommand:
    for sub in command.subcommands:
        if sub.name == word:
            return sub
    names = [sub.name for sub in command.subcommands]
    choose = ", ".join(f"'{name}'" for name in names)
    raise ParseError(f"invalid choice: '{word}' (choose from {choose})", did_you_mean(word, names))


def _own_options(command: Command, sub: Subcommand) -> list[Option]:
    """What a sub-command takes: its own options and the common ones, not those that come before it."""
    before = {option.name for option in options_of(command.options)} - COMMON
    return [option for option in options_of(sub.options) if option.name not in before]


def _parse_subcommand(
    sub: Subcommand, known: list[Option], words: _Words, values: dict[str, Any], given: list[str]
) -> None:
    while words.more():
        word = words.take()
        if words.ends_options(word):
            continue
        if not words.is_flag(word):
            raise ParseError(f"unrecognized arguments: '{word}'")
        _take_option(word, words, known, values, given, sub.exclusive)


def _take_profile(
    profile: Profile,
    command: Command,
    known: list[Option],
    groups: tuple[Exclusive, ...],
    values: dict[str, Any],
    given: list[str],
    argv: list[str],
) -> None:
    """What the profile says, where the command line says neither that nor what excludes it."""
    excluded = {name for group in groups if set(group.names) & set(given) for name in group.names}
    for name, text in profile.words(command, known, {*given, *excluded}, argv):
        word = f"--{name}" if text is None else f"--{name}={text}"
        _take_option(word, _Words([]), known, values, given, groups)


def _take_option(
    word: str,
    words: _Words,
    known: list[Option],
    values: dict[str, Any],
    given: list[str],
    groups: tuple[Exclusive, ...],
) -> None:
    name, equals, inline = word.partition("=")
    option = _recognised(name, known)
    if option is None and not name.startswith("--") and len(name) > 2:
        option = _recognised(name[:2], known)  # -b value glued on: -bhost:9092
        equals, inline = "=", word[2:]
    if option is None:
        known_flags = [f"--{candidate.name}" for candidate in known]
        raise ParseError(f"unrecognized arguments: '{name}'", did_you_mean(name, known_flags))
    _check_conflicts(option, known, given, groups)
    given.append(option.name)
    if option.argument is Argument.NONE:
        values[option.field] = True
        return
    texts = [inline] if equals else _following(option, words)
    converted = tuple(_converted(option, text) for text in texts)
    if option.repeatable:
        values[option.field] = (*values.get(option.field, ()), *converted)
    else:
        values[option.field] = converted[0] if converted else option.bare_value


def _recognised(name: str, known: list[Option]) -> Option | None:
    if name in ("-h", "--help"):
        raise HelpRequested
    for option in known:
        if name == f"--{option.name}" or (option.short and name == f"-{option.short}"):
            return option
    if not name.startswith("--"):
        return None
    close = [option for option in known if f"--{option.name}".startswith(name)]
    if len(close) > 1:
        names = ", ".join(f"--{option.name}" for option in close)
        raise ParseError(f"ambiguous option: {name} could match {names}")
    return close[0] if close else None


def _following(option: Option, words: _Words) -> list[str]:
    if option.words:
        taken: list[str] = []
        while words.more() and not _is_flag(words.argv[words.at]):
            taken.append(words.take())
        if not taken:
            raise ParseError(f"argument {flags_of(option)}: expected at least one argument")
        return taken
    if words.more() and not _is_flag(words.argv[words.at]):
        return [words.take()]
    if option.argument is Argument.OPTIONAL:
        return []
    raise ParseError(f"argument {flags_of(option)}: expected one argument")


def _converted(option: Option, text: str) -> Any:
    try:
        value = option.kind.convert(text)
    except ValueError as error:
        raise ParseError(
            f"argument {flags_of(option)}: could not convert '{text}' to {option.kind.value} ({error})"
        ) from None
    if option.choices and str(value) not in option.choices:
        choose = ",".join(option.choices)
        raise ParseError(
            f"argument {flags_of(option)}: invalid choice: '{text}' (choose from {{{choose}}})",
            did_you_mean(text, list(option.choices)),
        )
    return value


def _check_conflicts(
    option: Option, known: list[Option], given: list[str], groups: tuple[Exclusive, ...]
) -> None:
    for group in groups:
        if option.name not in group.names:
            continue
        for other in known:
            if other.name in group.names and other.name != option.name and other.name in given:
                raise ParseError(f"argument {flags_of(option)}: not allowed with argument {flags_of(other)}")


def _check_required(known: list[Option], given: list[str]) -> None:
    for option in known:
        if option.required and option.name not in given:
            raise ParseError(f"argument {flags_of(option)} is required")


def _check_groups(groups: tuple[Exclusive, ...], known: list[Option], given: list[str]) -> None:
    for group in groups:
        if group.required and not any(name in given for name in group.names):
            flags = " ".join(flags_of(option) for option in known if option.name in group.names)
            raise ParseError(f"one of the arguments {flags} is required")


def _metavar(option: Option) -> str:
    if option.choices:
        return "{" + ",".join(option.choices) + "}"
    return option.metavar or option.name.upper().replace(".", "-")


def _usage_part(option: Option) -> str:
    text = f"--{option.name}"
    if option.argument is not Argument.NONE:
        text += f" {_metavar(option)}" + (" ..." if option.words else "")
    return text if option.required else f"[{text}]"


def _flags(option: Option) -> str:
    value = "" if option.argument is Argument.NONE else f" {_metavar(option)}"
    long = f"--{option.name}{value}"
    return f"-{option.short}{value}, {long}" if option.short else long


def _described(option: Option) -> str:
    shown = option.argument is not Argument.NONE and option.default is not None
    return option.help + (f" (default: {option.default})" if shown else "")


def _entry(left: str, text: str) -> list[str]:
    lines = textwrap.wrap(text, WIDTH_COLUMNS - HELP_COLUMN) or [""]
    if len(left) + 4 > HELP_COLUMN:
        return [f"  {left}", *(" " * HELP_COLUMN + line for line in lines)]
    first = f"  {left}".ljust(HELP_COLUMN) + lines[0]
    return [first, *(" " * HELP_COLUMN + line for line in lines[1:])]


def _folded(head: str, parts: list[str]) -> list[str]:
    """Break between options only, continuation lines under the first option."""
    lines = [head]
    for part in parts:
        if len(lines[-1]) + 1 + len(part) > WIDTH_COLUMNS and lines[-1].strip():
            lines.append(" " * len(head))
        lines[-1] += f" {part}"
    return lines
