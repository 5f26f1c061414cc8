"""The command-line syntax of most Kafka tools: joptsimple 5.0.4 without abbreviations, as Kafka configures it.

`--name value`, `--name=value` and `-name value` have the same meaning. The argument of an option may begin with a dash.
`--` ends the options. Positional arguments are ignored. Without any argument, or with `--help`, the help goes to stderr
and the exit code is 1.
"""

from __future__ import annotations

import textwrap
from typing import Any

from kcli.cli.output import warn
from kcli.cli.syntax.options import (
    Argument,
    Command,
    CommonOptions,
    HelpRequested,
    Option,
    ParseError,
    VersionRequested,
    did_you_mean,
    options_of,
)
from kcli.cli.syntax.profiles import chosen_profile
from kcli.command.options import OptionValue

WIDTH_COLUMNS = 80
# The names of joptsimple's exceptions. Tools that do not catch an exception print its name.
UNRECOGNIZED = "UnrecognizedOptionException"
MISSING_ARGUMENT = "OptionMissingRequiredArgumentException"
NOT_CONVERTIBLE = "OptionArgumentConversionException"
MULTIPLE_ARGUMENTS = "MultipleArgumentsForOptionException"
MISSING_OPTIONS = "MissingRequiredOptionsException"


def parse(command: Command, argv: list[str]) -> CommonOptions:
    """Returns the options of `command` from `argv`. Raises ParseError, HelpRequested or VersionRequested."""
    if not argv:
        raise HelpRequested
    known = {declared.name: declared for declared in options_of(command.options)}
    words, arguments = _split(argv, known)
    names = frozenset(name for name, _ in words)
    if "help" in names:
        raise HelpRequested
    if "version" in names:
        raise VersionRequested
    values: dict[str, Any] = {}
    profile = chosen_profile(list(known.values()), dict(words).get("profile"))
    if profile is not None:
        words += profile.words(command, list(known.values()), names, argv)
        names = frozenset(name for name, _ in words)
        values["client_properties"] = profile.properties
    _refuse_missing([declared.name for declared in known.values() if declared.required], names)
    for name in names:
        texts = [text for word, text in words if word == name]
        values[known[name].field] = _value(known[name], texts)
    return command.options(given=names, arguments=tuple(arguments), argv=tuple(argv), **values)


def let_through(error: ParseError) -> int:
    """Reports an error in the form in which the JVM reports an uncaught exception. Returns the exit code."""
    warn(f'Exception in thread "main" joptsimple.{error.java_class}: {error}')
    return 1


