"""Texts of exceptions in the form of Java's stack traces.

Tools and people read the first line and the lines `Caused by:`, so these have Java's class names. The lines between
them are Python's frames, the innermost first as in Java.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from pathlib import Path

from kcli.config.definition import ConfigError
from kcli.errors import KafkaError

FRAMES_MAX = 64
"""The most frames of one exception in a trace, because a trace becomes a record of the status topic."""
MESSAGE_CHARACTERS_MAX = 32_768
"""The longest message of one exception in a trace."""


_FILE_ERRORS: Mapping[type[BaseException], str] = {
    FileNotFoundError: "java.nio.file.NoSuchFileException",
    FileExistsError: "java.nio.file.FileAlreadyExistsException",
    PermissionError: "java.nio.file.AccessDeniedException",
}


def java_class(error: BaseException) -> str:
    """Returns the name of an exception's Java class, or of its Python class if Java has no such exception."""
    if isinstance(error, ConfigError):
        return "org.apache.kafka.common.config.ConfigException"
    if isinstance(error, KafkaError):
        return error.java_name()
    if isinstance(error, OSError) and error.filename is not None:
        return _FILE_ERRORS.get(type(error), "java.nio.file.FileSystemException")
    kind = type(error)
    name = getattr(error, "java_class", None)
    if isinstance(name, str):
        return name
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def summary(error: BaseException) -> str:
    """Returns an exception as Java's `toString` does: its class, and its message if it has one."""
    text = message(error)
    return f"{java_class(error)}: {text}" if text else java_class(error)


def message(error: BaseException) -> str:
    """Returns the message of an exception without characters that UTF-8 cannot have, as names of files may have."""
    try:
        text = _message(error)[:MESSAGE_CHARACTERS_MAX]
    except Exception:
        return "<its message cannot be made>"  # a user's class may have an invalid __str__
    return text.encode(errors="backslashreplace").decode()


def _message(error: BaseException) -> str:
    if not isinstance(error, OSError) or error.filename is None:
        return str(error)
    # Java's exceptions for missing files and for files without permission name only the file.
    return str(error.filename) if type(error) in _FILE_ERRORS else f"{error.filename}: {error.strerror}"


def java_trace(error: BaseException) -> str:
    """Returns an exception and its causes as Java prints them."""
    parts: list[str] = []
    cause: BaseException | None = error
    seen: set[int] = set()
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        parts.append(f"{'Caused by: ' if parts else ''}{summary(cause)}\n{_frames(cause)}")
        cause = cause.__cause__
    return "".join(parts)


def _frames(error: BaseException) -> str:
    frames = [
        (frame.f_globals.get("__name__", "?"), frame.f_code.co_qualname, frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    return "".join(
        f"\tat {module}.{name}({Path(file).name}:{line})\n"
        for module, name, file, line in reversed(frames[-FRAMES_MAX:])
    )
