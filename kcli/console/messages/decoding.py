"""Shows the bytes of keys, values and headers: as JSON, text, hexadecimal numbers, or by a schema of a registry.

With AUTO, the decoder finds out the format. It tries in this order: a schema id that the registry has, JSON, text in
UTF-8, other bytes. If a text is cut or has invalid bytes, the result is marked. Otherwise a page could show bytes that
are not in the record.
"""

from __future__ import annotations

import base64
import datetime
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from kcli.console.messages.filters.subjects import Tree, json_tree
from kcli.console.messages.limits import FULL_BYTES, PARSE_BYTES, PREVIEW_BYTES
from kcli.console.messages.record import Headers
from kcli.formats.codec import FormatError, Value
from kcli.formats.registry.deserializer import Decode, decoded
from kcli.formats.registry.framing import ID_BYTES, ID_MAGIC, SchemaKey, framed, header_of

HEX_LINE_BYTES = 16
HEX_PREVIEW_BYTES = 64


class Format(StrEnum):
    """The formats that a page can request. SCHEMA means Avro, Protobuf or JSON by the schema id of the value."""

    AUTO = "auto"
    JSON = "json"
    TEXT = "text"
    HEX = "hex"
    SCHEMA = "schema"


@dataclass(frozen=True, slots=True)
class SchemaCodec:
    """The decoder of one schema. `kind` is avro, protobuf or json. `id` is the id or the guid that a value contains."""

    id: SchemaKey
    kind: str
    decode: Decode[Value]


