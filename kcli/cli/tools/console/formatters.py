"""The formats of the console consumer: Kafka's message formatters and deserializers, by their class names."""

from __future__ import annotations

import functools
import math
import re
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from kcli.cli.syntax.options import UsageError
from kcli.model.java_text import trim
from kcli.rdkafka.log import logger
from kcli.rdkafka.objects import Message

Deserializer = Callable[[bytes], bytes]

_PACKAGE = "org.apache.kafka.tools.consumer."
_MIRROR_PACKAGE = "org.apache.kafka.connect.mirror.formatters."
_NO_TIMESTAMP, _CREATE_TIME, _LOG_APPEND_TIME = 0, 1, 2  # librdkafka's rd_kafka_timestamp_type_t
_TIME_NAMES = {_CREATE_TIME: b"CreateTime:", _LOG_APPEND_TIME: b"LogAppendTime:"}


class FormatError(Exception):
    """Raised for a record that the formatter cannot print. With `--skip-message-on-error` the record is skipped."""


class UndecodableRecord(FormatError):
    """Raised for a record that does not fit its schema. The message names the record."""


class Formatter(Protocol):
    def __call__(self, message: Message) -> bytes:
        """Returns the bytes to print for one librdkafka message. Raises FormatError if it cannot be printed."""
        ...


def formatter(class_name: str, properties: Mapping[str, str]) -> Formatter:
    """Returns the formatter for the name of Kafka's class. Raises UsageError for an unknown class."""
    simple = class_name.removeprefix(_PACKAGE)
    match simple:
        case "DefaultMessageFormatter" | "LoggingMessageFormatter":
            return DefaultFormatter(properties)
        case "NoOpMessageFormatter":
            return lambda message: b""
        case "OffsetsMessageFormatter":
            return _coordinator_records("consumer_offsets", frozenset({"OffsetCommitKey"}))
        case "GroupMetadataMessageFormatter":
            return _coordinator_records("consumer_offsets", frozenset({"GroupMetadataKey"}))
        case "TransactionLogMessageFormatter":
            return _coordinator_records("transaction_state", None)
        case "group.share.ShareGroupStateMessageFormatter":
            return _coordinator_records("share_state", None)
        case _ if simple.startswith(_MIRROR_PACKAGE):
            return _mirror_records(class_name)
        case _:
            raise UsageError(class_name)


_COLUMNS = ("timestamp", "partition", "offset", "delivery", "epoch", "headers", "key", "value")
PROPERTIES = (
    *(f"print.{column}" for column in _COLUMNS),
    *("null.literal", "key.separator", "line.separator", "headers.separator"),
    *("key.deserializer", "value.deserializer", "headers.deserializer"),
)
"""The properties of the default formatter. A deserializer may have properties of its own, after its name and a dot."""


def unknown_properties(class_name: str, names: Iterable[str]) -> list[str]:
    """Returns the names that are not properties of the formatter. Only the default formatter's names are checked."""
    if class_name.removeprefix(_PACKAGE) not in ("DefaultMessageFormatter", "LoggingMessageFormatter"):
        return []
    return [
        name
        for name in names
        if name not in PROPERTIES and not re.match(r"(key|value|headers)\.deserializer\.", name)
    ]


