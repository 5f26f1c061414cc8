"""A file of the log that is renamed at each full hour, and earlier if it is large, while the oldest files are deleted.

The new name ends with the hour of the lines, as in Kafka: `server.log.2026-11-21-08`. If the file was too large before
the end of the hour, a file with this name exists already, so the name also gets a number:
`server.log.2026-11-21-08.1`.

Because another program may rename or remove the file, the code checks the file's name from time to time, and opens a
new file if necessary.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

HOUR_SECONDS = 3600
_NEWLINE = ord("\n")
OUTPUT_MAX_BYTES = 10 << 20
"""The size from which the output file of a server is renamed when the server starts. A file of this size has the lines
of a few thousand starts."""
CHECK_SECONDS = 5.0
"""The pause between two checks of the file's name, and the pause after a failed rotation. Without a pause, each line
could cause a rotation, and each rotation lists the directory."""


@dataclass(frozen=True, slots=True)
class FileLimits:
    """The size at which a file is renamed, and the number of renamed files that are kept for each log."""

    max_bytes: int = 20 << 20
    files_max: int = 168


class RotatedFile(logging.Handler):
    """Writes lines to a file, and renames the file when it is due. If the disk fails, lines are lost, and the server
    continues.
    """

    def __init__(self, path: Path, limits: FileLimits, now: Callable[[], float] = time.time) -> None:
        """Opens the file. Raises OSError if the file cannot be opened."""
        super().__init__()
        self.path = path
        self._limits = limits
        self._now = now
        self._is_broken = False
        self._is_torn = False
        """Whether the last line has no end, because the disk was full."""
        self._looked_at = now()
        self._failed_at: float | None = None
        self._use(path.open("ab", buffering=0))

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record).encode("utf-8", "backslashreplace") + b"\n"
            self._prepare(len(line))
            self._write(line)
            self._is_broken = False
        except OSError as error:
            self._report(error)
        except Exception:
            self.handleError(record)

    def close(self) -> None:
        self._file.close()
        super().close()

    def _use(self, file: FileIO) -> None:
        stat = os.fstat(file.fileno())
        self._file = file
        self._size = stat.st_size
        self._hour = _hour(stat.st_mtime if stat.st_size else self._now())
        self._is_torn = False

    def _write(self, line: bytes) -> None:
        """Writes the whole line. If the disk becomes full after a part of the line, the next write begins with a line
        break.
        """
        rest = b"\n" + line if self._is_torn else line
        while rest:
            written = self._file.write(rest)
            if not written:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            self._size += written
            self._is_torn = rest[written - 1] != _NEWLINE
            rest = rest[written:]

    def _prepare(self, more_bytes: int) -> None:
        """Opens a new file if the present file was renamed or removed. Renames the file if it is due."""
        now = self._now()
        if self._must_rotate(now, more_bytes) or _has_passed(self._looked_at, now):
            self._looked_at = now
            self._open_again_if_moved()
            if self._must_rotate(now, more_bytes):
                self._rotate(now)

    def _must_rotate(self, now: float, more_bytes: int) -> bool:
        if not self._size:
            self._hour = max(self._hour, _hour(now))
            return False
        is_due = _hour(now) > self._hour or self._size + more_bytes > self._limits.max_bytes
        return is_due and (self._failed_at is None or _has_passed(self._failed_at, now))

    def _open_again_if_moved(self) -> None:
        """Opens a new file if the present file was renamed or removed. If that fails, the lines go to the old file
        until the next check.
        """
        with contextlib.suppress(OSError):
            if not self._has_name():
                file = self.path.open("ab", buffering=0)
                self._file.close()
                self._use(file)

    def _has_name(self) -> bool:
        try:
            return os.path.samestat(os.stat(self.path), os.fstat(self._file.fileno()))
        except FileNotFoundError:
            return False

    def _rotate(self, now: float) -> None:
        """Renames the file. If this fails, continues with the same file and tries again after a pause."""
        try:
            file = self._renamed_and_new()
        except OSError:
            self._failed_at = now
            return
        self._failed_at = None
        self._file.close()
        self._use(file)
        with contextlib.suppress(OSError):
            self._delete_oldest()

    def _renamed_and_new(self) -> FileIO:
        """Renames the present file, and returns a new file. The new file is first opened under another name. So if it
        cannot be opened, the present file keeps its name.
        """
        fresh = self.path.with_name(f"{self.path.name}.new")
        file = fresh.open("wb", buffering=0)
        try:
            os.replace(self.path, self._renamed())
            os.replace(fresh, self.path)
        except OSError:
            file.close()
            fresh.unlink(missing_ok=True)
            raise
        return file

    def _renamed(self) -> Path:
        stamp = time.strftime("%Y-%m-%d-%H", time.localtime(self._hour))
        base = self.path.with_name(f"{self.path.name}.{stamp}")
        numbers = [
            int(path.name.rpartition(".")[2]) for path in self._renamed_files() if _is_numbered(path, base)
        ]
        if not numbers and not base.exists():
            return base
        return base.with_name(f"{base.name}.{max(numbers, default=0) + 1}")

    def _renamed_files(self) -> list[Path]:
        """The renamed files of this log, oldest first."""
        pattern = re.compile(re.escape(self.path.name) + r"\.(\d{4}-\d\d-\d\d-\d\d)(?:\.(\d+))?", re.ASCII)
        entries = []
        for name in os.listdir(self.path.parent):
            match = pattern.fullmatch(name)
            if match:
                entries.append(((match[1], int(match[2] or 0)), self.path.with_name(name)))
        return [path for _, path in sorted(entries)]

    def _delete_oldest(self) -> None:
        files = self._renamed_files()
        for path in files[: max(0, len(files) - self._limits.files_max)]:
            path.unlink(missing_ok=True)

    def _report(self, error: OSError) -> None:
        """Reports a failed write in one line to stderr. Reports only the first failure."""
        if not self._is_broken:
            self._is_broken = True
            print(f"The log cannot be written to {self.path}: {error.strerror}", file=sys.stderr)


def bound_output_file(path: str | os.PathLike[str]) -> None:
    """Renames the output file of a server in the background if it is large. Raises OSError if that fails."""
    if os.path.exists(path) and os.path.getsize(path) > OUTPUT_MAX_BYTES:
        os.replace(path, f"{os.fspath(path)}.1")


def _hour(seconds: float) -> int:
    return int(seconds) // HOUR_SECONDS * HOUR_SECONDS


def _has_passed(since: float, now: float) -> bool:
    """Whether CHECK_SECONDS have passed since the time `since`. Returns True also if the clock was set back."""
    return not 0 <= now - since < CHECK_SECONDS


def _is_numbered(path: Path, base: Path) -> bool:
    return path.name.startswith(f"{base.name}.")
