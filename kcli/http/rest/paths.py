"""The path of a request, as Jetty 12 reads it: ambiguous paths are refused before a route is looked up."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import unquote_to_bytes

_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_DOTS = re.compile(r"(?:\.|%2[eE])(?:\.|%2[eE])?")


class AmbiguousPath(ValueError):
    """A path that two servers could understand differently. `str()` is Jetty's reason."""


def path_segments(raw_path: str) -> Sequence[str]:
    """Decodes the segments of a raw path without its query. Parameters of segments (`;x=1`) are cut off.

    A slash at the end makes no segment. `.` and `..` are ordinary names. Raises AmbiguousPath.
    """
    if not raw_path.startswith("/") or _BROKEN_ESCAPE.search(raw_path):
        raise AmbiguousPath("Bad Request")
    if "//" in raw_path:
        raise AmbiguousPath("Ambiguous URI empty segment")
    segments = [segment.split(";", 1)[0] for segment in raw_path[1:].split("/")]
    if segments[-1] == "":
        segments.pop()
    return [_decoded(segment) for segment in segments]


def _decoded(segment: str) -> str:
    if "%" not in segment:
        return segment
    for code in (bytes.fromhex(escape)[0] for escape in _ESCAPE.findall(segment)):
        if code == 0:
            raise AmbiguousPath("Bad Request")
        if code == ord("/"):
            raise AmbiguousPath("Ambiguous URI path separator")
        if code == ord("%"):
            raise AmbiguousPath("Ambiguous URI path encoding")
        if code == ord("\\") or code < 0x20 or code == 0x7F:
            raise AmbiguousPath("Suspicious Path Character")
    if _DOTS.fullmatch(segment):
        raise AmbiguousPath("Bad Request")
    try:
        return unquote_to_bytes(segment).decode()
    except UnicodeDecodeError:
        raise AmbiguousPath("Bad UTF-8 encoding") from None
