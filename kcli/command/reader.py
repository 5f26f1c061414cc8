"""Parses the options of a command line: `--name value`, `--name=value`, and `-nvalue`.

This is the syntax of argparse4j 0.7.0, which Kafka's newer tools use, and of Python's argparse. `Grammar` has the
differences between these two. Errors have the texts of argparse4j.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from kcli.command.options import (
    Argument,
    CommonOptions,
    Exclusive,
    HelpRequested,
    Option,
    OptionValue,
    ParseError,
    did_you_mean,
)
from kcli.model.java_text import parse_double

OptionsT = TypeVar("OptionsT", bound=CommonOptions)


@dataclass(frozen=True, slots=True)
class Grammar:
    """The rules that distinguish options from arguments."""

    abbreviations: bool
    """Whether an unambiguous prefix of `--name` is accepted in place of the full name."""
    spaced_arguments: bool
    """Whether a text with a leading dash and a space is an argument, unless it begins with an option's name."""
    no_arguments: str = "expected at least one argument"
    """The error of an option with several arguments that has none."""


ARGPARSE4J = Grammar(abbreviations=True, spaced_arguments=False, no_arguments="expected 1 argument(s)")


@dataclass(slots=True)
class Words:
    """The arguments of a command line, with the position of the next argument to read."""

    argv: list[str]
    at: int = 0
    past_options: bool = False
    """Whether `--` was read. After it, no argument is an option."""

    def more(self) -> bool:
        """Whether arguments are left."""
        return self.at < len(self.argv)

    def take(self) -> str:
        """Returns the next argument."""
        word = self.argv[self.at]
        self.at += 1
        return word

    def ends_options(self, word: str) -> bool:
        """Whether `word` is `--`. After this word, no argument is an option."""
        ends = word == "--" and not self.past_options
        self.past_options |= ends
        return ends