def usage(command: Command) -> str:
    """Returns the table of options: joptsimple's layout, with kcli's own descriptions."""
    declared = sorted(_shown(command), key=lambda option: option.name)
    marked = any(option.required for option in declared)
    left = [_left_column(option, marked) for option in declared]
    width = min(max(map(len, left)), WIDTH_COLUMNS // 2)
    header = "Option (* = required)" if marked else "Option"
    lines = [f"{header:<{width}}  Description", f"{'-' * len(header):<{width}}  -----------"]
    for option, name in zip(declared, left, strict=True):
        lines += _row(name, _described(option), width)
    return "\n".join(lines)


def _shown(command: Command) -> list[Option]:
    extra = [
        Option(name="help", help="Print usage information.", argument=Argument.NONE),
        Option(name="version", help="Print the version.", argument=Argument.NONE),
    ]
    return options_of(command.options) + extra


def _left_column(option: Option, marked: bool) -> str:
    mark = ("* " if option.required else "  ") if marked else ""
    about = option.kind.value + (f": {option.metavar}" if option.metavar else "")
    match option.argument:
        case Argument.NONE:
            return f"{mark}--{option.name}"
        case Argument.OPTIONAL:
            return f"{mark}--{option.name} [{about}]"
        case Argument.REQUIRED:
            return f"{mark}--{option.name} <{about}>"


def _described(option: Option) -> str:
    text = option.help
    if option.choices:
        text += f" One of {', '.join(option.choices)}."
    if option.argument is not Argument.NONE and option.default is not None:
        text += f" (default: {option.default})"
    return text


def _row(name: str, text: str, width: int) -> list[str]:
    left = textwrap.wrap(name, width, subsequent_indent="  ")
    right = textwrap.wrap(text, WIDTH_COLUMNS - width - 2) or [""]
    height = max(len(left), len(right))
    left += [""] * (height - len(left))
    right += [""] * (height - len(right))
    return [f"{a:<{width}}  {b}".rstrip() for a, b in zip(left, right, strict=True)]


def _split(argv: list[str], known: dict[str, Option]) -> tuple[list[tuple[str, str | None]], list[str]]:
    """Returns the options in their order, each with its argument or None, and the positional arguments."""
    words: list[tuple[str, str | None]] = []
    arguments: list[str] = []
    at = 0
    while at < len(argv):
        word = argv[at]
        at += 1
        if word == "--":
            arguments += argv[at:]
            break
        if not word.startswith("-") or word == "-":
            arguments.append(word)
            continue
        name, _, text = word.lstrip("-").partition("=")
        if name in ("help", "h") and name not in known:
            words.append(("help", None))
            continue
        if name == "version" and name not in known:
            words.append(("version", None))
            continue
        option = known.get(name)
        if option is None:
            raise _unrecognized(word, name, known)
        if option.argument is Argument.NONE:
            words.append((name, None))
        elif text:
            words.append((name, text))
        elif option.argument is Argument.REQUIRED:
            if at == len(argv):
                raise ParseError(
                    f"Option {name} requires an argument", option=name, java_class=MISSING_ARGUMENT
                )
            words.append((name, argv[at]))
            at += 1
        elif at < len(argv) and _is_optional_argument(option, argv[at]):
            words.append((name, argv[at]))
            at += 1
        else:
            words.append((name, None))
    return words, arguments


def _is_optional_argument(option: Option, word: str) -> bool:
    """Whether `word` is the argument of the option.

    A word that begins with a dash is an argument only if the option has a numeric type.
    """
    try:
        option.kind.convert(word)
    except ValueError:
        return False
    return not word.startswith("-") or option.kind.value in ("Integer", "Long", "Double")


def _unrecognized(word: str, name: str, known: dict[str, Option]) -> ParseError:
    """Returns the error for an unknown option.

    After a single dash, joptsimple expects several one-letter options, so its error names only the first letter.
    """
    shown = name if word.startswith("--") else name[:1]
    hint = did_you_mean(f"--{name}", [f"--{other}" for other in [*known, "help", "version"]])
    return ParseError(f"{shown} is not a recognized option", hint, option=shown, java_class=UNRECOGNIZED)


def _refuse_missing(required: list[str], names: frozenset[str]) -> None:
    missing = [name for name in required if name not in names]
    if missing:
        raise ParseError(f"Missing required option(s) [{', '.join(missing)}]", java_class=MISSING_OPTIONS)


def _value(option: Option, texts: list[str | None]) -> OptionValue:
    if option.argument is Argument.NONE:
        return True
    values = [option.bare_value if text is None else _converted(option, text) for text in texts]
    if option.repeatable:
        return tuple(values)
    if len(values) > 1:
        message = f"Found multiple arguments for option {option.name}, but you asked for only one"
        raise ParseError(message, option=option.name, java_class=MULTIPLE_ARGUMENTS, is_late=True)
    return values[0]


def _converted(option: Option, text: str) -> str | int | float | bool:
    try:
        value = option.kind.convert(text)
    except ValueError:
        message = f"Cannot parse argument '{text}' of option {option.name}"
        raise ParseError(message, option=option.name, java_class=NOT_CONVERTIBLE, is_late=True) from None
    if option.choices and str(value) not in option.choices:
        hint = did_you_mean(text, list(option.choices))
        choices = ", ".join(option.choices)
        message = f"Cannot parse argument '{text}' of option {option.name}: not one of {choices}"
        raise ParseError(message, hint, option=option.name, java_class=NOT_CONVERTIBLE)
    return value
