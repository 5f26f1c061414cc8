"""The `kcli` process: prepares its standard streams and runs the command that its first argument names."""

from __future__ import annotations

import io
import os
import sys

from kcli.cli.running import ended, run_tool
from kcli.cli.syntax.registry import TOOLS
from kcli.runtime.hidden_arguments import hide_secrets

COMPLETION = "_KCLI_COMPLETE"  # how a shell asks Typer for completions


def main() -> None:
    """Runs the `kcli` program, and ends the process with its exit code."""
    _open_standard_streams()
    hide_secrets(sys.argv)
    # Bytes outside the locale's encoding become replacement characters, as in Java, in input and output.
    words = [word.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for word in sys.argv[1:]]
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    sys.exit(run(words))


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
    tool = TOOLS.get(argv[0]) if argv else None
    if tool is not None and COMPLETION not in os.environ:
        return run_tool(tool, argv[1:])
    return ended(lambda: _run_app(argv))


def _run_app(argv: list[str]) -> int:
    from kcli.cli.app import app

    try:
        app(args=argv, prog_name="kcli")
    except SystemExit as exit:
        return exit.code if isinstance(exit.code, int) else 1
    return 0
