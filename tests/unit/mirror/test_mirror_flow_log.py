"""The name of a flow in the log lines of its worker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

import pytest

from kcli.mirror.flow_log import add_names, name_lines


@pytest.fixture(autouse=True)
def names() -> Iterator[None]:
    factory = logging.getLogRecordFactory()
    add_names()
    yield
    logging.setLogRecordFactory(factory)


async def log(client_id: str, name: str, text: str, *arguments: object) -> None:
    """Logs in a task of its own, and in a task that this task starts."""

    async def inner() -> None:
        logging.getLogger(name).warning(text, *arguments)

    name_lines(client_id, "g")
    await asyncio.create_task(inner())


def test_lines_of_two_flows_have_their_own_names(caplog: pytest.LogCaptureFixture) -> None:
    async def both() -> None:
        await asyncio.gather(
            log("A->B", "x", "one %s", 1), log("100%->B", "x", "two %s", 2), log("C", "x", "10% more")
        )
        logging.getLogger("x").warning("outside")

    asyncio.run(both())
    assert caplog.messages == [
        "[Worker clientId=A->B, groupId=g] one 1",
        "[Worker clientId=100%->B, groupId=g] two 2",
        "[Worker clientId=C, groupId=g] 10% more",
        "outside",
    ]


def test_lines_of_mirror_maker_stay_as_they_are(caplog: pytest.LogCaptureFixture) -> None:
    asyncio.run(log("A->B", "org.apache.kafka.connect.mirror.MirrorHerder", "configured for %s", "A->B"))
    assert caplog.messages == ["configured for A->B"]
