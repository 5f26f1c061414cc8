"""The events of kafka-verifiable-producer and -consumer: one JSON object per line."""

from __future__ import annotations

import json
import sys
import time

from kcli.cli.output import Output


def write(output: Output, name: str, **fields: object) -> None:
    """Writes an event and flushes it, because the test program reads the events live."""
    row = {"timestamp": int(time.time() * 1000), "name": name, **fields}
    output.row(row, json.dumps(row, separators=(",", ":"), ensure_ascii=False))
    sys.stdout.flush()


def text(value: bytes | None) -> str | None:
    """Returns a key or a value as text for an event."""
    return None if value is None else value.decode("utf-8", "replace")
