"""The messages of PostgreSQL's output plugin pgoutput, protocol version 1, and the frames that carry them.

The parser is strict: it raises `ProtocolError` for a message that is cut off, too long, or out of bounds. See the
chapters "Streaming Replication Protocol" and "Logical Replication Message Formats" of PostgreSQL's documentation.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from kcli.errors import KcliError

COLUMNS_MAX = 1664
"""The most columns of a row in PostgreSQL (MaxTupleAttributeNumber)."""
MICROS_TO_2000 = 946_684_800_000_000
"""PostgreSQL counts microseconds from 2000. This constant is 2000-01-01 in microseconds since 1970."""
_INT16, _INT32, _INT64 = struct.Struct("!h"), struct.Struct("!i"), struct.Struct("!q")
_UINT8, _UINT32, _UINT64 = struct.Struct("!B"), struct.Struct("!I"), struct.Struct("!Q")
_STATUS = struct.Struct("!cQQQqB")


class ProtocolError(KcliError):
    """Bytes of the server that are no valid message."""


class Missing(Enum):
    """A value that the message does not contain, because it is stored outside the row and did not change (TOAST)."""

    UNCHANGED = "unchanged"


Tuple = tuple[bytes | Missing | None, ...]
"""The texts of the values of a row, in the order of the columns of its `Relation`. None is NULL."""


@dataclass(frozen=True, slots=True)
class WalData:
    """A frame with a message. `start` is the position of the change in the WAL."""

    start: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Keepalive:
    """A frame without a message. The server has sent all changes before `wal_end`."""

    wal_end: int
    wants_reply: bool


@dataclass(frozen=True, slots=True)
class Begin:
    commit_lsn: int
    commit_us: int
    """Microseconds since 1970."""
    xid: int


@dataclass(frozen=True, slots=True)
class Commit:
    commit_lsn: int
    end_lsn: int
    commit_us: int


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    is_key: bool
    """Whether the column belongs to the replica identity."""
    type_oid: int
    type_modifier: int


@dataclass(frozen=True, slots=True)
class Relation:
    """A table. The server sends it before the first change of the table, and again after each change of its columns."""

    oid: int
    schema: str
    table: str
    replica_identity: str
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class TypeName:
    """A type that is not built in. The server sends it before a `Relation` that uses the type."""

    oid: int
    schema: str
    name: str


@dataclass(frozen=True, slots=True)
class Insert:
    relation_oid: int
    new: Tuple


@dataclass(frozen=True, slots=True)
class Update:
    relation_oid: int
    old: Tuple | None
    """The old key if the key has changed, or the whole old row if the replica identity is FULL."""
    new: Tuple


@dataclass(frozen=True, slots=True)
class Delete:
    relation_oid: int
    old: Tuple


@dataclass(frozen=True, slots=True)
class Truncate:
    relation_oids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LogicalMessage:
    """A message that a session wrote into the WAL with pg_logical_emit_message."""

    transactional: bool
    """Whether the message is part of a transaction. If not, the server sends it between two transactions."""
    lsn: int
    prefix: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Origin:
    """The name of the server from which a transaction was replicated to this one."""

    name: str


Change = Insert | Update | Delete | Truncate | LogicalMessage
Message = Begin | Commit | Relation | TypeName | Origin | Change


def parse_frame(data: bytes) -> WalData | Keepalive:
    """Parses a frame of the replication protocol. Raises ProtocolError."""
    reader = _Reader(data)
    match reader.letter():
        case "w":
            start = reader.number(_UINT64)
            reader.number(_UINT64)
            reader.number(_INT64)
            return WalData(start, reader.rest())
        case "k":
            wal_end = reader.number(_UINT64)
            reader.number(_INT64)
            keepalive = Keepalive(wal_end, reader.flag())
            reader.end()
            return keepalive
        case letter:
            raise ProtocolError(f"Unknown frame of the replication protocol: {letter!r}")


def status_update(written: int, flushed: int, now_us: int) -> bytes:
    """The frame that reports positions to the server, which then removes WAL before `flushed`."""
    return _STATUS.pack(b"r", written, flushed, flushed, now_us - MICROS_TO_2000, 0)


def parse_message(data: bytes) -> Message:
    """Parses a message of pgoutput. Raises ProtocolError."""
    reader = _Reader(data)
    letter = reader.letter()
    parser = _PARSERS.get(letter)
    if parser is None:
        raise ProtocolError(f"Unknown message of pgoutput: {letter!r}")
    message = parser(reader)
    reader.end()
    return message


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def number(self, kind: struct.Struct) -> int:
        try:
            (value,) = kind.unpack_from(self._data, self._position)
        except struct.error:
            raise ProtocolError(f"The message ends at byte {len(self._data)}, inside a number") from None
        self._position += kind.size
        assert isinstance(value, int), "all formats are whole numbers"
        return value

    def count(self, limit: int) -> int:
        number = self.number(_INT16)
        if not 0 <= number <= limit:
            raise ProtocolError(f"Invalid number of columns: {number}")
        return number

    def letter(self) -> str:
        return chr(self.number(_UINT8))

    def flag(self) -> bool:
        return bool(self.number(_UINT8))

    def text(self) -> str:
        end = self._data.find(b"\0", self._position)
        if end < 0:
            raise ProtocolError("The message ends inside a text")
        part = self._data[self._position : end]
        self._position = end + 1
        try:
            return part.decode()
        except UnicodeDecodeError:
            raise ProtocolError(f"A name is not UTF-8: {part!r}") from None

    def tuple(self) -> Tuple:
        """The values of a row. This loop takes most of the time of a parse, so it calls no method for a value."""
        count = self.count(COLUMNS_MAX)
        data, position, end = self._data, self._position, len(self._data)
        values: list[bytes | Missing | None] = []
        for _ in range(count):
            kind = data[position : position + 1]
            position += 1
            if kind == b"t":
                begin = position + _INT32.size
                size = int.from_bytes(data[position:begin])
                position = begin + size
                if position > end:
                    raise ProtocolError(f"Invalid size of a value: {size}")
                values.append(data[begin:position])
            elif kind == b"n":
                values.append(None)
            elif kind == b"u":
                values.append(Missing.UNCHANGED)
            else:
                raise ProtocolError(f"Unknown kind of a value: {kind!r}")
        self._position = position
        return tuple(values)

    def expect(self, letters: str) -> str:
        letter = self.letter()
        if letter not in letters:
            raise ProtocolError(f"Expected one of {letters!r}, found {letter!r}")
        return letter

    def rest(self) -> bytes:
        return self._data[self._position :]

    def skip(self, size: int) -> None:
        self._position += size

    def end(self) -> None:
        if self._position != len(self._data):
            raise ProtocolError(
                f"The message has {len(self._data) - self._position} more bytes than expected"
            )


def _begin(reader: _Reader) -> Begin:
    return Begin(reader.number(_UINT64), reader.number(_INT64) + MICROS_TO_2000, reader.number(_UINT32))


def _commit(reader: _Reader) -> Commit:
    reader.flag()
    return Commit(reader.number(_UINT64), reader.number(_UINT64), reader.number(_INT64) + MICROS_TO_2000)


def _origin(reader: _Reader) -> Origin:
    reader.number(_UINT64)
    return Origin(reader.text())


def _relation(reader: _Reader) -> Relation:
    oid, schema, table = reader.number(_UINT32), reader.text(), reader.text()
    # An empty name stands for pg_catalog.
    identity = reader.expect("dnfi")
    columns = tuple(_relation_column(reader) for _ in range(reader.count(COLUMNS_MAX)))
    return Relation(oid, schema or "pg_catalog", table, identity, columns)


def _relation_column(reader: _Reader) -> Column:
    is_key = bool(reader.number(_UINT8) & 1)
    return Column(reader.text(), is_key, reader.number(_UINT32), reader.number(_INT32))


def _type(reader: _Reader) -> TypeName:
    return TypeName(reader.number(_UINT32), reader.text() or "pg_catalog", reader.text())


def _insert(reader: _Reader) -> Insert:
    oid = reader.number(_UINT32)
    reader.expect("N")
    return Insert(oid, reader.tuple())


def _update(reader: _Reader) -> Update:
    oid, old = reader.number(_UINT32), None
    if reader.expect("KON") != "N":
        old = reader.tuple()
        reader.expect("N")
    return Update(oid, old, reader.tuple())


def _delete(reader: _Reader) -> Delete:
    oid = reader.number(_UINT32)
    reader.expect("KO")
    return Delete(oid, reader.tuple())


def _truncate(reader: _Reader) -> Truncate:
    count = reader.number(_UINT32)
    reader.flag()
    if count * _UINT32.size != len(reader.rest()):
        raise ProtocolError(f"Invalid number of truncated tables: {count}")
    return Truncate(tuple(reader.number(_UINT32) for _ in range(count)))


def _logical_message(reader: _Reader) -> LogicalMessage:
    is_transactional, lsn, prefix = reader.flag(), reader.number(_UINT64), reader.text()
    size, content = reader.number(_UINT32), reader.rest()
    if size != len(content):
        raise ProtocolError(f"Invalid size of a message: {size}")
    reader.skip(size)
    return LogicalMessage(is_transactional, lsn, prefix, content)


_PARSERS: Mapping[str, Callable[[_Reader], Message]] = {
    "B": _begin, "C": _commit, "O": _origin, "R": _relation, "Y": _type,
    "I": _insert, "U": _update, "D": _delete, "T": _truncate,
    "M": _logical_message,
}  # fmt: skip
