"""Starts Spark for a built-in job, and reports each way in which it can fail as one line.

Spark's own log goes to the file that the environment variable SPARK_LOG names. Tracebacks go to the same file. Without
this file, the user has asked for Spark's log, and tracebacks go to stderr.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, TextIO

from kcli.model.java_text import parse_double, parse_int, split_blanks
from kcli.spark.jobs.shared.failures import reason
from kcli.spark.submit import SIGNALLED, SPARK_BEGAN, SPARK_LOG

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SILENT_SECONDS = 2.0
"""The seconds after which a terminal shows what the job waits for."""

STARTING = "waiting for Spark to start, which takes 5 to 45 s (less after 'kcli spark-submit prepare')"

_ENDED = re.compile(r'(?:Exception in thread "main" [\w.$]+: |Error: |.* ERROR \w+: )(?P<said>.+)', re.ASCII)
"""A line of Spark's log that says why Spark has ended."""


def started(name: str, *, announce: bool = True) -> SparkSession:
    """Returns the session of a job. If Spark does not start within SILENT_SECONDS, a line on the terminal says so.

    Handlers of signals stay as they are. Spark would replace the handler of Ctrl-C.
    """
    from pyspark.sql import SparkSession

    # PySpark logs every error of a query as JSON and also raises the error, so the log line is not needed. py4j logs a
    # traceback if the JVM ends, and the job reports the end itself.
    for quiet in ("SQLQueryContextLogger", "py4j", "py4j.java_gateway", "py4j.clientserver"):
        logging.getLogger(quiet).setLevel(logging.CRITICAL + 1)
    with (
        _ended_by_signals(),
        _stderr_to(os.environ.get(SPARK_LOG)) as terminal,
        _announced(name, terminal, announce),
    ):
        _launch()  # the JVM and its Python workers keep this stderr
        return SparkSession.builder.appName(f"kcli {name}").getOrCreate()


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Makes signals that would end this process also end the JVM, which may not yet notice the end of its parent.

    Restores all handlers at the end, because Spark replaces the handler of Ctrl-C.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        for number, handler in handlers.items():
            if handler is signal.SIG_DFL:
                signal.signal(number, _end)
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _end(number: int, _: FrameType | None) -> None:
    """Ends the JVM and this process. Files that the start of Spark has made are deleted on the way."""
    for children in Path(f"/proc/{os.getpid()}/task").glob("*/children"):
        for child in map(parse_int, split_blanks(children.read_text())):
            with suppress(OSError):
                os.killpg(child, signal.SIGKILL)  # each JVM has a process group of its own
                os.waitpid(child, 0)
    raise SystemExit(SIGNALLED + number)


def _launch() -> None:
    """Starts the JVM in a session of its own, so that a signal to the job's process group does not end it.

    The driver then ends the stream after its micro-batch. If the driver ends, the JVM ends too, because the pipe to its
    stdin closes.
    """
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        SparkContext._ensure_initialized(gateway=launch_gateway(popen_kwargs={"start_new_session": True}))


def _began() -> float:
    """The time at which the user has started the job."""
    text = os.environ.get(SPARK_BEGAN)
    return parse_double(text) if text else time.monotonic()


@contextmanager
def _announced(name: str, terminal: TextIO, announce: bool) -> Iterator[None]:
    """Prints STARTING if the block takes longer than SILENT_SECONDS and stderr is a terminal."""
    if not announce or not terminal.isatty():
        yield
        return
    began = _began()
    wait = max(0.0, began + SILENT_SECONDS - time.monotonic())
    timer = threading.Timer(wait, lambda: print(f"{name}: {STARTING}", file=terminal, flush=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # the terminal is closed next


@contextmanager
def _stderr_to(path: str | None) -> Iterator[TextIO]:
    """Redirects the stderr of processes that start in the block to a file. Returns the real stderr.

    If `path` is None, nothing is redirected.
    """
    if path is None:
        yield sys.stderr
        return
    own = os.dup(2)
    try:
        with open(path, "ab") as file:
            os.dup2(file.fileno(), 2)
        with os.fdopen(own, "w", closefd=False) as terminal:
            yield terminal
    finally:
        os.dup2(own, 2)
        os.close(own)


def stop(spark: SparkSession | None) -> None:
    """Ends Spark. If its JVM has ended already, does nothing."""
    from py4j.protocol import Py4JError

    if spark is not None:
        with suppress(Py4JError, OSError):
            spark.stop()


def report(name: str, error: Exception) -> None:
    """Reports an error of a job in one line on stderr, and the file with Spark's log and the traceback."""
    log = os.environ.get(SPARK_LOG)
    if log is None:
        traceback.print_exception(error)
    else:
        with open(log, "a", encoding="utf-8", errors="backslashreplace") as file:
            traceback.print_exception(error, file=file)
        print(f"{name}: the log of Spark is {log}", file=sys.stderr)
    print(f"{name}: {said(error, log)}", file=sys.stderr)


def said(error: Exception, log: str | None = None) -> str:
    """Returns the line that names the cause of an error.

    If Spark itself has ended, Spark's log names the cause.
    """
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark.errors import PySparkException

    text = reason(error)
    if isinstance(error, PySparkException) and error.getCondition() == "JAVA_GATEWAY_EXITED":
        return f"Spark did not start: {ended(log) or text}"
    if isinstance(error, Py4JError) and not isinstance(error, Py4JJavaError):
        return f"Spark's virtual machine has ended{_after(ended(log))}"
    if "stopped SparkContext" in text:
        return f"Spark has stopped{_after(ended(log))}"
    return text


def _after(text: str | None) -> str:
    return f": {text}" if text else ""


def ended(log: str | None) -> str | None:
    """Returns the last line of Spark's log that says why Spark has ended, without time and class."""
    if log is None or not os.path.exists(log):
        return None
    lines = Path(log).read_text(encoding="utf-8", errors="replace").splitlines()
    reasons = [match["said"] for match in map(_ENDED.match, lines) if match]
    return reasons[-1] if reasons else None
