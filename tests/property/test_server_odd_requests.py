"""Requests that are well-formed and make no sense, and such as are not even well-formed: to every API, every version.

The broker answers or closes the connection; it never has an error that it did not expect, and serves the next client.
"""

from __future__ import annotations

import asyncio
import dataclasses
import random
import struct
import types
import typing
import uuid
from enum import Enum

import pytest

from kcli.config.start_up import node_config
from kcli.errors import ProtocolError
from kcli.protocol.messages import metadata
from kcli.protocol.wire import bounds, codec, schema
from kcli.protocol.wire.api import API, ApiKey
from kcli.runtime.clock import SystemClock
from kcli.runtime.disk import SystemDisk
from kcli.runtime.network import SystemNetwork
from kcli.runtime.rng import SystemRng
from kcli.server.handlers.served import SERVED
from kcli.server.node import Node

SEEDS = range(3)
REQUESTS_PER_VERSION = 4
NAMES = ("", "t", "__consumer_offsets", "nope", "a b", "x" * 300, "é", "..", "1", "-1", "PLAINTEXT")
NUMBERS = (-2, -1, 0, 1, 2, 5, 100)
SLEEPY = ("timeout_ms", "max_wait_ms", "rebalance_timeout_ms", "session_timeout_ms")


def odd(hint, chance, name=""):
    """A value of a message field's type, more often strange than not."""
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        kinds = [kind for kind in typing.get_args(hint) if kind is not type(None)]
        return None if chance.random() < 0.3 else odd(kinds[0], chance, name)
    if typing.get_origin(hint) is tuple:
        return tuple(odd(typing.get_args(hint)[0], chance) for _ in range(chance.choice((0, 1, 1, 2))))
    if dataclasses.is_dataclass(hint):
        hints = typing.get_type_hints(hint)
        return hint(
            **{field.name: odd(hints[field.name], chance, field.name) for field in dataclasses.fields(hint)}
        )
    if isinstance(hint, type) and issubclass(hint, Enum):
        return chance.choice(list(hint))
    if hint is bool:
        return chance.random() < 0.5
    if hint is int:
        if name == "acks":
            return chance.choice((-1, 1, 2))  # acks=0 is answered by silence
        return chance.choice((0, 1, 20)) if name in SLEEPY else chance.choice(NUMBERS)
    if hint is float:
        return chance.choice((0.0, -1.5, 1e9))
    if hint is str:
        return chance.choice(NAMES)
    if hint is bytes:
        return chance.randbytes(chance.choice((0, 3, 80)))
    assert hint is uuid.UUID, hint
    return uuid.UUID(int=chance.choice((1, 2**100, 2**127 + 5)))


def encoded(key, version, chance):
    """An odd request's frame; what one version cannot say (a null, a negative) is left to another try."""
    while True:
        message = odd(codec.message_class(key, "request"), chance)
        try:
            return codec.encode_request(message, key, version, 5, "odd")
        except (TypeError, ValueError, OverflowError, struct.error):
            continue


class Odd:
    """Sends one frame on a connection of its own and says whether there was an answer."""

    def __init__(self, port):
        self.port = port

    async def send(self, frame):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(frame)
            head = await asyncio.wait_for(reader.read(4), 60)
            if len(head) == 4:
                await asyncio.wait_for(reader.readexactly(struct.unpack(">i", head)[0]), 60)
            return bool(head)
        finally:
            writer.close()


def config_of(directory):
    return node_config(
        {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
            "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(directory),
            "offsets.topic.num.partitions": "1",
            "offsets.topic.replication.factor": "1",
            "group.min.session.timeout.ms": "1",
            "group.initial.rebalance.delay.ms": "0",
        },
        {},
    )


@pytest.mark.parametrize("key", list(API), ids=lambda key: key.name)
def test_the_walk_over_a_message_ends_where_the_message_ends(key):
    chance = random.Random(int(key))
    spec = API[key]
    for kind in schema.KINDS:
        for version in {spec.min_version, spec.max_version, *schema.versions(spec)}:
            cls = schema.payload_class(spec, version, kind)
            hint = codec.message_class(key, kind)
            for _ in range(8):
                try:
                    body = codec._encode(odd(hint, chance), spec, version, kind)
                except (TypeError, ValueError, OverflowError, AttributeError, struct.error, KeyError):
                    continue  # this version cannot say that
                try:
                    assert bounds.walk_of(cls)(body, 0) == len(body)
                except ProtocolError as error:
                    assert "null is not allowed" in str(error), "kio writes some nulls that it should not"


def test_a_count_of_two_billion_does_not_end_the_process():
    head = codec.encode_request(metadata.MetadataRequest(topics=()), ApiKey.METADATA, 1, 1, None)[4:-4]
    with pytest.raises(ProtocolError, match="array of 2147483647 elements"):
        codec.decode_request(ApiKey.METADATA, 1, head + b"\x7f\xff\xff\xff", len(head))


async def serve_and(directory, scenario):
    node = Node(
        config_of(directory),
        clock=SystemClock(),
        disk=SystemDisk(),
        network=SystemNetwork(),
        rng=SystemRng(1),
    )
    await node.start()
    port = node.sockets.listeners["PLAINTEXT"].port
    try:
        await scenario(Odd(port))
        request = codec.encode_request(metadata.MetadataRequest(topics=None), ApiKey.METADATA, 12, 1, "x")
        assert await Odd(port).send(request), "the next client is served"
    finally:
        await node.stop()


def versions():
    return [(key, v) for key in sorted(SERVED) for v in range(API[key].min_version, API[key].max_version + 1)]


@pytest.mark.parametrize("seed", SEEDS)
def test_requests_that_make_no_sense(tmp_path, seed, caplog):
    chance = random.Random(seed)

    async def scenario(client):
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
def test_requests_that_are_not_well_formed(tmp_path, seed, caplog):
    chance = random.Random(seed)

    async def scenario(client):
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
