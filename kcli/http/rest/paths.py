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


def path_segments(raw_path: str, *, is_lenient: bool = False) -> Sequence[str]:
    """Decodes the segments of a raw path without its query. Parameters of segments (`;x=1`) are cut off.

    A slash at the end makes no segment. `.` and `..` are ordinary names. Raises AmbiguousPath.

    `is_lenient` is for names that may contain every character, for example `a%2Fb`, and that may be empty.
    """
    if not raw_path.startswith("/") or _BROKEN_ESCAPE.search(raw_path):
        raise AmbiguousPath("Bad Request")
    if "//" in raw_path and not is_lenient:
        raise AmbiguousPath("Ambiguous URI empty segment")
    segments = [segment.split(";", 1)[0] for segment in raw_path[1:].split("/")]
    if segments[-1] == "":
        segments.pop()
    return [_decoded(segment, is_lenient=is_lenient) for segment in segments]


def _decoded(segment: str, *, is_lenient: bool) -> str:
    if "%" not in segment:
        return segment
    if not is_lenient:
        _check_escapes(segment)
    try:
        return unquote_to_bytes(segment).decode()
    except UnicodeDecodeError:
        raise AmbiguousPath("Bad UTF-8 encoding") from None


def _check_escapes(segment: str) -> None:
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