class DefaultFormatter:
    """Formats a record in Kafka's order: timestamp, partition, offset, delivery, epoch, headers, key, value."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        def shows(name: str, default: bool = False) -> bool:
            text = properties.get(f"print.{name}")
            return default if text is None else trim(text).lower() == "true"

        def text(name: str, default: str) -> bytes:
            return properties.get(name, default).encode()

        self.null_literal = text("null.literal", "null")
        self.key_separator = text("key.separator", "\t")
        self.line_separator = text("line.separator", "\n")
        self.headers_separator = text("headers.separator", ",")
        self.key_deserializer = deserializer(properties.get("key.deserializer"))
        self.value_deserializer = deserializer(properties.get("value.deserializer"))
        self.headers_deserializer = deserializer(properties.get("headers.deserializer"))
        columns: list[tuple[str, bool, Callable[[Message], bytes]]] = [
            ("timestamp", False, _timestamp),
            ("partition", False, lambda message: b"Partition:%d" % message.partition()),
            ("offset", False, lambda message: b"Offset:%d" % message.offset()),
            ("delivery", False, lambda message: b"Delivery:NOT_PRESENT"),
            ("epoch", False, lambda message: b"Epoch:NOT_PRESENT"),
            ("headers", False, self._headers),
            ("key", False, lambda message: self._data(message.key(), self.key_deserializer)),
            ("value", True, lambda message: self._data(message.value(), self.value_deserializer)),
        ]
        self.columns = [make for name, default, make in columns if shows(name, default)]
        self.prints_bare_values = (
            len(self.columns) == 1 and shows("value", True) and self.value_deserializer is None
        )

    def __call__(self, message: Message) -> bytes:
        if self.prints_bare_values:
            value: bytes | None = message.value()
            return (self.null_literal if value is None else value) + self.line_separator
        if not self.columns:
            return b""
        return self.key_separator.join([make(message) for make in self.columns]) + self.line_separator

    def _data(self, data: bytes | None, deserialize: Deserializer | None) -> bytes:
        if data is None:
            return self.null_literal
        return data if deserialize is None else deserialize(data)

    def _headers(self, message: Message) -> bytes:
        headers = message.headers()
        if not headers:
            return b"NO_HEADERS"
        return self.headers_separator.join(
            [name.encode() + b":" + self._data(value, self.headers_deserializer) for name, value in headers]
        )


def letters(text: str) -> Formatter:
    """Returns the formatter for the letters of kcat: `%t %p %o %k %v`. Raises UsageError for an unknown letter."""
    parts: list[Callable[[Message], bytes]] = []
    for piece in re.findall(r"%.?|\\.?|[^%\\]+", text, re.S):
        if piece in _LETTERS:
            parts.append(_LETTERS[piece])
        elif piece in _ESCAPES or piece[0] not in "%\\":
            parts.append(functools.partial(_constant, _ESCAPES.get(piece, piece.encode())))
        else:
            known = " ".join([*_LETTERS, *_ESCAPES])
            raise UsageError(f"--format has {piece}: expected one of {known}")
    return lambda message: b"".join([part(message) for part in parts])


def _constant(text: bytes, _: Message) -> bytes:
    return text


def _length(data: bytes | None) -> bytes:
    return b"-1" if data is None else b"%d" % len(data)


def _kcat_headers(message: Message) -> bytes:
    pairs = message.headers() or ()
    return b",".join(name.encode() + b"=" + (b"NULL" if value is None else value) for name, value in pairs)


_LETTERS: dict[str, Callable[[Message], bytes]] = {
    "%t": lambda message: message.topic().encode(),
    "%p": lambda message: b"%d" % message.partition(),
    "%o": lambda message: b"%d" % message.offset(),
    "%T": lambda message: b"%d" % message.timestamp()[1],
    "%k": lambda message: message.key() or b"",
    "%K": lambda message: _length(message.key()),
    "%v": lambda message: message.value() or b"",
    "%s": lambda message: message.value() or b"",
    "%V": lambda message: _length(message.value()),
    "%S": lambda message: _length(message.value()),
    "%h": _kcat_headers,
}
_ESCAPES = {"%%": b"%", "\\n": b"\n", "\\r": b"\r", "\\t": b"\t", "\\\\": b"\\"}


def tsv_line(message: Message) -> bytes:
    """Returns a record as a line for `--output tsv`: topic, partition, offset, timestamp, key, value.

    Tabs, newlines and backslashes are escaped. A null key or value is \\N, as in PostgreSQL and MySQL. A backslash in a
    record is escaped, so no text looks like a null.
    """
    kind, timestamp = message.timestamp()
    cells = (
        message.topic().encode(),
        b"%d" % message.partition(),
        b"%d" % message.offset(),
        b"" if kind == _NO_TIMESTAMP else b"%d" % timestamp,
        _escaped(message.key()),
        _escaped(message.value()),
    )
    return b"\t".join(cells) + b"\n"


TSV_HEADER = b"topic\tpartition\toffset\ttimestamp\tkey\tvalue\n"


def deserializer(class_name: str | None) -> Deserializer | None:
    """Returns a function that converts bytes to text as Kafka's deserializer `class_name` does.

    Returns None if Kafka's deserializer leaves the bytes unchanged.

    As in Kafka, an unknown class is logged and ignored.
    """
    if class_name is None:
        return None
    simple = class_name.removeprefix("org.apache.kafka.common.serialization.")
    if simple in _NUMBERS:
        return _number(*_NUMBERS[simple])
    if simple not in _OTHERS:
        known = ", ".join(sorted((*_OTHERS, *_NUMBERS)))
        logger().error("Unable to instantiate a deserializer from %s; known are %s", class_name, known)
    return _OTHERS.get(simple)


def _string(data: bytes) -> bytes:
    return data if data.isascii() else data.decode("utf-8", "replace").encode()


def _bytes(data: bytes) -> bytes:
    return b"".join([b"%c" % byte if byte in _SHOWN else b"\\x%02X" % byte for byte in data])


_SHOWN = frozenset(range(ord(" "), ord("~") + 1)) - {ord("\\")}


def _buffer(data: bytes) -> bytes:
    return b"java.nio.HeapByteBuffer[pos=0 lim=%d cap=%d]" % (len(data), len(data))


def _void(data: bytes) -> bytes:
    raise FormatError("Data should be null for a VoidDeserializer.")


def _boolean(data: bytes) -> bytes:
    if len(data) != 1:
        raise FormatError("Size of data received by BooleanDeserializer is not 1")
    if data[0] > 1:
        raise FormatError(f"Unexpected byte received by BooleanDeserializer: {data[0]}")
    return b"true" if data[0] else b"false"


def _uuid(data: bytes) -> bytes:
    """Returns a UUID as Java parses it. If a hexadecimal number is too long, its first digits are ignored."""
    match = _UUID.fullmatch(data)
    numbers = [] if match is None else [int(part, 16) for part in match.groups()]
    if match is None:
        raise FormatError("Error parsing data into UUID")
    cut = [(n % 16**width, width) for n, width in zip(numbers, _UUID_DIGITS, strict=True)]
    return "-".join([f"{n:0{width}x}" for n, width in cut]).encode()


_UUID_DIGITS = (8, 4, 4, 4, 12)
_UUID = re.compile(rb"-".join([rb"([0-9A-Fa-f]+)"] * len(_UUID_DIGITS)))

# ByteArrayDeserializer passes the bytes unchanged. Java would print the identity of the array object, which helps no
# user.
_OTHERS: dict[str, Deserializer | None] = {
    "BooleanDeserializer": _boolean,
    "ByteArrayDeserializer": None,
    "ByteBufferDeserializer": _buffer,
    "BytesDeserializer": _bytes,
    "StringDeserializer": _string,
    "UUIDDeserializer": _uuid,
    "VoidDeserializer": _void,
}


def _number(layout: str, name: str, show: Callable[[float], str]) -> Deserializer:
    packed = struct.Struct(layout)

    def deserialize(data: bytes) -> bytes:
        if len(data) != packed.size:
            raise FormatError(f"Size of data received by {name} is not {packed.size}")
        return show(packed.unpack(data)[0]).encode()

    return deserialize


def _double(value: float) -> str:
    from kcli.model.java_floats import java_double

    return java_double(value)


def _shortest(value: float) -> float:
    """Returns the number with the fewest digits that is equal to `value` in single precision."""
    if not math.isfinite(value):
        return value
    texts = (f"{value:.{digits}g}" for digits in range(1, 10))
    return next(float(text) for text in texts if struct.pack(">f", float(text)) == struct.pack(">f", value))


# The struct format, the name in error messages, and the function that formats the value.
_NUMBERS: dict[str, tuple[str, str, Callable[[float], str]]] = {
    "ShortDeserializer": (">h", "ShortDeserializer", str),
    "IntegerDeserializer": (">i", "IntegerDeserializer", str),
    "LongDeserializer": (">q", "LongDeserializer", str),
    "FloatDeserializer": (">f", "Deserializer", lambda value: _double(_shortest(value))),
    "DoubleDeserializer": (">d", "Deserializer", _double),
}


def _timestamp(message: Message) -> bytes:
    kind, timestamp = message.timestamp()
    return b"NO_TIMESTAMP" if kind == _NO_TIMESTAMP else _TIME_NAMES[kind] + b"%d" % timestamp


def _escaped(data: bytes | None) -> bytes:
    if data is None:
        return b"\\N"
    return data.replace(b"\\", b"\\\\").replace(b"\t", b"\\t").replace(b"\n", b"\\n").replace(b"\r", b"\\r")


def _coordinator_records(module: str, names: frozenset[str] | None) -> Formatter:
    """Returns a formatter for records of an internal topic.

    The formatter prints compact JSON for the types in `names` (None: all).
    """
    import importlib

    from kcli.errors import CorruptRecordError
    from kcli.protocol.records import json_text
    from kcli.protocol.records.coordinator import UnknownRecordTypeError

    records = importlib.import_module(f"kcli.protocol.records.{module}")

    def show(message: Message) -> bytes:
        raw_key, raw_value = message.key(), message.value()
        if raw_key is None:
            return b""
        try:
            key = records.decode_key(raw_key)
            if names is not None and type(key).__name__ not in names:
                return b""
            value = (
                None if raw_value is None else records.value_to_json(*records.decode_value(key, raw_value))
            )
        except UnknownRecordTypeError:
            return b""
        except CorruptRecordError as error:
            raise FormatError(f"Could not read record at offset {message.offset()} due to: {error}") from None
        shown = {"key": records.key_to_json(key), "value": value}
        return json_text.dumps(shown).encode()

    return show


def _mirror_records(class_name: str) -> Formatter:
    """Returns a formatter for the records of an internal topic of MirrorMaker. Raises UsageError for an unknown
    class."""
    from kcli.connectors.mirror.records import Checkpoint, Heartbeat, InvalidMirrorRecord, OffsetSync

    parsers: dict[str, Callable[[bytes | None, bytes | None], object]] = {
        "OffsetSyncFormatter": OffsetSync.parse,
        "CheckpointFormatter": Checkpoint.parse,
        "HeartbeatFormatter": Heartbeat.parse,
    }
    parse = parsers.get(class_name.removeprefix(_MIRROR_PACKAGE))
    if parse is None:
        raise UsageError(class_name)

    def show(message: Message) -> bytes:
        try:
            return f"{parse(message.key(), message.value())}\n".encode()
        except InvalidMirrorRecord as error:
            text = f"Could not read record at offset {message.offset()} due to: {error}"
            raise FormatError(text) from None

    return show
