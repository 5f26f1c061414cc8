"""The `kcli` program, and `python -m kcli`.

While modules are still imported, Ctrl-C kills the process immediately, because no work has begun that needs a clean-up.
Python's own handler of SIGINT would print a traceback. If the process was started with SIGINT ignored (`nohup`), SIGINT
stays ignored.
"""

from __future__ import annotations

import signal
import sys

from kcli.runtime.hidden_arguments import hide_secrets


def main() -> None:
    """Imports the command line, and runs the command."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    hide_secrets(
        sys.argv
    )  # before the other imports, because other users can read the list of processes meanwhile
    from kcli.cli import main as program

    program.main(on_interrupt=handler)


if __name__ == "__main__":
    main()
