"""Reports errors that no other code of the command line handles, each in one line on stderr.

Users get no Python traceback. If the environment variable KCLI_TRACEBACK is set, Python prints its traceback, and the
line names this variable.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

from kcli.cli.output import warn
from kcli.cli.signals import Terminated
from kcli.model.secret_text import without_logins

VARIABLE = "KCLI_TRACEBACK"
REPEAT_S = 0.01
"""The delay before a lost signal is repeated."""
MESSAGE_CHARACTERS_MAX = 500
"""The longest text of an error that is shown. Some libraries put whole programs into their errors."""


def report(error: BaseException, name: str = "") -> None:
    """Writes one line about an error that is not expected. `name` is the command that failed."""
    if shows_tracebacks():
        sys.excepthook(type(error), error, error.__traceback__)
    prefix = f"kcli {name}: " if name else "kcli: "
    warn(f"{prefix}{described(error)} (set {VARIABLE}=1 to see where this happened)")


def described(error: BaseException) -> str:
    """Returns an error in one line: the text of the operating system with its file, or the type with the message."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, MemoryError):
        return "not enough memory"
    text = " ".join(without_logins(str(error)).split())
    if len(text) > MESSAGE_CHARACTERS_MAX:
        text = f"{text[:MESSAGE_CHARACTERS_MAX]} …"
    kind = type(error).__name__
    return f"unexpected error {kind}: {text}" if text else f"unexpected error {kind}"


def install() -> None:
    """Makes Python report errors in threads, in destructors and at the end of the process in one line too."""
    threading.excepthook = _in_thread
    sys.unraisablehook = _unraisable


def shows_tracebacks() -> bool:
    """Whether the user wants to see tracebacks."""
    return os.environ.get(VARIABLE, "") not in ("", "0")


def _in_thread(failed: threading.ExceptHookArgs) -> None:
    if failed.exc_value is not None and not isinstance(failed.exc_value, SystemExit):
        report(failed.exc_value)


def _unraisable(failed: sys.UnraisableHookArgs) -> None:
    """Handles an exception that Python cannot raise, for example from a destructor."""
    error = failed.exc_value
    if isinstance(error, KeyboardInterrupt):
        # Python has lost the exception of a signal, so the signal is repeated. If not, the command would continue. The
        # signal must arrive after this function, because here Python would lose it again.
        number = signal.SIGTERM if isinstance(error, Terminated) else signal.SIGINT
        again = threading.Timer(REPEAT_S, os.kill, (os.getpid(), number))
        again.daemon = True
        again.start()
    elif isinstance(error, BrokenPipeError):
        pass  # the reader of stdout is gone, which is no error
    elif error is not None:
        report(error)
