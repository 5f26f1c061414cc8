"""The audit log: one line of JSON before each action, and one line with the result of the action. The audit log has no
secrets.

If the line before an action cannot be written, the action is refused. A file that is large is renamed to `<path>.1`,
and older files to `<path>.2` and so on. A login has no line before it, and failed logins have at most one line per
second. So a stranger cannot fill the disk, and cannot displace the lines of users.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TextIO

from kcli.errors import KcliError
from kcli.http.server import HttpError

_log = logging.getLogger("kcli.console.audit")

TEXT_MAX_CHARACTERS = 500
"""The most characters of a target or a message in a line. There is a limit, because users choose these texts."""

FILE_MAX_BYTES = 20 << 20
"""The size from which the file is renamed. It has about 60,000 lines."""
FILES_KEPT = 50
"""The renamed files that are kept. A stranger who fails to log in all the time needs a month to displace them."""

_ONLY_OWNER = 0o600


class AuditError(KcliError):
    """The audit log cannot be opened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """An action of a user. `client` is the address of the browser."""

    user: str
    client: str
    cluster: str
    action: str
    target: str


class AuditLog:
    """Appends to kcli's own log and, if a file is given, also to the file."""

    def __init__(self, path: str | None, now_ms: Callable[[], int]) -> None:
        """Raises AuditError if the file cannot be opened."""
        self._now_ms = now_ms
        self._path = path
        self._file: TextIO | None = None
        self._size_bytes = 0
        try:
            self._open()
        except OSError as error:
            raise AuditError(f"the audit log {path} cannot be opened: {error.strerror}") from error

    def begin(self, deed: Deed) -> None:
        """Writes the line before an action. Raises HttpError if the line cannot be written."""
        try:
            self._write(deed, "begin")
        except OSError as error:
            _log.error("the audit log cannot be written: %s", error.strerror)
            raise HttpError(
                HTTPStatus.SERVICE_UNAVAILABLE, "the audit log cannot be written, so no action is possible"
            ) from error

    def end(self, deed: Deed, result: str, message: str = "") -> None:
        """Writes the result: "ok", or the name of an error."""
        try:
            self._write(deed, result, message)
        except OSError as error:
            _log.error("the audit log cannot be written: %s", error.strerror)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _write(self, deed: Deed, result: str, message: str = "") -> None:
        line = json.dumps(
            {
                "time": datetime.fromtimestamp(self._now_ms() / 1000, UTC).isoformat(timespec="milliseconds"),
                **{
                    name: text[:TEXT_MAX_CHARACTERS]
                    for name, text in (
                        ("user", deed.user),
                        ("client", deed.client),
                        ("cluster", deed.cluster),
                        ("action", deed.action),
                        ("target", deed.target),
                        ("result", result),
                        ("message", message),
                    )
                    if text or name != "message"
                },
            },
        )
        _log.info("%s", line)
        if self._file is not None:
            if self._size_bytes >= FILE_MAX_BYTES:
                self._rotate()
            self._size_bytes += self._file.write(line + "\n")
            self._file.flush()

    def _open(self) -> None:
        if self._path is not None:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, _ONLY_OWNER)
            self._file = os.fdopen(descriptor, "a", encoding="utf-8")
            self._size_bytes = os.fstat(descriptor).st_size

    def _rotate(self) -> None:
        """Renames the files, and opens a new file. Raises OSError."""
        assert self._path is not None and self._file is not None
        for number in range(FILES_KEPT - 1, 0, -1):
            with contextlib.suppress(FileNotFoundError):
                os.replace(f"{self._path}.{number}", f"{self._path}.{number + 1}")
        with contextlib.suppress(FileNotFoundError):
            os.replace(self._path, f"{self._path}.1")
        self._file.close()
        self._open()
