"""Errors that no other code handles: one line on stderr, and a traceback only if the user wants it."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kcli.cli import running
from kcli.cli.log_lines import OneLine
from kcli.cli.unexpected import VARIABLE

HINT = f"(set {VARIABLE}=1 to see where this happened)"


def failing(error: BaseException) -> Callable[[], int]:
    def program() -> int:
        raise error

    return program


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("bad\nvalue"), "unexpected error ValueError: bad value"),
        (RecursionError(), "unexpected error RecursionError"),
        (MemoryError(), "not enough memory"),
        (PermissionError(13, "Permission denied", "/f"), "/f: Permission denied"),
        (ValueError("x" * 5000), f"unexpected error ValueError: {'x' * 500} …"),
    ],
)
def test_an_error_that_is_not_expected_is_one_line(
    error: Exception, text: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert running.ended(failing(error), "topics") == 1
    assert capsys.readouterr().err == f"kcli topics: {text} {HINT}\n"
    monkeypatch.setenv(VARIABLE, "1")
    assert running.ended(failing(error), "topics") == 1
    said = capsys.readouterr().err
    assert said.startswith("Traceback") and said.splitlines()[-1].startswith("kcli topics: ")


def test_a_log_line_about_an_exception_has_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        raise ValueError("bad")
    except ValueError:
        record = logging.LogRecord("a", logging.ERROR, "f", 1, "no %s", ("luck",), sys.exc_info())
    assert OneLine("%(levelname)s %(message)s").format(record) == (
        f"ERROR no luck: unexpected error ValueError: bad {HINT}"
    )
    monkeypatch.setenv(VARIABLE, "1")
    assert "Traceback" in OneLine("%(message)s").format(record)


THREAD = (
    "import threading\n"
    "from kcli.cli.unexpected import install\n"
    "install()\n"
    "class Late:\n"
    "    def __del__(self): raise ValueError('late')\n"
    "thread = threading.Thread(target=lambda: 1 / 0)\n"
    "thread.start(); thread.join()\n"
    "del thread\n"
    "late = Late()\n"
    "del late\n"
)


def test_errors_in_threads_and_destructors_are_one_line_too() -> None:
    done = subprocess.run([sys.executable, "-c", THREAD], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines() == [
        f"kcli: unexpected error ZeroDivisionError: division by zero {HINT}",
        f"kcli: unexpected error ValueError: late {HINT}",
    ]


def test_a_signal_that_arrives_in_a_destructor_still_ends_the_command() -> None:
    program = (
        "import signal, time\n"
        "from kcli.cli import main\n"
        "class Late:\n"
        "    def __del__(self): signal.raise_signal(signal.SIGINT)\n"
        "def run(words):\n"
        "    late = Late()\n"
        "    del late\n"
        "    time.sleep(60)\n"
        "    return 0\n"
        "main.run = run\n"
        "main.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (running.INTERRUPTED, "")


@pytest.mark.parametrize(("name", "code"), [("SIGINT", running.INTERRUPTED), ("SIGTERM", running.TERMINATED)])
def test_a_signal_whose_exception_is_replaced_ends_the_command_quietly(name: str, code: int) -> None:
    program = (
        "import signal\n"
        "from kcli.cli import main, running, signals\n"
        "def work():\n"
        "    signals.finish_on_sigterm()\n"
        "    try:\n"
        f"        signal.raise_signal(signal.{name})\n"
        "    except KeyboardInterrupt:\n"
        "        raise RuntimeError('Error calling __set_name__') from None\n"
        "main.run = lambda words: running.ended(work)\n"
        "main.main(on_interrupt=signal.default_int_handler)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (code, "")


def test_ctrl_c_cancels_the_coroutine_of_a_command() -> None:
    program = (
        "import asyncio, signal\n"
        "from kcli.cli import coroutines, main, running\n"
        "async def work():\n"
        "    signal.raise_signal(signal.SIGINT)\n"
        "    try:\n"
        "        await asyncio.sleep(60)\n"
        "    except asyncio.CancelledError:\n"
        "        print('cancelled')\n"
        "        raise\n"
        "main.run = lambda words: running.ended(lambda: coroutines.run_coroutine(work()))\n"
        "main.main(on_interrupt=signal.default_int_handler)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (running.INTERRUPTED, "cancelled\n", "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's /dev/full")
def test_a_full_disk_under_standard_error_does_not_change_the_exit_code() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "kcli", "topics", "--lst"],
            stdout=subprocess.PIPE,
            stderr=full,
            check=False,
        )
    assert (done.returncode, done.stdout) == (1, b"")
