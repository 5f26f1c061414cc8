"""The `kcli` program, and `python -m kcli`.

While modules are still imported, Ctrl-C kills the process immediately, because no work has begun that needs a clean-up.
Python's own handler of SIGINT would print a traceback. If the process was started with SIGINT ignored (`nohup`), SIGINT
stays ignored.
"""

from __future__ import annotations

import signal


def main() -> None:
    """Imports the command line, and runs the command."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from kcli.cli import main as program

    signal.signal(signal.SIGINT, handler)
    program.main()


if __name__ == "__main__":
    main()
