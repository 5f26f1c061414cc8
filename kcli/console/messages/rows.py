"""The JSON of records for a page, and the envelope of records for a download."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass

from kcli.console.messages.decoding import Decoder
from kcli.console.messages.limits import PREVIEW_BYTES, PREVIEW_HEADERS
from kcli.console.messages.record import ReadRecord
from kcli.tracing.other_contexts import trace_id_of

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

HEADERS = Decoder()
"""Shows headers. A page cannot choose their format, so the decoder finds the format out."""


@dataclass(frozen=True, slots=True)
class Decoders:
    """The decoders that a page has chosen."""

    key: Decoder
    value: Decoder


def row(record: ReadRecord, decoders: Decoders) -> dict[str, Json]:
    """A record for a list, with its parts cut to a size that a list can show."""
    return _places(record) | {
        "key": dict(decoders.key.preview(record.key, record.headers).as_json()),
        "value": dict(decoders.value.preview(record.value, record.headers).as_json()),
        "headers": [
            {"key": name[:PREVIEW_BYTES], "value": dict(HEADERS.preview(value).as_json())}
            for name, value in record.headers[:PREVIEW_HEADERS]
        ],
        "headers_count": len(record.headers),
    }


def whole(record: ReadRecord, decoders: Decoders) -> dict[str, Json]:
    """A record for the view of one record, with more of its key and value than in a list."""
    return row(record, decoders) | {
        "key": dict(decoders.key.full(record.key, record.headers).as_json()),
        "value": dict(decoders.value.full(record.value, record.headers).as_json()),
        "trace_id": None if (trace_id := trace_id_of(record.headers)) is None else trace_id[1],
    }


def _places(record: ReadRecord) -> dict[str, Json]:
    return {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "timestamp_type": "LogAppendTime" if record.is_append_time else "CreateTime",
        "size": record.size_bytes,
    }


def envelope(record: ReadRecord, topic: str) -> bytes:
    """A record as one line of JSON, as `console-consumer --output json` prints it."""
    fields = {
        "topic": topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "timestampType": "LogAppendTime" if record.is_append_time else "CreateTime",
        "headers": [[name, _text(value)] for name, value in record.headers],
        "key": _text(record.key),
        "value": _text(record.value),
    }
    return json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _text(raw: bytes | None) -> str | dict[str, str] | None:
    if raw is None:
        return None
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(raw).decode()}