@dataclass(slots=True)
class Reader:
    """Collects the options of a command line: the value of each field, and the names of the options in order."""

    grammar: Grammar = ARGPARSE4J
    values: dict[str, OptionValue] = field(default_factory=dict)
    given: list[str] = field(default_factory=list)

    def read(self, words: Words, known: list[Option], groups: tuple[Exclusive, ...]) -> None:
        """Reads all remaining arguments: options with their values. Raises ParseError for any other argument."""
        while words.more():
            word = words.take()
            if words.ends_options(word):
                continue
            if words.past_options or not self.is_option(word, known):
                raise ParseError(f"unrecognized arguments: '{word}'")
            self.take(word, words, known, groups)

    def is_option(self, word: str, known: list[Option]) -> bool:
        """Whether `word` looks like an option. A negative number does not."""
        if not word.startswith("-") or len(word) == 1:
            return False
        if self.grammar.spaced_arguments and " " in word and not _names_one(word, known):
            return False
        try:
            parse_double(word)
        except ValueError:
            return True
        return False

    def take(self, word: str, words: Words, known: list[Option], groups: tuple[Exclusive, ...]) -> None:
        """Reads the option in `word` and its arguments. Raises ParseError if the option is unknown or excluded."""
        name, equals, inline = word.partition("=")
        option = self._recognised(name, known)
        if option is None and not name.startswith("--") and len(name) > 2:
            option = self._recognised(name[:2], known)  # -b with its value: -bhost:9092
            equals, inline = "=", word[2:]
        if option is None:
            known_flags = [f"--{candidate.name}" for candidate in known]
            raise ParseError(f"unrecognized arguments: '{name}'", did_you_mean(name, known_flags))
        self._refuse_conflict(option, known, groups)
        self.given.append(option.name)
        if option.argument is Argument.NONE:
            self.values[option.field] = True
            return
        texts = [inline] if equals else self._following(option, words, known)
        converted = tuple(_converted(option, text) for text in texts)
        if option.repeatable:
            before = self.values.get(option.field, ())
            assert isinstance(before, tuple), f"--{option.name} is repeatable"
            self.values[option.field] = (*before, *converted)
        else:
            self.values[option.field] = converted[0] if converted else option.bare_value

    def text(self, field: str) -> str | None:
        """Returns the value of an option whose type is text, or None if it was not given."""
        value = self.values.get(field)
        assert value is None or isinstance(value, str), f"{field} is an option of text"
        return value

    def filled(
        self,
        declaration: type[OptionsT],
        argv: Sequence[str],
        arguments: Sequence[str] = (),
        client_properties: Mapping[str, str] | None = None,
    ) -> OptionsT:
        """Returns the options with the values that were read. `argv` is the whole command line."""
        make: Callable[..., OptionsT] = declaration
        return make(
            given=frozenset(self.given),
            arguments=tuple(arguments),
            argv=tuple(argv),
            client_properties=client_properties or {},
            **self.values,
        )

    def refuse_missing(self, known: list[Option]) -> None:
        """Raises ParseError if a required option is missing."""
        for option in known:
            if option.required and option.name not in self.given:
                raise ParseError(f"argument {flags_of(option)} is required")

    def refuse_empty_groups(self, groups: tuple[Exclusive, ...], known: list[Option]) -> None:
        """Raises ParseError if all options of a required group are missing."""
        for group in groups:
            if group.required and not any(name in self.given for name in group.names):
                flags = " ".join(flags_of(option) for option in known if option.name in group.names)
                raise ParseError(f"one of the arguments {flags} is required")

    def excluded(self, groups: tuple[Exclusive, ...]) -> frozenset[str]:
        """Returns the options of all exclusive groups from which an option was given. No other option of these groups
        may follow."""
        return frozenset(
            name for group in groups if set(group.names) & set(self.given) for name in group.names
        )

    def _recognised(self, name: str, known: list[Option]) -> Option | None:
        if name in ("-h", "--help"):
            raise HelpRequested
        for option in known:
            if _is_called(option, name):
                return option
        if not name.startswith("--") or not self.grammar.abbreviations:
            return None
        close = [option for option in known if f"--{option.name}".startswith(name)]
        if len(close) > 1:
            names = ", ".join(f"--{option.name}" for option in close)
            raise ParseError(f"ambiguous option: {name} could match {names}")
        return close[0] if close else None

    def _following(self, option: Option, words: Words, known: list[Option]) -> list[str]:
        if option.words:
            taken: list[str] = []
            while words.more() and not self.is_option(words.argv[words.at], known):
                taken.append(words.take())
            if not taken:
                raise ParseError(f"argument {flags_of(option)}: {self.grammar.no_arguments}")
            return taken
        if words.more() and not self.is_option(words.argv[words.at], known):
            return [words.take()]
        if option.argument is Argument.OPTIONAL:
            return []
        raise ParseError(f"argument {flags_of(option)}: expected one argument")

    def _refuse_conflict(self, option: Option, known: list[Option], groups: tuple[Exclusive, ...]) -> None:
        for group in groups:
            if option.name not in group.names:
                continue
            for other in known:
                if other.name in group.names and other.name != option.name and other.name in self.given:
                    raise ParseError(
                        f"argument {flags_of(option)}: not allowed with argument {flags_of(other)}"
                    )


def flags_of(option: Option) -> str:
    """Returns the name of an option in messages: `--id/-i`."""
    return f"--{option.name}/-{option.short}" if option.short else f"--{option.name}"


def _is_called(option: Option, name: str) -> bool:
    return name == f"--{option.name}" or bool(option.short and name == f"-{option.short}")


def _names_one(word: str, known: list[Option]) -> bool:
    """Whether a text with a space is an option with its value: `--name=some text`, `-nsome text`."""
    names = (word.partition("=")[0], word[:2])
    return any(_is_called(option, name) for option in known for name in names)


def _converted(option: Option, text: str) -> OptionValue:
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
