"""Runs a built-in job as the driver of Spark: secrets of the command line, signals, and errors of imports.

The driver is a Python process that `kcli spark-submit` starts. A signal or an error must not print a traceback there.
"""

from __future__ import annotations

import importlib
import signal
import sys

from kcli.runtime.hidden_arguments import hide_secrets


def drive(job: str) -> None:
    """Runs the built-in job `job` with the arguments of this process, and ends the process."""
    hide_secrets(sys.argv)
    sys.exit(_run(job))


def _run(job: str) -> int:
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Until a stream handles it, Ctrl-C kills the process. Python's own handler would print a traceback.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    code: int = importlib.import_module(f"kcli.spark.jobs.{job}.job").main(sys.argv[1:])
    return code
