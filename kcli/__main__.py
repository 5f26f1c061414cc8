"""The `kcli` program, and `python -m kcli`.

A Ctrl-C while modules are still imported ends it by the signal itself, as it would end any program: nothing is there
yet that could be cleared up, and Python would show where it was. One that is ignored (`nohup`) stays so.
"""

from __future__ import annotations

import signal


def main() -> None:
    """Import and run."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from kcli.cli import main as program

    signal.signal(signal.SIGINT, handler)
    program.main()


if __name__ == "__main__":
    main()
