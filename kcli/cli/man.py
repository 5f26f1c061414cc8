"""Generates the manual pages from the declarations of the tools: `python -m kcli.cli.man [DIRECTORY]`.

The pages are committed in man/. A test fails if a page differs from its declaration.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

from kcli import KAFKA_VERSION, VERSION
from kcli.cli.syntax.options import Argument, Command, Family, Option, Subcommand, options_of
from kcli.cli.syntax.registry import TOOLS, Tool
from kcli.command.examples import USUAL, Example, ExitStatus

PROPER_NOUNS = frozenset({"Apache", "Kafka"})
ROOT_EXAMPLES = (
    Example(
        "Create a topic, write a record to it, and read the record:",
        "kcli topics --bootstrap-server localhost:9092 --create --topic greetings\n"
        "echo hello | kcli console-producer --bootstrap-server localhost:9092 \\\n"
        "  --topic greetings\n"
        "kcli console-consumer --bootstrap-server localhost:9092 --topic greetings \\\n"
        "  --from-beginning --max-messages 1",
    ),
)


def pages() -> dict[str, str]:
    """Returns the troff source of each page (kcli and every tool) by file name."""
    tools = list(TOOLS.values())
    built = {"kcli.1": _root_page(tools)}
    for tool in tools:
        command = tool.load()
        built[f"kcli-{tool.name}.1"] = _tool_page(tool, command)
        if command.family is Family.RAW:
            for sub in command.subcommands:
                built[f"kcli-{tool.name}-{sub.name}.1"] = _sub_page(tool, command, sub)
    return built


def _root_page(tools: list[Tool]) -> str:
    lines = _head("kcli", "Apache Kafka's broker and command-line tools, without the JVM")
    lines += [".SH SYNOPSIS", ".B kcli", r"\fICOMMAND\fR [\fIOPTIONS\fR]"]
    lines += [".SH DESCRIPTION"]
    lines += _text(
        "Each command has the options of the Kafka script that it replaces, prints the same lines and exits with the "
        "same code. Results go to standard output, messages to standard error."
    )
    for panel in dict.fromkeys(tool.panel for tool in tools):
        lines += [f".SH {panel.upper()}"]
        for tool in tools:
            if tool.panel == panel:
                lines += [".TP", f".B {_escape(tool.name)}", *_text(tool.summary)]
    lines += [".SH OPTIONS"]
    lines += [".TP", r".B \-\-version", "Print the version and exit."]
    lines += [
        ".TP",
        r".B \-\-install\-completion",
        "Install completion for the current shell. Names of topics, groups and profiles are completed too.",
    ]
    lines += [".TP", r".B \-\-help", "Show the commands and exit."]
    lines += _profiles()
    lines += _exit_status(USUAL)
    lines += _examples(ROOT_EXAMPLES)
    lines += [".SH SEE ALSO"]
    lines += [f".BR kcli\\-{_escape(tool.name)} (1)" for tool in tools]
    return "\n".join(lines) + "\n"


def _tool_page(tool: Tool, command: Command) -> str:
    is_raw = command.family is Family.RAW
    lines = _head(f"kcli-{tool.name}", tool.summary.rstrip("."))
    lines += [".SH SYNOPSIS", f".B kcli {_escape(tool.name)}"]
    lines += [
        r"\fISUBCOMMAND\fR [\fIOPTIONS\fR]" if command.subcommands and not is_raw else r"[\fIOPTIONS\fR]"
    ]
    if command.operand:
        lines += [rf"\fI{_escape(command.operand)}\fR"]
    lines += [".SH DESCRIPTION", *_text(tool.summary)]
    if tool.script:
        lines += _text(f"Replaces {tool.script} of Apache Kafka {KAFKA_VERSION}.")
    shown = [] if is_raw else options_of(command.options)
    if is_raw and command.subcommands:
        lines += [".SH COMMANDS"]
        for sub in command.subcommands:
            lines += [
                ".TP",
                f".B {_escape(sub.name)}",
                *_text(f"{sub.help} See kcli-{tool.name}-{sub.name}(1)."),
            ]
    elif command.subcommands:
        lines += [".SH SUBCOMMANDS"]
        before = {option.name for option in shown}
        for sub in command.subcommands:
            lines += [f".SS {_escape(sub.name)}", *_text(sub.help)]
            lines += _options(
                command, [option for option in options_of(sub.options) if option.name not in before]
            )
    lines += [".SH OPTIONS", *_options(command, shown)]
    lines += [".TP", r".B \-\-help", *_text(_help(tool, command))]
    if command.family is Family.JOPT or command.has_version:
        lines += [".TP", r".B \-\-version", "Print the version and exit."]
    for title, example in command.sections:
        lines += [f".SH {title}", *_example(example)]
    lines += _exit_status(command.exit_status)
    lines += _examples(command.examples)
    lines += [".SH SEE ALSO", ".BR kcli (1)"]
    return "\n".join(lines) + "\n"


def _sub_page(tool: Tool, command: Command, sub: Subcommand) -> str:
    """Returns the page of a command that a raw tool (see `Family.RAW`) runs."""
    lines = _head(f"kcli-{tool.name}-{sub.name}", sub.help.rstrip("."))
    lines += [".SH SYNOPSIS", f".B kcli {_escape(tool.name)}"]
    lines += [rf"[\fISPARK OPTIONS\fR] \fB{sub.name}\fR [\fIOPTIONS\fR]"]
    lines += [".SH DESCRIPTION", *_text(sub.help)]
    lines += [".SH OPTIONS", *_options(command, options_of(sub.options))]
    lines += [".TP", r".B \-\-help", "Print usage information and exit."]
    lines += _exit_status(sub.exit_status)
    lines += _examples(sub.examples)
    lines += [".SH SEE ALSO", f".BR {_escape(f'kcli-{tool.name}')} (1),", ".BR kcli (1)"]
    return "\n".join(lines) + "\n"


def _profiles() -> list[str]:
    """Returns the section about the file of profiles."""
    lines = [".SH PROFILES"]
    lines += _text(
        "A profile is a named set of servers, client settings and defaults of options. Every command that connects to "
        "a cluster has the option --profile NAME. Without the option, the name of the profile is read from the "
        "environment variable KCLI_PROFILE. Profiles are tables of the file ~/.config/kcli/profiles.toml "
        "($XDG_CONFIG_HOME/kcli/profiles.toml if this variable is set):"
    )
    lines += _example(_PROFILE_EXAMPLE)
    lines += _text(
        "bootstrap-server is the value of the option --bootstrap-server. command-config is the path of a properties "
        "file with client settings, relative to the directory of profiles.toml. The table properties has client "
        "settings that take precedence over the properties file. A table with the name of a command has options of "
        "this command. The value of an option without an argument is true. The value of an option that may be given "
        "more than once is a list. The command line takes precedence over the profile: an option replaces the same "
        "option of the profile, and client settings of the command line replace the same client settings of the "
        "profile."
    )
    lines += [
        ".SH ENVIRONMENT",
        ".TP",
        r".B KCLI_PROFILE",
        r"The profile to use if \-\-profile is not given.",
        ".TP",
        r".B KCLI_TRACEBACK",
        "If it is 1, an unexpected error also prints a traceback of Python. Developers need it to find a bug.",
    ]
    lines += [
        ".TP",
        ".B XDG_CONFIG_HOME",
        "The directory that contains kcli/profiles.toml. Default: ~/.config.",
    ]
    return lines


_PROFILE_EXAMPLE = """\
[prod]
bootstrap-server = "kafka1:9092,kafka2:9092"
command-config = "prod.properties"

