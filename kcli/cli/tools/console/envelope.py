"""The envelope: a record as one line of JSON, for `console-consumer --output json` and `console-producer --input json`.

    {"topic": "t", "partition": 0, "offset": 7, "timestamp": 1700000000000, "timestampType": "CreateTime",
     "headers": [["name", "value"]], "key": null, "value": {"base64": "//4="}}

Bytes are written as text if they are valid UTF-8. Other bytes are written as an object with their base64 text. A null
stays null, and an empty key or value is the empty string. Headers are pairs, because a name may occur twice. A key or
a value that was decoded by its schema is JSON within the envelope, so that its fields can be selected.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass

from kcli.cli.syntax.options import CommandError, did_you_mean
from kcli.rdkafka.objects import Message

FIELDS = ("topic", "partition", "offset", "timestamp", "timestampType", "headers", "key", "value")
BASE64 = "base64"
MAX_PARTITION = 2**31 - 1
MAX_TIMESTAMP_MS = 2**63 - 1

# librdkafka's rd_kafka_timestamp_type_t, where 0 means no timestamp
_TYPES = {1: "CreateTime", 2: "LogAppendTime"}


class JsonBytes(bytes):
    """A key or a value that is one line of JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonRecord:
    """The parts of an envelope that can be sent.

    `partition` and `timestamp_ms` are None if the envelope does not have them.
    """

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    partition: int | None = None
    timestamp_ms: int | None = None


def write(message: Message) -> bytes:
    """Returns a librdkafka message as one line of JSON."""
    kind, timestamp = message.timestamp()
    fields = {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": timestamp if kind in _TYPES else None,
        "timestampType": _TYPES.get(kind),
        "headers": [[name, _text(value)] for name, value in message.headers() or ()],
    }
    beginning = json.dumps(fields, ensure_ascii=False)[:-1].encode()
    return b'%b, "key": %b, "value": %b}\n' % (beginning, _json(message.key()), _json(message.value()))


def read(line: bytes, number: int, *, json_key: bool = False, json_value: bool = False) -> JsonRecord | None:
    """Returns the record of a line, or None for a blank line. `number` is the line number from 1.

    With `json_key` or `json_value`, this part is any JSON, and the record has its text. Raises CommandError for an
    invalid line.
    """
    if not line.strip(b" \t\r\n"):
        return None
    try:
        return _envelope(json.loads(line), json_key=json_key, json_value=json_value)
    except RecursionError:
        reason = "it is nested too deeply"
    except json.JSONDecodeError as error:
        reason = f"not JSON: {error.msg} (column {error.colno})"
    except UnicodeDecodeError as error:
        reason = f"not UTF-8 (byte {error.start + 1})"
    except ValueError as error:
        reason = str(error)
    raise CommandError(f"standard input, line {number}: {reason}")


def _json(data: bytes | None) -> bytes:
    """A key or a value in the envelope."""
    return data if isinstance(data, JsonBytes) else json.dumps(_text(data), ensure_ascii=False).encode()


def _text(data: bytes | None) -> str | dict[str, str] | None:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {BASE64: base64.b64encode(data).decode()}


def _envelope(record: object, *, json_key: bool, json_value: bool) -> JsonRecord:
    if not isinstance(record, dict):
        raise ValueError('expected an object, as in {"key": "k", "value": "v"}')
    for name in record:
        if name not in FIELDS:
            hint = did_you_mean(name, list(FIELDS))
            raise ValueError(f'unknown field "{name}", known are {", ".join(FIELDS)}. {hint}'.strip(" "))
    if "value" not in record:
        raise ValueError('the field "value" is missing; null there makes a tombstone')
    return JsonRecord(
        key=_part(record.get("key"), "key", is_json=json_key),
        value=_part(record["value"], "value", is_json=json_value),
        headers=_headers(record.get("headers")),
        partition=_whole(record.get("partition"), "partition", MAX_PARTITION),
        timestamp_ms=_whole(record.get("timestamp"), "timestamp", MAX_TIMESTAMP_MS),
    )


def _part(value: object, name: str, *, is_json: bool) -> bytes | None:
    if not is_json or value is None:
        return _bytes(value, name)
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _bytes(value: object, name: str) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError:
            raise ValueError(f'"{name}" has half a surrogate pair; other bytes are {{"base64": …}}') from None
    if isinstance(value, dict) and list(value) == [BASE64] and isinstance(value[BASE64], str):
        try:
            return base64.b64decode(value[BASE64], validate=True)
        except (binascii.Error, ValueError) as error:
            raise ValueError(f'"{name}" is not base64: {error}') from None
    raise ValueError(f'"{name}" must be text, null, or {{"base64": "…"}}')


def _headers(value: object) -> list[tuple[str, bytes | None]]:
    if value is None:
        return []
    pairs = list(value.items()) if isinstance(value, dict) else value
    if not isinstance(pairs, list):
        raise ValueError('"headers" must be a list of pairs, as in [["name", "value"]]')
    headers = []
    for pair in pairs:
        if not (isinstance(pair, (list, tuple)) and len(pair) == 2 and isinstance(pair[0], str)):
            raise ValueError('each of "headers" must be a pair of a name and a value')
        if "\0" in pair[0]:
            raise ValueError("the name of a header has a NUL in it, which librdkafka cannot send")
        _bytes(pair[0], "headers")
        headers.append((pair[0], _bytes(pair[1], f"headers: {pair[0]}")))
    return headers


def _whole(value: object, name: str, most: int) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise ValueError(f'"{name}" must be a whole number from 0 to {most}, or null')
    return value