SchemaFinder = Callable[[SchemaKey], SchemaCodec]
"""Returns the decoder of a schema. Raises FormatError if the registry does not have the schema."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """Bytes as a page shows them. `size_bytes` is the whole size, and None for null."""

    format: str
    text: str = ""
    size_bytes: int | None = None
    is_cut: bool = False
    is_valid_text: bool = True
    schema_id: int | str | None = None
    """The id of the schema, or its guid as a text."""
    error: str | None = None

    def as_json(self) -> dict[str, str | int | bool | None]:
        """The fields for a page. A field with its usual value is left out."""
        document: dict[str, str | int | bool | None] = {"format": self.format, "size": self.size_bytes}
        document |= {"text": self.text} if self.text else {}
        document |= {"cut": True} if self.is_cut else {}
        document |= {"valid": False} if not self.is_valid_text else {}
        document |= {"schema_id": self.schema_id} if self.schema_id is not None else {}
        document |= {"error": self.error} if self.error else {}
        return document


NULL = Shown(format="null")


class Decoder:
    """Shows bytes in one format. Several threads use a decoder, so a decoder has no state."""

    def __init__(
        self, format_: Format = Format.AUTO, schemas: SchemaFinder | None = None, *, is_key: bool = False
    ) -> None:
        self._format, self._schemas, self._is_key = format_, schemas, is_key

    @property
    def may_wait(self) -> bool:
        """Whether the thread may have to wait until the registry sends a schema."""
        return self._schemas is not None and self._format in (Format.AUTO, Format.SCHEMA)

    def preview(self, raw: bytes | None, headers: Headers = ()) -> Shown:
        """The bytes for a list, cut to PREVIEW_BYTES. `headers` are those of the record, which may name a schema."""
        return self._shown(raw, headers, PREVIEW_BYTES, is_pretty=False)

    def full(self, raw: bytes | None, headers: Headers = ()) -> Shown:
        """The bytes for the view of one record, cut to FULL_BYTES. JSON is indented."""
        return self._shown(raw, headers, FULL_BYTES, is_pretty=True)

    def tree(self, raw: bytes, headers: Headers = ()) -> Tree:
        """The decoded value, for filters. Raises ValueError if the bytes have no structure."""
        if self._has_schema(raw, headers):
            try:
                return plain(self._by_schema(raw, headers)[1])
            except (FormatError, RecursionError) as error:
                raise ValueError(str(error)) from error
        return json_tree(raw)

    def _shown(self, raw: bytes | None, headers: Headers, limit: int, *, is_pretty: bool) -> Shown:
        if raw is None:
            return NULL
        if not raw and self._format is not Format.HEX:
            return Shown(format="empty", size_bytes=0)
        match self._format:
            case Format.HEX:
                return shown_as_hex(raw, limit, is_dump=is_pretty)
            case Format.TEXT:
                return _shown_as_text(raw, limit)
            case Format.JSON:
                return _shown_as_json(raw, limit, is_pretty=is_pretty)
            case Format.SCHEMA:
                return self._shown_by_schema(raw, headers, limit, is_pretty=is_pretty)
            case _:
                return self._shown_as_found(raw, headers, limit, is_pretty=is_pretty)

    def _shown_as_found(self, raw: bytes, headers: Headers, limit: int, *, is_pretty: bool) -> Shown:
        if self._has_schema(raw, headers):
            from_schema = self._shown_by_schema(raw, headers, limit, is_pretty=is_pretty)
            if from_schema.error is None:
                return from_schema
        if raw[:64].lstrip()[:1] in (b"{", b"[") and len(raw) <= PARSE_BYTES:
            shown = _shown_as_json(raw, limit, is_pretty=is_pretty)
            if shown.error is None:
                return shown
        if looks_like_text(raw):
            return _shown_as_text(raw, limit)
        return shown_as_hex(raw, limit, is_dump=is_pretty)

    def _has_schema(self, raw: bytes, headers: Headers) -> bool:
        """Whether the bytes may name their schema: by a header, or by an id. A guid in the bytes is not sought, because
        other bytes could look like one."""
        if not self.may_wait:
            return False
        name = header_of(is_key=self._is_key)
        return (len(raw) > ID_BYTES and raw[0] == ID_MAGIC) or any(header == name for header, _ in headers)

    def _by_schema(self, raw: bytes, headers: Headers) -> tuple[SchemaCodec, Value]:
        """Decodes a value with its schema. Raises FormatError."""
        if self._schemas is None:
            raise FormatError("the console has no schema registry (--schema-registry)")
        parts = framed(raw, headers, is_key=self._is_key)
        if len(raw) > PARSE_BYTES:
            raise FormatError(f"values up to {PARSE_BYTES >> 20} MB are decoded by a schema")
        codec = self._schemas(parts.schema)
        return codec, decoded(codec.decode, parts)

    def _shown_by_schema(self, raw: bytes, headers: Headers, limit: int, *, is_pretty: bool) -> Shown:
        try:
            codec, value = self._by_schema(raw, headers)
            text, is_cut = cut(json_pieces(value, is_pretty=is_pretty), limit)
        except (FormatError, ValueError, RecursionError) as error:
            shown = shown_as_hex(raw, limit, is_dump=is_pretty)
            return Shown(
                format=shown.format,
                text=shown.text,
                size_bytes=len(raw),
                is_cut=shown.is_cut,
                error=str(error),
            )
        return Shown(
            format=codec.kind,
            text=text,
            size_bytes=len(raw),
            is_cut=is_cut,
            schema_id=codec.id if isinstance(codec.id, int) else str(codec.id),
        )


def looks_like_text(raw: bytes) -> bool:
    """Whether bytes are UTF-8 without control characters. Of long bytes, only the beginning is examined."""
    head = raw[:PREVIEW_BYTES]
    try:
        text = _whole_characters(head, is_end=len(head) == len(raw)).decode()
    except UnicodeDecodeError:
        return False
    return _CONTROL.search(text) is None


_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f]")


def _whole_characters(head: bytes, *, is_end: bool) -> bytes:
    """Removes an incomplete character at the end of bytes that were cut."""
    if is_end:
        return head
    for back in range(1, min(4, len(head)) + 1):
        if head[-back] >= 0xC0:  # the first byte of a character of several bytes
            return head[:-back]
        if head[-back] < 0x80:
            return head
    return head


def _shown_as_text(raw: bytes, limit: int, format_: str = "text") -> Shown:
    head = raw[:limit]
    is_cut = len(head) < len(raw)
    head = _whole_characters(head, is_end=not is_cut)
    try:
        text, is_valid = head.decode(), True
    except UnicodeDecodeError:
        text, is_valid = head.decode("utf-8", "replace"), False
    return Shown(format=format_, text=text, size_bytes=len(raw), is_cut=is_cut, is_valid_text=is_valid)


def _shown_as_json(raw: bytes, limit: int, *, is_pretty: bool) -> Shown:
    error = None
    if len(raw) > PARSE_BYTES:
        error = f"values up to {PARSE_BYTES >> 20} MB are parsed"
    else:
        try:
            json_tree(raw)
        except ValueError as problem:
            error = f"not JSON: {problem}"
    if error is None and is_pretty:
        text, is_cut = cut(indented(raw.decode("utf-8", "replace")), limit)
        return Shown(format="json", text=text, size_bytes=len(raw), is_cut=is_cut)
    shown = _shown_as_text(raw, limit, "json" if error is None else "text")
    if error is None:
        return shown
    return Shown(
        format="text",
        text=shown.text,
        size_bytes=len(raw),
        is_cut=shown.is_cut,
        is_valid_text=shown.is_valid_text,
        error=error,
    )


def shown_as_hex(raw: bytes, limit: int, *, is_dump: bool) -> Shown:
    """Shows bytes as numbers. `is_dump` means lines of 16 bytes with their position and their characters."""
    if not is_dump:
        head = raw[:HEX_PREVIEW_BYTES]
        return Shown(format="hex", text=head.hex(" "), size_bytes=len(raw), is_cut=len(head) < len(raw))
    head = raw[: limit // 5]  # a line has about five characters for a byte
    lines = [_hex_line(head, at) for at in range(0, len(head), HEX_LINE_BYTES)]
    return Shown(format="hex", text="\n".join(lines), size_bytes=len(raw), is_cut=len(head) < len(raw))


def _hex_line(raw: bytes, at: int) -> str:
    line = raw[at : at + HEX_LINE_BYTES]
    characters = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in line)
    return f"{at:08x}  {line.hex(' '):<47}  {characters}"


_JSON_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*+"|[{}\[\],:]|[^\s{}\[\],:"]++', re.DOTALL)
INDENT = "  "
MAX_INDENT = 100
"""The deepest indentation, because each level makes every line longer."""


def cut(pieces: Iterable[str], limit: int) -> tuple[str, bool]:
    """The first `limit` characters of a text, and whether the text has more. Does not take pieces after the limit,
    because an indented text may have 200 times the size of its value."""
    characters: list[str] = []
    length = 0
    for piece in pieces:
        characters.append(piece)
        length += len(piece)
        if length > limit:
            return "".join(characters)[:limit], True
    return "".join(characters), False


def indented(text: str) -> Iterator[str]:
    """Indents valid JSON, and yields it in pieces. Names, numbers and texts stay as they are, so that no digit and no
    repeated name is lost."""
    return _with_lines(match.group() for match in _JSON_TOKEN.finditer(text))


def _with_lines(tokens: Iterable[str]) -> Iterator[str]:
    depth, after = 0, ""
    for token in tokens:
        if token in "}]":
            depth -= 1
            yield token if after in "{[" and after else _line(depth) + token
        else:
            if after in ("{", "[", ","):
                yield _line(depth)
            yield ": " if token == ":" else token
            depth += token in "{["
        after = token


def _line(depth: int) -> str:
    return "\n" + INDENT * min(depth, MAX_INDENT)


_encode = json.JSONEncoder(ensure_ascii=False, default=str).encode
_Members = Iterator[tuple[tuple[str, ...], Tree]]


def json_pieces(value: Value, *, is_pretty: bool) -> Iterator[str]:
    """Yields a decoded value as JSON in pieces. Bytes become an object with their base64 text."""
    tokens = _tokens(plain(value))
    if is_pretty:
        return _with_lines(tokens)
    return (f"{token} " if token in (",", ":") else token for token in tokens)


def _tokens(tree: Tree) -> Iterator[str]:
    """Yields the tokens of JSON. The code is not recursive, because in a deep tree each token would then pass through
    all levels."""
    levels: list[tuple[_Members, str]] = [(iter([((), tree)]), "")]
    while levels:
        members, closing = levels[-1]
        for before, value in members:
            yield from before
            if isinstance(value, dict):
                yield "{"
                levels.append((_members_of_object(value), "}"))
                break
            if isinstance(value, list):
                yield "["
                levels.append((_members_of_list(value), "]"))
                break
            yield _encode(value)
        else:
            levels.pop()
            if closing:
                yield closing


def _members_of_object(tree: dict[str, Tree]) -> _Members:
    for number, (name, value) in enumerate(tree.items()):
        yield ((",",) if number else ()) + (_encode(name), ":"), value


def _members_of_list(tree: list[Tree]) -> _Members:
    for number, value in enumerate(tree):
        yield (",",) if number else (), value


def plain(value: Value) -> Tree:
    """A decoded value with only the types of JSON and Decimal. Times become texts, and a map becomes an object."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, dict):
        return {str(name): plain(child) for name, child in value.items()}
    if isinstance(value, list):
        return _plain_list(value)
    if isinstance(value, tuple):
        return [plain(child) for child in value]
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    return value if hasattr(value, "is_finite") else str(value)


def _plain_list(values: list[Value]) -> Tree:
    if values and all(isinstance(value, tuple) and len(value) == 2 for value in values):
        return {str(value[0]): plain(value[1]) for value in values if isinstance(value, tuple)}
    # A call for each scalar would take microseconds in a deep tree, because each may need a new piece of the stack.
    return [value if isinstance(value, (int, float, str)) else plain(value) for value in values]
