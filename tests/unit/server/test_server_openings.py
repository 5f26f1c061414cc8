"""The queue of a partition's appends: order, whatever takes how long and whatever fails."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from functools import partial

import pytest

from kcli.config.topic import LogConfig
from kcli.errors import InvalidRecordException
from kcli.model.ids import Offset
from kcli.protocol.batches.batch import Record, encode_batch, read_header
from kcli.server.partitions.openings import TURN_STEPS, AppendQueue, Openings
from kcli.storage.log.log import AppendResult
from kcli.storage.log.validation import CheckedBatch, UnopenedBatch

BATCH = encode_batch([Record(-1, 1_000, b"k", b"v")])
CHECKED = CheckedBatch(BATCH, read_header(BATCH), None)
GARBAGE = UnopenedBatch(BATCH[:61] + b"\x00" * 10, read_header(BATCH), LogConfig(), 1_000, "t-0")
SOUND = UnopenedBatch(BATCH, read_header(BATCH), LogConfig(), 1_000, "t-0")


def test_appends_keep_their_order_and_a_failure_lets_nothing_overtake() -> None:
    async def main() -> None:
        queue = AppendQueue(Openings())
        written: list[int] = []

        def append(nth: int, _checked: CheckedBatch) -> AppendResult:
            written.append(nth)
            return AppendResult(Offset(nth), Offset(nth), -1, Offset(0), 1)

        assert queue.is_empty
        batches = [SOUND, CHECKED, GARBAGE, CHECKED, SOUND, CHECKED]
        tasks = [queue.add(batch, partial(append, nth)) for nth, batch in enumerate(batches)]
        assert not queue.is_empty
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert written == [0, 1, 3, 4, 5]
        assert isinstance(results[2], InvalidRecordException)
        assert queue.is_empty

    asyncio.run(main())


def test_batches_take_turns() -> None:
    """One that takes long does not delay the others to its end."""
    ended: list[str] = []

    def steps(name: str, count: int) -> Generator[None, None, str]:
        for _ in range(count):
            yield
        ended.append(name)
        return name

    async def main() -> list[str]:
        openings = Openings()
        sizes = {"long": 40 * TURN_STEPS, "short": 1, "middle": 3 * TURN_STEPS}
        return await asyncio.gather(*(openings.run(steps(name, count)) for name, count in sizes.items()))

    assert asyncio.run(main()) == ["long", "short", "middle"]
    assert ended == ["short", "middle", "long"]


def test_an_error_of_the_steps_is_raised() -> None:
    def steps() -> Generator[None, None, None]:
        yield
        raise InvalidRecordException("no")

    with pytest.raises(InvalidRecordException, match="no"):
        asyncio.run(Openings().run(steps()))
