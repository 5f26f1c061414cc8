"""Each array of each served request, with thousands of elements: the work is divided into turns.

The arrays come from the schemas of the messages, so a new API needs a sample in rigs/large_arrays.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from kcli.protocol.messages import find_coordinator
from kcli.protocol.wire import codec
from kcli.protocol.wire.api import API, ApiKey
from rigs.large_arrays import SAMPLES, Sample, all_arrays, version_with
from rigs.loops import PATIENCE_S, on_a_loop
from rigs.node import RunningNode, connect, create, running
from rigs.turn_counter import CALLS_PER_TURN_MAX, TurnCounter

PARTS = 20_000

OFTEN = (
    ApiKey.PRODUCE,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.ALTER_CLIENT_QUOTAS,
    ApiKey.ELECT_LEADERS,
    ApiKey.DESCRIBE_QUORUM,
)
"""The requests whose first sample is sent in each run. All other samples are sent only in `make full`."""


def test_each_array_of_each_served_request_has_a_sample() -> None:
    assert all_arrays() == {(sample.key, path) for sample in SAMPLES for path in sample.paths()}


def rows() -> Sequence[object]:
    seen: set[ApiKey] = set()
    found = []
    for number, sample in enumerate(SAMPLES):
        is_often = sample.key in OFTEN and sample.key not in seen
        seen.add(sample.key)
        name = f"{sample.key.name}-{number}"
        found.append(pytest.param(sample, id=name, marks=() if is_often else pytest.mark.full))
    return found


@pytest.mark.parametrize("sample", rows())
@on_a_loop
async def test_a_large_array_is_served_in_turns(tmp_path: Path, sample: Sample) -> None:
    busiest = {}
    async with running(tmp_path, transaction_state_log_replication_factor="1") as node:
        await prepare(node)
        for path in sample.paths():
            if path not in sample.undivided:
                await asyncio.wait_for(ask(node, sample, path, 1), PATIENCE_S)  # fills the caches
                busiest[path] = await ask(node, sample, path, PARTS)
    assert {path: calls for path, calls in busiest.items() if calls > CALLS_PER_TURN_MAX} == {}


async def prepare(node: RunningNode) -> None:
    """Makes a topic, and the coordinators of the groups and of the transactions."""
    client = await connect(node)
    await create(client, "t0")
    for key_type in (0, 1):
        request = find_coordinator.FindCoordinatorRequest(
            key_type=key_type, coordinator_keys=("g0", "x0", "j0", "names", "owned")
        )
        await client.call(request, ApiKey.FIND_COORDINATOR, 4)


async def ask(node: RunningNode, sample: Sample, path: str, parts: int) -> int:
    """Sends the request and reads its answer. Returns the most calls in one turn."""
    message = sample.large(path, parts)
    version = version_with(message, sample.key, path)
    frame = codec.encode_request(message, sample.key, version, 5, "large")
    listener = "PLAINTEXT" if API[sample.key].on_broker else "CONTROLLER"
    reader, writer = await asyncio.open_connection("127.0.0.1", node.port(listener))
    try:
        with TurnCounter() as counter:
            writer.write(frame)
            # The answer is not decoded, because the client shares the loop with the node.
            size = int.from_bytes(await asyncio.wait_for(reader.readexactly(4), PATIENCE_S))
            await asyncio.wait_for(reader.readexactly(size), PATIENCE_S)
    finally:
        writer.close()
    return counter.calls_in_one_turn
