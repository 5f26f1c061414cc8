"""Errors of handlers over real sockets: each becomes bytes in one place, or closes the connection."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from kcli.errors import ErrorCode, InvalidGroupIdException, ProtocolError, StorageError
from kcli.protocol.messages import describe_log_dirs, init_producer_id, list_offsets
from kcli.protocol.wire.api import ApiKey
from kcli.server.requests.context import RequestContext
from rigs.data_path import BrokerRig, topic_image


class Failing:
    """A handler that raises the given error."""

    def __init__(self, error: Any, *, later: bool) -> None:
        self.error = error
        self.later = later

    def __call__(
        self,
        _context: RequestContext,
        _request: describe_log_dirs.DescribeLogDirsRequest | init_producer_id.InitProducerIdRequest,
    ) -> Any:
        if not self.later:
            raise self.error

        async def fail() -> None:
            await asyncio.sleep(0)
            raise self.error

        return fail()


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize(
    ("error", "code", "logged"),
    [
        (InvalidGroupIdException(), ErrorCode.INVALID_GROUP_ID, False),
        (StorageError("disk is gone"), ErrorCode.KAFKA_STORAGE_ERROR, True),
        (ZeroDivisionError("bug"), ErrorCode.UNKNOWN_SERVER_ERROR, True),
    ],
)
def test_an_error_of_a_handler_becomes_its_code_and_a_bug_is_logged(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: InvalidGroupIdException | StorageError | ZeroDivisionError,
    code: ErrorCode,
    logged: bool,
    later: bool,
) -> None:
    async def main() -> None:
        async with BrokerRig(tmp_path, topic_image("t")) as rig:
            client = await rig.connect()
            monkeypatch.setattr("kcli.server.handlers.init_producer_id.handle", Failing(error, later=later))
            request = init_producer_id.InitProducerIdRequest(transactional_id=None)
            response = await client.call(request, ApiKey.INIT_PRODUCER_ID, 4)
            assert response.error_code is code

    with caplog.at_level(logging.ERROR):
        asyncio.run(main())
    assert bool(caplog.records) is logged


def test_an_error_without_a_place_in_the_message_closes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with BrokerRig(tmp_path, topic_image("t")) as rig:
            client = await rig.connect()
            monkeypatch.setattr(
                "kcli.server.handlers.describe_log_dirs.handle", Failing(ProtocolError("no"), later=True)
            )
            client.post(describe_log_dirs.DescribeLogDirsRequest(topics=None), ApiKey.DESCRIBE_LOG_DIRS, 2)
            assert await client.at_end()

    asyncio.run(main())


def test_a_response_that_cannot_be_written_becomes_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with BrokerRig(tmp_path, topic_image("t")) as rig:
            client = await rig.connect()
            broken = init_producer_id.InitProducerIdResponse(producer_id="not a number")

            async def handle(*_: object) -> init_producer_id.InitProducerIdResponse:
                return broken

            monkeypatch.setattr("kcli.server.handlers.init_producer_id.handle", handle)
            request = init_producer_id.InitProducerIdRequest(transactional_id=None)
            response = await client.call(request, ApiKey.INIT_PRODUCER_ID, 4)
            assert response.error_code is ErrorCode.UNKNOWN_SERVER_ERROR

    asyncio.run(main())


def test_a_client_without_an_id_is_served(tmp_path: Path) -> None:
    async def main() -> None:
        async with BrokerRig(tmp_path, topic_image("t")) as rig:
            client = await rig.connect()
            part = list_offsets.ListOffsetsPartition(partition_index=0, timestamp=-1)
            topic = list_offsets.ListOffsetsTopic(name="t", partitions=(part,))
            request = list_offsets.ListOffsetsRequest(replica_id=-1, topics=(topic,))
            for version in range(1, 11):
                response = await client.call(request, ApiKey.LIST_OFFSETS, version, client_id=None)
                assert response.topics[0].partitions[0].offset == 0

    asyncio.run(main())
