"""The recorded requests, answers and records of Java's Connect workers."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rigs import golden3

Json = dict[str, Any]


MASKS = {"{MS}": "1732800000000", "{SESSIONKEY}": "c2Vzc2lvbg=="}
"""Numbers and keys that differ in each recording. Their masks are not valid in JSON or base64."""


def raw(text: str) -> bytes:
    return base64.b64decode(text)


def raw_entry(record: Json) -> tuple[bytes, bytes | None]:
    """The key and the value of a recorded record."""
    value = record["value"]
    return _unmasked(record["key"]), None if value is None else _unmasked(value)


def _unmasked(text: str) -> bytes:
    for mask, value in MASKS.items():
        text = text.replace(mask, value)
    return text.encode()


def stories(recording: Path) -> dict[str, list[Json]]:
    """The frames of each story. A story ends where the recording does not say which worker got an answer."""
    found: dict[str, list[Json]] = {}
    ended = set()
    for step in golden3.steps(recording):
        for frame in step["frames"]:
            if frame["dir"] == "response" and not frame.get("answers"):
                ended.add(step["story"])
            if step["story"] not in ended:
                found.setdefault(step["story"], []).append(frame)
    return found


def exchanges(frames: Sequence[Json]) -> dict[str, list[tuple[Json, Json | None]]]:
    """The requests of each worker with their answers, as far as they have one.

    The recording has some requests before the answer that caused them, because it was made between two sockets.
    """
    found: dict[str, list[tuple[Json, Json | None]]] = {}
    for frame in frames:
        if frame["dir"] == "request":
            found.setdefault(frame["client_id"], []).append((frame, None))
            continue
        of_worker = found[frame["answers"]]
        nth = next(
            nth
            for nth, (request, answer) in enumerate(of_worker)
            if answer is None and request["api"] == frame["api"]
        )
        of_worker[nth] = of_worker[nth][0], frame["body"]
    return found
