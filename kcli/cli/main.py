"""The `kcli` process: prepares its standard streams and runs the command that its first argument names."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType

from kcli.cli.output import warn
from kcli.cli.running import INTERRUPTED, TERMINATED, ended, run_tool
from kcli.cli.signals import Terminated, raise_on_sigint
from kcli.cli.syntax.registry import TOOLS
from kcli.cli.unexpected import install

SignalHandler = Callable[[int, FrameType | None], object] | int | None

COMPLETION = "_KCLI_COMPLETE"  # how a shell asks Typer for completions


def main(*, on_interrupt: SignalHandler = None) -> None:
    """Runs the `kcli` program, and ends the process with its exit code.

    `on_interrupt` is the handler of SIGINT while the command runs, or None to leave the handler unchanged.
    """
    try:
        if on_interrupt is signal.default_int_handler:
            raise_on_sigint()
        elif on_interrupt is not None:
            signal.signal(signal.SIGINT, on_interrupt)
        code = run(_prepared())
    except KeyboardInterrupt as interrupt:  # a signal before the command has started, or after it has ended
        code = TERMINATED if isinstance(interrupt, Terminated) else INTERRUPTED
    # From here, a signal ends the process immediately, because Python would print a traceback.
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    sys.exit(code)


def _prepared() -> list[str]:
    """Prepares the process. Returns its arguments."""
    _open_standard_streams()
    install()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    # Bytes outside the locale's encoding become replacement characters, as in Java, in input and output.
    return [word.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for word in sys.argv[1:]]


def _open_standard_streams() -> None:
    """Opens /dev/null for a stream that the caller closed (`>&-`), so that no other file gets its descriptor."""
    for descriptor, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, os.O_RDWR), descriptor)
            setattr(sys, name, os.fdopen(descriptor, mode, closefd=False))


def run(argv: list[str]) -> int:
    """Runs `kcli ARGV...` inside this process and returns the exit code.

    An argument that names a tool runs that tool directly, because importing Typer would double the start-up time. All
    other cases (help, version, misspelt commands, completion) use Typer.
    """
    if COMPLETION in os.environ:
        return ended(lambda: _run_app(argv))
    match argv:
        case ["version"]:
            argv = ["--version"]
        case ["help"]:
            argv = ["--help"]
        case ["help", name, *more]:
            # An unknown name is left to Typer, which suggests a similar one.
            argv = [name, *more, "--help"] if name in {*TOOLS, "help", "version"} else [name]
        case [("--install-completion" | "--show-completion") as option, shell]:
            return ended(lambda: _completion(option, shell))
    tool = TOOLS.get(argv[0]) if argv else None
    if tool is not None:
        return run_tool(tool, argv[1:])
    return ended(lambda: _run_app(argv))


def _completion(option: str, shell: str) -> int:
    """Installs or prints the completion script of the named shell. Typer itself knows only the shell that runs."""
    from kcli.cli.shell_completion import SHELLS, install, script

    if shell not in SHELLS:
        warn(f"{option} {shell}: expected one of {', '.join(SHELLS)}")
        return 1
    if option == "--show-completion":
        print(script(shell))
    else:
        print(f"{shell} completion installed in {install(shell)}. Start a new shell to use it.")
    return 0


def _run_app(argv: list[str]) -> int:
    from kcli.cli.app import app

    if os.environ.get(COMPLETION) == "complete_bash":
        from kcli.cli.shell_completion import join_words

        join_words()
    try:
        app(args=argv, prog_name="kcli")
    except SystemExit as exit:
        return exit.code if isinstance(exit.code, int) else 1
    return 0
