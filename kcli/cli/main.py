"""The process: runs one command and turns what happens to it into words and an exit code.

Ctrl-C, a reader that went away, wrong command lines and failed calls are handled here, once for every tool.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from kcli.cli.output import WRITE_FAILED, Output, warn
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
    Terminated,
    UsageError,
    VersionRequested,
)
from kcli.cli.syntax.registry import TOOLS, Tool

COMPLETION = "_KCLI_COMPLETE"  # how a shell asks Typer for completions
INTERRUPTED = 130  # 128 + SIGINT, as the shell and the JVM have it
TERMINATED = 143  # 128 + SIGTERM
LOST_EXCEPTION = "returned NULL without setting an exception"  # CPython's words for what an extension forgot


def main() -> None:
    """The `kcli` program."""
    # kio registers strategies with Hypothesis wherever that is installed; a command must not wait for a test library.
    sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]
    _open_standard_streams()
    # Bytes that are not of the locale's encoding become what Java makes of them, on the way in and on the way out.
    words = [word.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for word in sys.argv[1:]]
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    sys.exit(run(words))


def _open_standard_streams() -> None:
    """A stream that the caller closed (`>&-`) is empty, or nobody's, and no other file or socket gets its number."""
    for descriptor, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, os.O_RDWR), descriptor)
            setattr(sys, name, os.fdopen(descriptor, mode, closefd=False))


def run(argv: list[str]) -> int:
    """`kcli ARGV...` inside this process; the exit code.

    A word that names a tool goes straight to it: importing Typer would double the time to the first answer. Typer does
    the rest: help, version, typing errors, completion.
    """
    tool = TOOLS.get(argv[0]) if argv else None
    if tool is not None and COMPLETION not in os.environ:
        return run_tool(tool, argv[1:])
    return _ended(lambda: _run_app(argv))


def _run_app(argv: list[str]) -> int:
    from kcli.cli.app import app

    try:
        app(args=argv, prog_name="kcli")
    except SystemExit as exit:
        return exit.code if isinstance(exit.code, int) else 1
    return 0


def run_tool(tool: Tool, argv: list[str]) -> int:
    """Run one tool on its words; the exit code."""
    return _ended(lambda: run_command(tool.load(), argv))


def _ended(program: Callable[[], int]) -> int:
    """The exit code of what runs to its end, or is ended from outside."""
    try:
        code = program()
        sys.stdout.flush()
        return code
    except Terminated:
        return TERMINATED
    except KeyboardInterrupt:
        return INTERRUPTED
    except SystemError as error:
        # confluent-kafka loses the exception of a signal that comes while a poll calls back.
        if LOST_EXCEPTION not in str(error):
            raise
        return INTERRUPTED
    except BrokenPipeError:
        # Kafka's tools do not notice that nobody reads on. What Python still holds must not fail again at exit.
        _forget_stdout()
        return 0
    except OSError as error:
        if error.errno not in WRITE_FAILED:
            raise
        _forget_stdout()
        warn(f"Cannot write to standard output: {error.strerror}")
        return 1


def _forget_stdout() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run_command(command: Command, argv: list[str]) -> int:
    """Parse and run; every expected failure becomes its words on stderr and an exit code."""
    from kcli.errors import KcliError

    try:
        options, runner = _parsed(command, argv)
    except HelpRequested:
        return _help(command, bare=not argv)
    except VersionRequested:
        from kcli import KAFKA_VERSION

        # "unknown" is what Kafka says of a build without a commit.
        print(f"{KAFKA_VERSION} (Commit:unknown)" if command.has_version else KAFKA_VERSION)
        return 0
    except ParseError as error:
        return _parse_failed(command, error)
    except CommandError as error:
        warn(str(error))
        return error.exit_code
    try:
        done = runner(options, Output(options.output))
        code = _awaited(done) if isinstance(done, Coroutine) else done
    except UsageError as error:
        return _usage_failed(command, str(error))
    except CommandError as error:
        if str(error):
            warn(str(error))
        return error.exit_code
    except KcliError as error:
        warn(str(error))
        return 1
    return code or 0


def usage(command: Command) -> str:
    """The usage table (jopt) or usage line (argparse4j) of a command."""
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


def _awaited(coroutine: Coroutine[Any, Any, int | None]) -> int | None:
    """Run to the end on an event loop of its own (asyncio is imported only by tools that wait)."""
    import asyncio
    import logging

    # Kafka's tools-log4j2.yaml: warnings on stderr in this pattern.
    logging.basicConfig(format="[%(asctime)s] %(levelname)s %(message)s (%(name)s)", level=logging.WARNING)
    logging.addLevelName(logging.WARNING, "WARN")
    return asyncio.run(coroutine)


def _help(command: Command, *, bare: bool) -> int:
    if command.family is Family.ARGPARSE4J:
        print(argparse4j.help_text(command))
        return command.bare_exit if bare else command.help_exit
    if bare and command.bare is not None:
        command.bare()
        return 1
    warn(command.description)
    warn(usage(command))
    return 1


def _parse_failed(command: Command, error: ParseError) -> int:
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
    if command.family is Family.ARGPARSE4J:
        warn(usage(command))
        warn(f"{command.prog}: error: {message}")
        return 1
    warn(message)
    warn(usage(command))
    return 1
