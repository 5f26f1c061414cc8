"""Strings of clients that are not UTF-8. As in Kafka, they are read with replacement characters."""

from __future__ import annotations

from pathlib import Path

from kcli.errors import ErrorCode
from kcli.protocol.messages.metadata import MetadataRequest
from kcli.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kcli.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kcli.protocol.wire import codec
from kcli.protocol.wire.api import ApiKey
from kcli.protocol.wire.codec import Message
from rigs.groups import Speaker, running
from rigs.loops import on_a_loop

MARK = "@bytes@"
LATIN = b"M\xfcller\xff"
TEXT = "M\N{REPLACEMENT CHARACTER}ller\N{REPLACEMENT CHARACTER}"


async def call_with_latin(it: Speaker, message: Message, key: ApiKey, version: int) -> Message:
    """Sends a request whose strings MARK, and its client id, are bytes of Latin-1."""
    frame = codec.encode_request(message, key, version, 1, MARK)
    it.client.writer.write(frame.replace(MARK.encode(), LATIN))
    _, answer = await it.client.receive(key, version)
    return answer


@on_a_loop
async def test_a_client_id_in_latin_1_is_answered(tmp_path: Path) -> None:
    async with running(tmp_path) as it:
        for version in range(13):
            answer = await call_with_latin(it, MetadataRequest(topics=()), ApiKey.METADATA, version)
            assert [each.node_id for each in answer.brokers] == [1]


@on_a_loop
async def test_binary_metadata_of_an_offset_is_stored_with_replacements(tmp_path: Path) -> None:
    async with running(tmp_path) as it:
        await it.create("t", 1)
        await it.find()
        for version in range(2, 10):
            committed = OffsetCommitRequestPartition(committed_offset=version, committed_metadata=MARK)
            request = OffsetCommitRequest(
                group_id="g", topics=(OffsetCommitRequestTopic(name="t", partitions=(committed,)),)
            )
            answer = await call_with_latin(it, request, ApiKey.OFFSET_COMMIT, version)
            assert answer.topics[0].partitions[0].error_code is ErrorCode.NONE
            wanted = OffsetFetchRequest(
                group_id="g", topics=(OffsetFetchRequestTopic(name="t", partition_indexes=(0,)),)
            )
            found = (await it.call(ApiKey.OFFSET_FETCH, wanted, 5)).topics[0].partitions[0]
            assert (found.committed_offset, found.metadata) == (version, TEXT)
