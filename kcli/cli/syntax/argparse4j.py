"""The command-line syntax of Kafka's newer tools: argparse4j 0.7.0.

The syntax has sub-commands, `--name value`, `--name=value`, any unambiguous prefix of `--name`, and one-letter options.
After an error, a usage line and `PROG: error: TEXT` go to stderr, and the exit code is 1. Help goes to stdout, with an
exit code that differs by tool.
"""

from __future__ import annotations

import textwrap

from kcli.cli.syntax.options import (
    COMMON,
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
from kcli.command.help import WIDTH_COLUMNS, entry, option_entry, usage_line
from kcli.command.reader import Reader, Words
from kcli.model.java_utf8 import JAVA


def parse(command: Command, argv: list[str]) -> tuple[CommonOptions, Subcommand | None]:
    """Returns the options from `argv` and the chosen sub-command.

    Raises ParseError, HelpRequested or VersionRequested.
    """
    if not argv and command.bare_exit == 0:
        raise HelpRequested
    words = Words(_expanded(argv) if command.file_arguments else argv)
    top = options_of(command.options)
    reader = Reader()
    arguments: list[str] = []
    chosen = _read_top(command, words, top, reader, arguments)
    known = _own_options(command, chosen) if chosen is not None else []
    if chosen is not None:
        while chosen.positional and words.more() and not reader.is_option(words.argv[words.at], known):
            arguments.append(words.take())
        reader.read(words, known, chosen.exclusive)
    profile = chosen_profile([*top, *known], reader.text("profile"))
    if profile is not None:
        _take_profile(profile, command, top, command.exclusive, reader, argv)
        _take_profile(profile, command, known, chosen.exclusive if chosen else (), reader, argv)
    if chosen is not None:
        reader.refuse_missing(known)
        reader.refuse_empty_groups(chosen.exclusive, known)
    reader.refuse_missing(top)
    if command.operand and not arguments:
        raise ParseError("too few arguments")
    if command.subcommands and chosen is None:
        raise ParseError("too few arguments")
    reader.refuse_empty_groups(command.exclusive, top)
    declaration = chosen.options if chosen is not None else command.options
    properties = profile.properties if profile is not None else None
    return reader.filled(declaration, argv, arguments or words.argv[words.at :], properties), chosen


def _read_top(
    command: Command, words: Words, top: list[Option], reader: Reader, arguments: list[str]
) -> Subcommand | None:
    """Reads arguments up to the sub-command or the first positional argument. Returns the sub-command, or None.

    If the command has an operand, reads all arguments, and adds the operand to `arguments`.
    """
    while words.more():
        word = words.take()
        if words.ends_options(word):
            continue
        if command.has_version and word in ("-v", "--version"):
            raise VersionRequested
        if not words.past_options and reader.is_option(word, top):
            reader.take(word, words, top, command.exclusive)
        elif command.subcommands:
            return _subcommand(command, word)
        elif command.operand and not arguments:
            arguments.append(word)
        elif command.positional:
            words.at -= 1
            break
        else:
            raise ParseError(f"unrecognized arguments: '{word}'")
    return None


def usage(command: Command) -> str:
    """Returns the usage as one paragraph: `usage: prog [-h] ... COMMAND ...`."""
    more = []
    if command.subcommands:
        more.append("{" + ",".join(sub.name for sub in command.subcommands) + "} ...")
    if command.positional:
        more.append(f"[{command.positional} ...]")
    if command.operand:
        more.append(command.operand)
    return usage_line(command.prog, options_of(command.options), *more)


def help_text(command: Command) -> str:
    """Returns usage, description, sub-commands and options, in argparse4j's layout."""
    lines = [usage(command), "", *textwrap.wrap(command.description, WIDTH_COLUMNS), ""]
    if command.subcommands:
        lines.append("sub-commands:")
        for sub in command.subcommands:
            lines += entry(sub.name, sub.help)
            for option in _own_options(command, sub):
                lines += ["  " + line for line in option_entry(option)]
        lines.append("")
    lines.append("options:")
    lines += entry("-h, --help", "Show this help message and exit.")
    if command.has_version:
        lines += entry("-v, --version", "Print the version and exit.")
    for option in options_of(command.options):
        lines += option_entry(option)
    return "\n".join(lines)


def _expanded(argv: list[str]) -> list[str]:
    words: list[str] = []
    for word in argv:
        if word.startswith("@") and len(word) > 1:
            try:
                # As in Java, only \n, \r and \r\n end a line, and bytes that are not UTF-8 are replaced.
                with open(word[1:], encoding="utf-8", errors=JAVA) as file:
                    words += (line.removesuffix("\n") for line in file)
            except OSError as error:
                raise ParseError(
                    f"Could not read arguments from file '{word[1:]}': {error.strerror}"
                ) from None
        else:
            words.append(word)
    return words


def _subcommand(command: Command, word: str) -> Subcommand:
    for sub in command.subcommands:
        if sub.name == word:
            return sub
    # The message lists only Kafka's sub-commands, as in Kafka. The usage line above the message lists our own
    # sub-commands too.
    choose = ", ".join(f"'{sub.name}'" for sub in command.subcommands if sub.is_kafkas)
    hint = did_you_mean(word, [sub.name for sub in command.subcommands])
    raise ParseError(f"invalid choice: '{word}' (choose from {choose})", hint)


def _own_options(command: Command, sub: Subcommand) -> list[Option]:
    """Returns the options that may follow the sub-command: its own options and the common options."""
    before = {option.name for option in options_of(command.options)} - COMMON
    return [option for option in options_of(sub.options) if option.name not in before]


def _take_profile(
    profile: Profile,
    command: Command,
    known: list[Option],
    groups: tuple[Exclusive, ...],
    reader: Reader,
    argv: list[str],
) -> None:
    """Adds the options of the profile. Leaves out an option that the command line has, or that an exclusive group
    forbids."""
    taken = {*reader.given, *reader.excluded(groups)}
    for name, text in profile.words(command, known, taken, argv):
        word = f"--{name}" if text is None else f"--{name}={text}"
        reader.take(word, Words([]), known, groups)
