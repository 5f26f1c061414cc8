"""Arithmetic of Java's `int` and `long`, which wraps around. Clients can send any number, so a sum may not fit."""

from __future__ import annotations


def to_long(value: int) -> int:
    """The low 64 bits of a number, with a sign: the result of a `long` operation in Java."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def to_int(value: int) -> int:
    """The low 32 bits of a number, with a sign."""
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)
