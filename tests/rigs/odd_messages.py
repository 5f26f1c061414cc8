"""Makes messages of every API that are well-formed but have senseless values."""

from __future__ import annotations

import dataclasses
import random
import struct
import types
import typing
import uuid
from enum import Enum
from typing import Any

from kcli.protocol.wire import codec
from kcli.protocol.wire.api import ApiKey

NAMES = ("", "t", "__consumer_offsets", "nope", "a b", "x" * 300, "é", "..", "1", "-1", "PLAINTEXT")
NUMBERS = (-2, -1, 0, 1, 2, 5, 100)
SLEEPY = ("timeout_ms", "max_wait_ms", "rebalance_timeout_ms", "session_timeout_ms")


def odd(hint: Any, chance: random.Random, name: str = "") -> Any:
    """A value of the type of a message field. Most values are unusual."""
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        kinds = [kind for kind in typing.get_args(hint) if kind is not type(None)]
        return None if chance.random() < 0.3 else odd(kinds[0], chance, name)
    if typing.get_origin(hint) is tuple:
        return tuple(odd(typing.get_args(hint)[0], chance) for _ in range(chance.choice((0, 1, 1, 2))))
    if dataclasses.is_dataclass(hint):
        hints = typing.get_type_hints(hint)
        make: Any = hint
        return make(
            **{field.name: odd(hints[field.name], chance, field.name) for field in dataclasses.fields(hint)}
        )
    if isinstance(hint, type) and issubclass(hint, Enum):
        return chance.choice(list(hint))
    if hint is bool:
        return chance.random() < 0.5
    if hint is int:
        if name == "acks":
            return chance.choice((-1, 1, 2))  # not 0, because a request with acks=0 has no answer
        return chance.choice((0, 1, 20)) if name in SLEEPY else chance.choice(NUMBERS)
    if hint is float:
        return chance.choice((0.0, -1.5, 1e9))
    if hint is str:
        return chance.choice(NAMES)
    if hint is bytes:
        return chance.randbytes(chance.choice((0, 3, 80)))
    assert hint is uuid.UUID, hint
    return uuid.UUID(int=chance.choice((1, 2**100, 2**127 + 5)))


def encoded(key: ApiKey, version: int, chance: random.Random) -> bytes:
    """The frame of an unusual request. If the version cannot express a value, such as a null, another request is
    made."""
    while True:
        message = odd(codec.message_class(key, "request"), chance)
        try:
            return codec.encode_request(message, key, version, 5, "odd")
        except (AttributeError, TypeError, ValueError, OverflowError, struct.error):
            continue
