"""A file of the log that is renamed at each full hour, and earlier if it is large. The oldest files are deleted.

The new name ends with the hour of the lines, as in Kafka: `server.log.2026-11-21-08`. If a file of this hour exists
already, because the size was reached, the name also gets a number: `server.log.2026-11-21-08.1`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HOUR_SECONDS = 3600
OUTPUT_MAX_BYTES = 10 << 20
"""The size at which the output file of a server is put aside at a start. It has the lines of some thousand starts."""


@dataclass(frozen=True, slots=True)
class FileLimits:
    """The size at which a file is renamed, and the number of renamed files that are kept of each log."""

    max_bytes: int = 20 << 20
    kept: int = 168


class RotatedFile(logging.Handler):
    """Writes lines to a file and renames it in time. A disk that fails costs lines, and never stops the server."""

    def __init__(self, path: Path, limits: FileLimits, now: Callable[[], float] = time.time) -> None:
        """Opens the file. Raises OSError if the file cannot be opened."""
        super().__init__()
        self.path = path
        self._limits = limits
        self._now = now
        self._is_broken = False
        self._file = path.open("ab", buffering=0)
        stat = os.fstat(self._file.fileno())
        self._size = stat.st_size
        self._hour = _hour(stat.st_mtime if stat.st_size else now())

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record).encode("utf-8", "backslashreplace") + b"\n"
            self._rotate_if_due(len(line))
            self._size += self._file.write(line)
            self._is_broken = False
        except OSError as error:
            self._report(error)
        except Exception:
            self.handleError(record)

    def close(self) -> None:
        self._file.close()
        super().close()

    def _rotate_if_due(self, more_bytes: int) -> None:
        hour = _hour(self._now())
        is_full = self._size > 0 and self._size + more_bytes > self._limits.max_bytes
        if hour > self._hour or is_full:
            if self._size:
                self._rotate()
            self._hour = hour

    def _rotate(self) -> None:
        """Renames the file. If the file cannot be renamed, goes on with the same file."""
        with contextlib.suppress(OSError):
            os.replace(self.path, self._renamed())
            file = self.path.open("ab", buffering=0)
            self._file.close()
            self._file, self._size = file, 0
            self._delete_oldest()

    def _renamed(self) -> Path:
        stamp = time.strftime("%Y-%m-%d-%H", time.localtime(self._hour))
        base = self.path.with_name(f"{self.path.name}.{stamp}")
        numbers = [
            int(each.name.rpartition(".")[2]) for each in self._renamed_files() if _is_numbered(each, base)
        ]
        if not numbers and not base.exists():
            return base
        return base.with_name(f"{base.name}.{max(numbers, default=0) + 1}")

    def _renamed_files(self) -> list[Path]:
        """The renamed files of this log, oldest first."""
        pattern = re.compile(re.escape(self.path.name) + r"\.(\d{4}-\d\d-\d\d-\d\d)(?:\.(\d+))?")
        found = []
        for name in os.listdir(self.path.parent):
            match = pattern.fullmatch(name)
            if match:
                found.append(((match[1], int(match[2] or 0)), self.path.with_name(name)))
        return [path for _, path in sorted(found)]

    def _delete_oldest(self) -> None:
        files = self._renamed_files()
        for path in files[: max(0, len(files) - self._limits.kept)]:
            path.unlink(missing_ok=True)

    def _report(self, error: OSError) -> None:
        """Writes one line to stderr for each run of failures, because each line would fail."""
        if not self._is_broken:
            self._is_broken = True
            print(f"The log cannot be written to {self.path}: {error.strerror}", file=sys.stderr)


def bound_output_file(path: str | os.PathLike[str]) -> None:
    """Renames the output file of a server in the background if it is large. Raises OSError if that fails."""
    if os.path.exists(path) and os.path.getsize(path) > OUTPUT_MAX_BYTES:
        os.replace(path, f"{os.fspath(path)}.1")


def _hour(seconds: float) -> int:
    return int(seconds) // HOUR_SECONDS * HOUR_SECONDS


def _is_numbered(path: Path, base: Path) -> bool:
    return path.name.startswith(f"{base.name}.")
