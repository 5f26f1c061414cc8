"""Requests to every API and version that make no sense or are not well-formed, sent to a whole node.

The broker answers or closes the connection; it never has an error that it did not expect, and serves the next client.
"""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kcli.protocol.messages import metadata
from kcli.protocol.wire import codec
from kcli.protocol.wire.api import API, ApiKey
from kcli.server.requests.apis import APIS
from rigs.node import running
from rigs.odd_messages import encoded

SEEDS = range(3)
REQUESTS_PER_VERSION = 4


class Odd:
    """Sends one frame on its own connection and says whether there was an answer."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def send(self, frame: bytes) -> bool:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(frame)
            head = await asyncio.wait_for(reader.read(4), 60)
            if len(head) == 4:
                await asyncio.wait_for(reader.readexactly(struct.unpack(">i", head)[0]), 60)
            return bool(head)
        finally:
            writer.close()


async def serve_and(directory: Path, scenario: Callable[..., Any]) -> None:
    async with running(directory, offsets_topic_num_partitions="1", group_min_session_timeout_ms="1") as node:
        client = Odd(node.port())
        await scenario(client)
        request = codec.encode_request(metadata.MetadataRequest(topics=None), ApiKey.METADATA, 12, 1, "x")
        assert await client.send(request), "the next client is served"


def versions() -> list[tuple[ApiKey, int]]:
    return [(key, v) for key in sorted(APIS) for v in range(API[key].min_version, API[key].max_version + 1)]


@pytest.mark.parametrize("seed", SEEDS)
def test_requests_that_make_no_sense(tmp_path: Path, seed: int, caplog: pytest.LogCaptureFixture) -> None:
    chance = random.Random(seed)

    async def scenario(client: Odd) -> None:
        frames = []
        for key, version in versions():
            frames += [encoded(key, version, chance) for _ in range(REQUESTS_PER_VERSION)]
        chance.shuffle(frames)
        for start in range(0, len(frames), 50):
            await asyncio.gather(*(client.send(frame) for frame in frames[start : start + 50]))

    asyncio.run(serve_and(tmp_path, scenario))
    unexpected = [record.getMessage() for record in caplog.records if record.exc_info]
    assert unexpected == []


@pytest.mark.parametrize("seed", SEEDS)
def test_requests_that_are_not_well_formed(
    tmp_path: Path, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    chance = random.Random(seed)

    async def scenario(client: Odd) -> None:
        for key, version in versions():
            whole = encoded(key, version, chance)[4:]
            at = codec.decode_request_header(whole).body_offset
            body = bytearray(whole)
            match chance.randrange(3):
                case 0:
                    body = body[: chance.randrange(at, len(body) + 1)]
                case 1:
                    for _ in range(3):
                        if len(body) > at:
                            body[chance.randrange(at, len(body))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF))
                case _:
                    body = body[:at] + chance.randbytes(chance.randrange(40))
            await client.send(struct.pack(">i", len(body)) + body)

    asyncio.run(serve_and(tmp_path, scenario))
    unexpected = [record.getMessage() for record in caplog.records if record.exc_info]
    assert unexpected == []
