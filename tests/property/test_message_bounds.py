"""Messages of every API and version against kio's own codec, and frames with impossible lengths."""

from __future__ import annotations

import random
import struct
import types
from collections.abc import Coroutine, Generator
from typing import Any

import pytest

from kcli.errors import ProtocolError
from kcli.model.pace import at_once, no_pause
from kcli.protocol.messages import metadata
from kcli.protocol.wire import codec, compiled, schema
from kcli.protocol.wire.api import API, ApiKey
from rigs.kio_codec import kio_decode, kio_encode
from rigs.odd_messages import odd


@pytest.mark.parametrize("key", list(API), ids=lambda key: key.name)
def test_messages_have_the_bytes_of_kio(key: ApiKey) -> None:
    chance = random.Random(int(key))
    spec = API[key]
    for kind in schema.KINDS:
        for version in spec.versions:
            cls = schema.message_class(spec, kind)
            for _ in range(8):
                message = odd(cls, chance)
                try:
                    # kio writes every absent timestamp as -1, so its first reading is the message to compare.
                    read = kio_decode(spec, version, kind, kio_encode(message, spec, version, kind))
                    expected = kio_encode(read, spec, version, kind)
                    written = codec.encode_body(read, spec, version, kind)
                except (TypeError, ValueError, OverflowError, AttributeError, struct.error, KeyError):
                    continue  # this version cannot say that
                assert written == expected
                assert at_once(compiled.read(cls, spec, version, expected, 0, no_pause)) == (
                    read,
                    len(expected),
                )


@pytest.mark.parametrize("key", list(API), ids=lambda key: key.name)
def test_a_message_that_pauses_often_is_read_and_written_the_same(key: ApiKey) -> None:
    chance = random.Random(int(key))
    spec = API[key]
    for kind in schema.KINDS:
        cls = schema.message_class(spec, kind)
        for _ in range(8):
            message = odd(cls, chance)
            try:
                plain = codec.encode_body(message, spec, spec.max_version, kind)
                read = at_once(compiled.read(cls, spec, spec.max_version, plain, 0, no_pause))
            except (AttributeError, TypeError, ProtocolError, struct.error):
                continue
            out = bytearray()
            _paused(compiled.write(cls, spec, spec.max_version, message, out, _pause))
            assert out == plain
            assert _paused(compiled.read(cls, spec, spec.max_version, plain, 0, _pause)) == read


def test_a_count_of_two_billion_does_not_end_the_process() -> None:
    head = codec.encode_request(metadata.MetadataRequest(topics=()), ApiKey.METADATA, 1, 1, None)[4:-4]
    with pytest.raises(ProtocolError, match="array of 2147483647 elements"):
        codec.decode_request(ApiKey.METADATA, 1, head + b"\x7f\xff\xff\xff", len(head))


@types.coroutine
def _pause(_cost: int) -> Generator[None, None, None]:
    yield


def _paused(work: Coroutine[Any, Any, object]) -> object:
    while True:
        try:
            work.send(None)
        except StopIteration as end:
            return end.value