[prod.properties]
request.timeout.ms = 10000

[prod.console-consumer]
from-beginning = true
property = ["print.key=true", "print.timestamp=true"]
"""


def _head(name: str, summary: str) -> list[str]:
    title = name.upper().replace("-", r"\-")
    return [
        f'.TH {title} 1 "" "kcli {VERSION}" "User Commands"',
        ".SH NAME",
        f"{_escape(name)} \\- {_escape(_as_phrase(summary))}",
    ]


def _as_phrase(summary: str) -> str:
    """Returns a summary with a small first letter, unless the first word is a proper noun."""
    first, _, _ = summary.partition(" ")
    return summary if first in PROPER_NOUNS else summary[0].lower() + summary[1:]


def _help(tool: Tool, command: Command) -> str:
    """Returns the description of `--help`, which is an error in most of Kafka's scripts."""
    text, script = "Print the usage and exit.", tool.script
    if not script:
        return text
    if command.family is Family.JOPT:
        return f"{text} Our script {script} prints the usage on standard error and exits with code 1, like Kafka's."
    if command.family is Family.ARGPARSE4J and command.help_exit:
        return f"{text} Our script {script} exits with code {command.help_exit}, like Kafka's."
    return text


def _options(command: Command, options: Iterable[Option]) -> list[str]:
    lines: list[str] = []
    for option in sorted(options, key=lambda option: option.name):
        lines += [".TP", _flags(command, option), *_text(option.help + _notes(option))]
    return lines


