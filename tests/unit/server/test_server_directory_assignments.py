"""Reports of log directories: a start with many partitions gives other work its turns."""

from __future__ import annotations

import asyncio
import uuid
from types import SimpleNamespace
from typing import Any, cast

from kcli.metadata.image import MetadataImage
from kcli.server.partitions.directory_assignments import PARTITIONS_PER_TURN, DirectoryAssignments

DIRECTORY = uuid.UUID(int=1 << 100)
TOPIC_ID = uuid.UUID(int=7)
TURNS = 4


def image_of(partitions: int) -> MetadataImage:
    unreported = SimpleNamespace(replicas=(1,), directory=lambda _node: uuid.UUID(int=0))
    topic = SimpleNamespace(
        name="t", topic_id=TOPIC_ID, partitions=dict.fromkeys(range(partitions), unreported)
    )
    return cast("MetadataImage", SimpleNamespace(topics=(topic,)))


def test_a_start_considers_its_partitions_in_slices_and_reports_all() -> None:
    asyncio.run(_considered_in_slices())


async def _considered_in_slices() -> None:
    sent: list[Any] = []

    async def send(_api: object, request: Any) -> None:
        sent.extend(request.directories[0].topics[0].partitions)

    log = SimpleNamespace(directory=SimpleNamespace(id=DIRECTORY))
    assignments = DirectoryAssignments(
        1,
        cast("Any", SimpleNamespace(send=send)),
        cast("Any", None),
        cast("Any", SimpleNamespace(get=lambda _topic, _partition: log)),
        lambda: 5,
    )
    loading = asyncio.ensure_future(assignments.load(image_of(TURNS * PARTITIONS_PER_TURN)))
    turns = 0
    while not loading.done():
        turns += 1
        await asyncio.sleep(0)
    await asyncio.sleep(0.01)
    await assignments.stop()
    assert turns > TURNS
    assert [each.partition_index for each in sent] == list(range(TURNS * PARTITIONS_PER_TURN))
