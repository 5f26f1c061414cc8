"""Runs one command and turns its outcome into messages on stderr and an exit code.

Ctrl-C, a closed pipe at stdout, invalid command lines and failed calls are handled here, once for every tool.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Coroutine
from dataclasses import replace

from kcli.cli import signals
from kcli.cli.coroutines import run_coroutine
from kcli.cli.missing_rights import shown_at_end
from kcli.cli.output import WRITE_FAILED, Output, warn
from kcli.cli.script_form import is_kafkas_script
from kcli.cli.signals import Terminated
from kcli.cli.syntax import argparse4j, jopt
from kcli.cli.syntax.options import (
    Command,
    CommandError,
    CommonOptions,
    Family,
    HelpRequested,
    OnParseError,
    ParseError,
    Run,
    UsageError,
    VersionRequested,
)
from kcli.cli.syntax.registry import Tool
from kcli.cli.unexpected import report
from kcli.command.examples import help_lines
from kcli.config import environment
from kcli.errors import KcliError
from kcli.model.java_text import trim
from kcli.model.secret_text import without_logins
from kcli.rdkafka.errors import DurationResetError, PatternError

SIGNAL_EXIT = 128  # plus the number of the signal: the exit code of a shell and of the JVM
INTERRUPTED = SIGNAL_EXIT + signal.SIGINT
TERMINATED = SIGNAL_EXIT + signal.SIGTERM


SERVER_START = "server-start"


def run_tool(tool: Tool, argv: list[str]) -> int:
    """Runs one tool with its arguments and returns the exit code."""
    if any(name in os.environ for name in environment.NAMES):
        _apply_environment(tool)
    return ended(lambda: run_command(_as_started(tool.load()), argv), tool.name)


def _apply_environment(tool: Tool) -> None:
    """Applies the environment variables of Kafka's scripts, and warns about variables without effect. A node writes
    these warnings to its log."""
    environment.apply_to_process()
    if tool.script and tool.name != SERVER_START:
        for line in environment.warnings(is_script=is_kafkas_script()):
            warn(f"WARN {line}")


def _as_started(command: Command) -> Command:
    """Returns the command. If the command was started by the name of Kafka's script, removes the actions that Kafka's
    script does not have."""
    if not is_kafkas_script():
        return command
    return replace(
        command,
        subcommands=tuple(sub for sub in command.subcommands if sub.is_kafkas),
        examples=tuple(example for example in command.examples if example.is_kafkas),
    )


def ended(program: Callable[[], int], name: str = "") -> int:
    """Runs a program until it ends, or until an error, a signal or a closed stdout ends it. Returns the exit code.

    `name` is the command, for the message about an error that no other code handles.
    """
    code = 0
    try:
        code = _outcome_of(program, name)
        sys.stdout.flush()
    except BrokenPipeError:
        # As in Kafka's tools, it is not an error if the reader of stdout is gone. Python must not try to write the rest
        # of the buffer at exit.
        _forget_stdout()
    except OSError as error:
        _forget_stdout()
        warn(f"Cannot write to standard output: {error.strerror}")
        return code or 1
    return code


def _outcome_of(program: Callable[[], int], name: str) -> int:
    """Runs a program. Returns its exit code, or the exit code for the signal or error that ended it."""
    try:
        return program()
    except Terminated:
        return TERMINATED
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        # Python and confluent-kafka may raise another error in place of the exception of a signal, for example if the
        # signal arrives during an import or during a callback of poll.
        if signals.received:
            return SIGNAL_EXIT + signals.received
        if isinstance(error, OSError) and error.errno in WRITE_FAILED and error.filename is None:
            raise
        report(error, name)
        return 1


def _forget_stdout() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run_command(command: Command, argv: list[str]) -> int:
    """Parses the arguments and runs the command; turns an expected failure into a message and an exit code."""
    try:
        options, runner = _parsed(command, argv)
    except HelpRequested:
        return _help(command, bare=not argv)
    except VersionRequested:
        from kcli import KAFKA_VERSION

        # Kafka prints "unknown" for a build without a commit.
        print(f"{KAFKA_VERSION} (Commit:unknown)" if command.has_version else KAFKA_VERSION)
        return 0
    except ParseError as error:
        return _parse_failed(command, error)
    except CommandError as error:
        _complain(str(error))
        return max(error.exit_code, command.error_exit)
    with shown_at_end():
        return _outcome(command, runner, options)


def _outcome(command: Command, runner: Run, options: CommonOptions) -> int:
    """Runs a command with its options. Returns the exit code."""
    try:
        output = Output(options.output)
        done = runner(options, output)
        code = run_coroutine(done) if isinstance(done, Coroutine) else done
    except UsageError as error:
        return _usage_failed(command, str(error))
    except CommandError as error:
        if str(error):
            _complain(str(error))
        return max(error.exit_code, command.error_exit)
    except KcliError as error:
        _complain(_message(error))
        return command.error_exit
    return code or int(output.is_failed and not is_kafkas_script())


def _complain(text: str) -> None:
    warn(without_logins(text))


def _message(error: KcliError) -> str:
    """Returns the text of an error. Errors of librdkafka's clients also name the command's options that caused them."""
    match error:
        case DurationResetError():
            return f"{error}; console-consumer has --from-time, and consumer-groups --reset-offsets --by-duration"
        case PatternError():
            return f"--include {error}"
        case _:
            return str(error)


def usage(command: Command) -> str:
    """Returns the usage of a command: a table (jopt) or a line (argparse4j)."""
    return jopt.usage(command) if command.family is Family.JOPT else argparse4j.usage(command)


def _parsed(command: Command, argv: list[str]) -> tuple[CommonOptions, Run]:
    if command.family is Family.RAW:
        assert command.run is not None
        return CommonOptions(argv=tuple(argv)), command.run
    if command.family is Family.JOPT:
        assert command.run is not None
        return jopt.parse(command, argv), command.run
    options, sub = argparse4j.parse(command, argv)
    runner = sub.run if sub is not None else command.run
    assert runner is not None
    return options, runner


def _help(command: Command, *, bare: bool) -> int:
    """Prints the help and returns the exit code.

    If the user requests the help, Kafka's scripts print it on stderr or end with exit code 1. A command that was
    started as `kcli` prints it on stdout and ends with exit code 0, so that `kcli topics --help | less` works.
    """
    is_wanted = not bare and not is_kafkas_script()
    if command.family is Family.ARGPARSE4J:
        print("\n".join([argparse4j.help_text(command), *_examples(command)]))
        if bare:
            return command.bare_exit
        return 0 if is_wanted else command.help_exit
    if bare and command.bare is not None:
        command.bare()
        return 1
    text = "\n".join([command.description, usage(command), *_examples(command)])
    if is_wanted:
        print(text)
        return 0
    warn(text)
    return 1


def _examples(command: Command) -> list[str]:
    return help_lines(command.examples, command.exit_status)


def _parse_failed(command: Command, error: ParseError) -> int:
    if not is_kafkas_script():
        return _refused(command, f"{error}. {error.hint}" if error.hint else str(error))
    code = 1
    if command.parse_failed is not None:
        code = command.parse_failed(error)
    elif command.family is Family.ARGPARSE4J:
        warn(usage(command))
        warn(f"{command.prog}: error: {error}")
    else:
        warn(str(error))
    if error.hint:
        warn(error.hint)
    shows_usage = command.on_parse_error is OnParseError.USAGE and not error.is_late
    if command.family is Family.JOPT and shows_usage:
        warn(usage(command))
    return code


def _usage_failed(command: Command, message: str) -> int:
    if not is_kafkas_script():
        return _refused(command, message)
    if command.family is Family.ARGPARSE4J:
        warn(usage(command))
        warn(f"{command.prog}: error: {message}")
        return 1
    warn(message)
    warn(usage(command))
    return 1


def _refused(command: Command, message: str) -> int:
    """Prints two lines of usage and then the error, so that the error is the last line. Returns the exit code."""
    actions = "{" + ",".join(sub.name for sub in command.subcommands) + "} " if command.subcommands else ""
    warn(f"usage: kcli {command.name} {actions}[OPTIONS]")
    warn(f"       kcli help {command.name} shows the options and examples.")
    _complain(f"kcli {command.name}: error: {trim(message)}")
    return command.error_exit