def _flags(command: Command, option: Option) -> str:
    names = [f"--{option.name}"] + ([f"-{option.short}"] if option.short else [])
    text = ", ".join(rf"\fB{_escape(name)}\fR" for name in names)
    value = _escape(option.metavar or option.kind.value.lower())
    match option.argument:
        case Argument.NONE:
            return text
        case Argument.OPTIONAL:
            return rf"{text} [\fI{value}\fR]"
        case Argument.REQUIRED:
            return rf"{text} \fI{value}\fR"


def _notes(option: Option) -> str:
    notes = ""
    if option.choices:
        notes += f" One of {', '.join(option.choices)}."
    if option.repeatable:
        notes += " May be given more than once."
    if option.required:
        notes += " Required."
    if option.argument is not Argument.NONE and option.default not in (None, "", ()):
        default = ", ".join(map(str, option.default)) if isinstance(option.default, tuple) else option.default
        notes += f" Default: {default}."
    return notes


def _exit_status(status: Iterable[ExitStatus] = USUAL) -> list[str]:
    lines = [".SH EXIT STATUS"]
    for code, meaning in status:
        lines += [".TP", f".B {code}", *_text(meaning)]
    return lines


def _examples(examples: Iterable[Example]) -> list[str]:
    lines = [".SH EXAMPLES"]
    for example in examples:
        lines += [".PP", *_text(example.purpose), *_example(example.shell)]
    return lines


def _example(text: str) -> list[str]:
    """Returns lines that troff prints unchanged: it neither joins nor breaks them."""
    return [".PP", ".nf", *(f"    {_escape(line)}" for line in text.splitlines()), ".fi", ".PP"]


def _text(text: str) -> list[str]:
    """Returns one sentence per line, as is usual in troff.

    Escapes a dot or quote at the start of a line, because troff would read the line as a command.
    """
    sentences = _escape(text).replace(". ", ".\n").split("\n")
    return [rf"\&{line}" if line[:1] in (".", "'") else line for line in sentences]


def _escape(text: str) -> str:
    return text.replace("\\", r"\e").replace("-", r"\-")


def main() -> None:
    """Writes every page into the directory of the first argument (default: man/ of the checkout)."""
    target = sys.argv[1] if len(sys.argv) > 1 else "man"
    if target.startswith("-"):
        raise SystemExit(f"usage: python -m kcli.cli.man [DIRECTORY]; no options expected, found {target}")
    os.makedirs(target, exist_ok=True)
    for name, page in pages().items():
        with open(os.path.join(target, name), "w", encoding="utf-8") as file:
            file.write(page)


if __name__ == "__main__":
    main()
