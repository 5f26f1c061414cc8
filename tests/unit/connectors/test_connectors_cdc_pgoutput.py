"""The messages of pgoutput, byte by byte."""

from __future__ import annotations

import struct

import pytest

from kcli.connectors.cdc.pgoutput import (
    MICROS_TO_2000,
    Begin,
    Column,
    Commit,
    Delete,
    Insert,
    Keepalive,
    LogicalMessage,
    Message,
    Missing,
    Origin,
    ProtocolError,
    Relation,
    Truncate,
    TypeName,
    Update,
    WalData,
    parse_frame,
    parse_message,
    status_update,
)

RELATION = (
    b"R\0\0\x40\0public\0orders\0d\0\x02\x01id\0\0\0\0\x17\xff\xff\xff\xff\0price\0\0\0\x06\xa4\0\x05\0\x06"
)
ROW = b"\0\x03t\0\0\0\x0212nu"
VALUES = (b"12", None, Missing.UNCHANGED)
MESSAGES: list[tuple[bytes, Message]] = [
    (
        b"B" + struct.pack("!QqI", 0x1_0000_0002, 1_000_000, 735),
        Begin(0x1_0000_0002, MICROS_TO_2000 + 1_000_000, 735),
    ),
    (b"C\0" + struct.pack("!QQq", 5, 9, 0), Commit(5, 9, MICROS_TO_2000)),
    (b"O" + struct.pack("!Q", 7) + b"elsewhere\0", Origin("elsewhere")),
    (
        RELATION,
        Relation(
            0x4000, "public", "orders", "d",
            (Column("id", True, 23, -1), Column("price", False, 1700, 0x50006)),
        ),
    ),
    (b"Y\0\0\x40\x01\0mood\0", TypeName(0x4001, "pg_catalog", "mood")),
    (b"I\0\0\0\x07N" + ROW, Insert(7, VALUES)),
    (b"U\0\0\0\x07N" + ROW, Update(7, None, VALUES)),
    (b"U\0\0\0\x07K" + ROW + b"N" + ROW, Update(7, VALUES, VALUES)),
    (b"U\0\0\0\x07O" + ROW + b"N" + ROW, Update(7, VALUES, VALUES)),
    (b"D\0\0\0\x07K" + ROW, Delete(7, VALUES)),
    (b"T\0\0\0\x02\x01\0\0\0\x07\0\0\0\x08", Truncate((7, 8))),
    (b"M\1" + struct.pack("!Q", 0x1_0000_0002) + b"audit\0\0\0\0\x02\0\xff",
     LogicalMessage(True, 0x1_0000_0002, "audit", b"\0\xff")),
]  # fmt: skip


@pytest.mark.parametrize(("data", "message"), MESSAGES, ids=lambda value: type(value).__name__)
def test_a_message_is_parsed_whole(data: bytes, message: Message) -> None:
    assert parse_message(data) == message


@pytest.mark.parametrize("data", [data for data, _ in MESSAGES])
def test_a_message_that_is_cut_off_or_too_long_is_refused(data: bytes) -> None:
    for size in range(len(data)):
        with pytest.raises(ProtocolError):
            parse_message(data[:size])
    with pytest.raises(ProtocolError):
        parse_message(data + b"\0")


@pytest.mark.parametrize(
    "data",
    [
        b"S\0\0\0\x01\x01",  # the stream of an unfinished transaction, which was not asked for
        b"I\0\0\0\x07K" + ROW,
        b"I\0\0\0\x07N\x7f\xff",
        b"I\0\0\0\x07N\xff\xff",
        b"I\0\0\0\x07N\0\x01t\xff\xff\xff\xff",
        b"I\0\0\0\x07N\0\x01t\x7f\xff\xff\xffx",
        b"I\0\0\0\x07N\0\x01bxx",
        b"T\xff\xff\xff\xff\0\0\0\0\x07",
        RELATION.replace(b"orders", b"order\xff"),
        RELATION.replace(b"\0d\0", b"\0x\0"),
    ],
)
def test_a_message_with_an_invalid_part_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_message(data)


def test_frames_carry_messages_and_positions() -> None:
    assert parse_frame(b"w" + struct.pack("!QQq", 3, 4, 5) + b"payload") == WalData(3, b"payload")
    assert parse_frame(b"k" + struct.pack("!QqB", 3, 5, 1)) == Keepalive(3, True)
    assert status_update(9, 8, MICROS_TO_2000 + 1) == b"r" + struct.pack("!QQQqB", 9, 8, 8, 1, 0)
    for data in (b"", b"x", b"w\0", b"k" + struct.pack("!QqB", 3, 5, 1) + b"\0"):
        with pytest.raises(ProtocolError):
            parse_frame(data)
