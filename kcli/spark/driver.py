"""Runs a built-in job as the driver of Spark: secrets of the command line, signals, and errors of imports.

The driver is a Python process that `kcli spark-submit` starts. A signal or an error must not print a traceback there.
"""

from __future__ import annotations

import importlib
import signal
import sys
from collections.abc import Callable
from typing import Any

from kcli.runtime.hidden_arguments import hide_secrets

INTERRUPTED = 130  # 128 + SIGINT, the exit code of a shell and of the JVM


def drive(job: str) -> None:
    """Runs the built-in job `job` with the arguments of this process, and ends the process."""
    hide_secrets(sys.argv)
    sys.exit(_run(job))


def _run(job: str) -> int:
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:
        # While modules are imported, Ctrl-C kills the process. Python's own handler would print a traceback.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    main = importlib.import_module(f"kcli.spark.jobs.{job}.job").main
    try:
        signal.signal(signal.SIGINT, handler)
        code: int = main(sys.argv[1:])
    except KeyboardInterrupt:
        code = INTERRUPTED
    if handler is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # at the end of the process too
    return code


def protect_jvm() -> None:
    """Makes the JVM ignore SIGTERM.

    SIGTERM often goes to the whole process group. The JVM must then live until the driver has finished its micro-batch.
    A JVM that starts with SIGTERM ignored never handles it. The JVM still ends with the driver.
    """
    from pyspark import java_gateway

    start: Callable[..., Any] = java_gateway.Popen

    def started(command: list[str], **how: Any) -> Any:
        before: Callable[[], None] | None = how.pop("preexec_fn", None)

        def prepare() -> None:
            if before is not None:
                before()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)

        return start(command, preexec_fn=prepare, **how)

    if start.__module__ != __name__:
        java_gateway.Popen = started
