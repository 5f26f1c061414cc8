"""The frames between a worker and the process of a task: a length, and a JSON object.

A request has an `id`, and the other side sends a reply with the same `id`. A note has no `id`, and gets no reply. JSON
and not pickle, because a user's code runs on one side, and must not run code on the other.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kcli.errors import KcliError

FRAME_BYTES_MAX = 32 * 1024 * 1024
"""The largest frame: the offsets of about 100,000 source partitions, or the configuration of the largest connector."""

_LENGTH = struct.Struct(">I")


class FrameError(KcliError):
    """A frame that is too large, or is not JSON."""


class Frame(NamedTuple):
    """A request (`method` and `id`), a note (`method`), or a reply (`id`, and `error` if the request failed)."""

    method: str | None
    body: object = None
    id: int | None = None
    error: Mapping[str, str] | None = None

    def encoded(self) -> bytes:
        content = json.dumps(self, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
        if len(content) > FRAME_BYTES_MAX:
            raise FrameError(f"a message of {len(content)} bytes: expected at most {FRAME_BYTES_MAX}")
        return _LENGTH.pack(len(content)) + content


class Decoder:
    """Makes frames of the bytes of a stream."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def add(self, more: bytes) -> None:
        self._bytes += more

    def frames(self) -> Iterator[Frame]:
        """Returns the frames that are complete. A caller that stops early continues with a later call.

        Raises FrameError.
        """
        while len(self._bytes) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._bytes)
            if length > FRAME_BYTES_MAX:
                raise FrameError(f"a message of {length} bytes: expected at most {FRAME_BYTES_MAX}")
            end = _LENGTH.size + length
            if len(self._bytes) < end:
                return
            content = bytes(self._bytes[_LENGTH.size : end])
            del self._bytes[:end]
            yield _decoded(content)


def _decoded(content: bytes) -> Frame:
    try:
        method, body, number, error = json.loads(content.decode("utf-8", "surrogatepass"))
    except (ValueError, TypeError) as reason:
        raise FrameError(f"a message that is not valid: {reason}") from None
    return Frame(method, body, number, error)
