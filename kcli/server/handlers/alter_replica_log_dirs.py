"""AlterReplicaLogDirs (key 34, versions 1-2): moves replicas of this broker to other log directories (KIP-113).

The request is answered when the moves have begun. DescribeLogDirs shows their progress. A partition may get these
errors:

- UNKNOWN_TOPIC_OR_PARTITION: the partition does not exist;
- LOG_DIR_NOT_FOUND: the new directory is not one of this broker's log directories;
- KAFKA_STORAGE_ERROR: the new directory or the present directory is offline;
- INVALID_TOPIC_EXCEPTION: the topic name is too long for the name of the directory in which the copy is made;
- REPLICA_NOT_AVAILABLE: the replica is not on this broker. If the replica is created later, it is created in the new
  directory.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kcli.errors import ErrorCode, KafkaError, StorageError
from kcli.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from kcli.server.handlers.ports import BrokerContext
from kcli.server.requests.answers import finished
from kcli.server.requests.turns import REFUSALS_PER_TURN, Steps, next_turn, run_in_turns

PARTITIONS_PER_TURN = 100
"""Partitions that are handled in one iteration of the event loop. A partition takes 10 µs."""


async def handle(context: BrokerContext, request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
    count = 0
    results: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            for number in topic.partitions:
                code = await _alter(context, topic.name, number, directory.path)
                results.setdefault(topic.name, []).append(
                    AlterReplicaLogDirPartitionResult(partition_index=number, error_code=code)
                )
                count += 1
                if count % PARTITIONS_PER_TURN == 0:
                    await next_turn()
    return await finished(run_in_turns(_topics(results), REFUSALS_PER_TURN))


def error_response(
    _context: BrokerContext, request: AlterReplicaLogDirsRequest, error: KafkaError
) -> AlterReplicaLogDirsResponse | Awaitable[AlterReplicaLogDirsResponse]:
    return run_in_turns(_failed(request, error.code), REFUSALS_PER_TURN)


def _failed(request: AlterReplicaLogDirsRequest, code: ErrorCode) -> Steps[AlterReplicaLogDirsResponse]:
    results: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            partitions = results.setdefault(topic.name, [])
            for number in topic.partitions:
                partitions.append(AlterReplicaLogDirPartitionResult(partition_index=number, error_code=code))
                yield
            yield
    return (yield from _topics(results))


async def _alter(context: BrokerContext, topic: str, number: int, path: str) -> ErrorCode:
    try:
        await context.ports.moves.alter(topic, number, path)
    except KafkaError as error:
        return error.code
    except StorageError:
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.NONE


def _topics(
    results: dict[str, list[AlterReplicaLogDirPartitionResult]],
) -> Steps[AlterReplicaLogDirsResponse]:
    topics = []
    for name, partitions in results.items():
        topics.append(AlterReplicaLogDirTopicResult(topic_name=name, partitions=tuple(partitions)))
        yield
    return AlterReplicaLogDirsResponse(results=tuple(topics))
