"""Files of a folder that are served unchanged. They are read once, at the start."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from kcli.http.server import HttpError, Request, Response, respond

CONTENT_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""The content types by the extensions of file names. Files with other extensions are not served."""

# A browser keeps the file, and asks at each use whether it has changed.
_CACHE = "no-cache"


@dataclass(frozen=True, slots=True)
class _StaticFile:
    body: bytes
    content_type: str
    tag: str


class StaticFiles:
    """The files of a folder, by their paths relative to the folder."""

    def __init__(self, folder: Path) -> None:
        self._files = {
            path.relative_to(folder).as_posix(): _read(path)
            for path in sorted(folder.rglob("*"))
            if path.suffix in CONTENT_TYPES and path.is_file()
        }

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(self._files)

    def respond(self, request: Request, path: str) -> Response:
        """Responds with a file, or with 304 if the client has it. Raises HttpError if the file does not exist."""
        file = self._files.get(path)
        if file is None:
            raise HttpError(HTTPStatus.NOT_FOUND, f"there is no file {path}")
        if file.tag in request.headers.get("If-None-Match", ""):
            response = Response(status=HTTPStatus.NOT_MODIFIED)
        else:
            response = respond(file.body, file.content_type)
        response.headers.update({"ETag": file.tag, "Cache-Control": _CACHE})
        return response


def _read(path: Path) -> _StaticFile:
    body = path.read_bytes()
    return _StaticFile(body, CONTENT_TYPES[path.suffix], f'"{hashlib.sha256(body).hexdigest()[:32]}"')
