"""Decodes long JSON bodies in slices, because Python's decoder would block the event loop for seconds.

A body of 9 MB can have 4 million numbers, for which Python's decoder takes 7 s. So this module decodes one scalar at a
time, and keeps the open objects and arrays itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from json.decoder import JSONDecodeError

from kcli.http.rest.json_bodies import DECODERS, InvalidBody, body_text, parse_json
from kcli.runtime.turns import Turn

PARTS_AT_ONCE = 2_000
"""The most values of a body that is decoded at once, which takes about 5 ms."""

PARTS_MAX = 500_000
"""The most values of a body: the offsets of about 70,000 source partitions. They need about 100 MB of memory."""

DEPTH_MAX = 1_000
"""The deepest nesting, as in Jackson (StreamReadConstraints)."""

_PART_COST = 4
_SPACE = re.compile(r"[ \t\r\n]*")


async def read_json(body: bytes, *, numbers_as_text: bool = False) -> object:
    """Decodes a body as `parse_json` does, and lets others use the event loop. Raises InvalidBody."""
    if body.count(b",") + body.count(b"[") + body.count(b"{") <= PARTS_AT_ONCE:
        return parse_json(body, numbers_as_text=numbers_as_text)
    pace = Turn()
    try:
        reader = _Reader(body, DECODERS[numbers_as_text])
        for number, _ in enumerate(reader.steps()):
            if number == PARTS_MAX:
                raise InvalidBody(f"the body has more than {PARTS_MAX} values")
            await pace(_PART_COST)
    except (ValueError, IndexError) as error:
        raise InvalidBody(f"the body is not valid JSON: {error}") from None
    return reader.value


class _Reader:
    """Reads one value from the begin of a body. `value` is complete when `steps` has ended."""

    def __init__(self, body: bytes, decoder: json.JSONDecoder) -> None:
        self._text = body_text(body)
        self._decoder = decoder
        self._at = 0
        self._open: list[dict[str, object] | list[object]] = []
        self._keys: list[str] = []
        """The key of the next value of each open object."""
        self.value: object = None

    def steps(self) -> Iterator[None]:
        """Yields after each value, and after each begin of an object or an array. Raises ValueError or IndexError."""
        text = self._text
        while True:
            self._skip()
            if text[self._at] not in "{[":
                value, self._at = self._read_scalar()
                is_complete = self._add(value)
            elif self._opens():
                is_complete = False
            else:
                is_complete = self._close()
            if is_complete:
                return
            yield

    def _skip(self, characters: int = 0) -> None:
        """Skips characters, and then spaces."""
        match = _SPACE.match(self._text, self._at + characters)
        assert match is not None, "it matches no space, too"
        self._at = match.end()

    def _read_scalar(self) -> tuple[object, int]:
        value, end = self._decoder.raw_decode(self._text, self._at)
        if isinstance(value, str):
            value.encode()  # half of a surrogate pair cannot be written to a topic
        return value, end

    def _opens(self) -> bool:
        """Begins an object or an array. Returns False if it is empty."""
        if len(self._open) == DEPTH_MAX:
            raise JSONDecodeError(f"more than {DEPTH_MAX} levels", self._text, self._at)
        is_object = self._text[self._at] == "{"
        self._open.append({} if is_object else [])
        self._keys.append("")
        self._skip(1)
        if self._text[self._at] == ("}" if is_object else "]"):
            return False
        if is_object:
            self._read_key()
        return True

    def _read_key(self) -> None:
        if self._text[self._at] != '"':
            raise JSONDecodeError("Expecting property name enclosed in double quotes", self._text, self._at)
        key, self._at = self._read_scalar()
        self._keys[-1] = str(key)
        self._skip()
        if self._text[self._at] != ":":
            raise JSONDecodeError("Expecting ':' delimiter", self._text, self._at)
        self._at += 1

    def _add(self, value: object) -> bool:
        """Adds a value to what is open, and closes what ends after it. Returns whether nothing is open any more."""
        if not self._open:
            self.value = value
            return True
        container = self._open[-1]
        if isinstance(container, dict):
            container[self._keys[-1]] = value
        else:
            container.append(value)
        self._skip()
        if self._text[self._at] != ",":
            return self._close()
        self._skip(1)
        if isinstance(container, dict):
            self._read_key()
        return False

    def _close(self) -> bool:
        """Reads the end of an object or an array, and adds it to the one around it."""
        container = self._open.pop()
        self._keys.pop()
        if self._text[self._at] != ("}" if isinstance(container, dict) else "]"):
            raise JSONDecodeError("Expecting ',' delimiter", self._text, self._at)
        self._at += 1
        return self._add(container)
