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

from dataclasses import dataclass

from kcli.errors import ErrorCode, KafkaError, StorageError
from kcli.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from kcli.server.partitions.log_dir_moves import LogDirMoves
from kcli.server.requests.context import REFUSAL_COST, RequestContext

PARTITION_COST = 10


@dataclass(frozen=True, slots=True)
class Ports:
    moves: LogDirMoves


Context = RequestContext[Ports]
Results = dict[str, list[AlterReplicaLogDirPartitionResult]]


async def handle(context: Context, request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
    results: Results = {}
    for directory in request.dirs:
        for topic in directory.topics:
            for number in topic.partitions:
                await context.pace(PARTITION_COST)
                code = await _alter(context, topic.name, number, directory.path)
                results.setdefault(topic.name, []).append(
                    AlterReplicaLogDirPartitionResult(partition_index=number, error_code=code)
                )
    return await _response(context, results)


async def error_response(
    context: Context, request: AlterReplicaLogDirsRequest, error: KafkaError
) -> AlterReplicaLogDirsResponse:
    results: Results = {}
    for directory in request.dirs:
        for topic in directory.topics:
            await context.pace(REFUSAL_COST)
            partitions = results.setdefault(topic.name, [])
            for number in topic.partitions:
                await context.pace(REFUSAL_COST)
                partitions.append(
                    AlterReplicaLogDirPartitionResult(partition_index=number, error_code=error.code)
                )
    return await _response(context, results)


async def _alter(context: Context, topic: str, number: int, path: str) -> ErrorCode:
    try:
        await context.ports.moves.alter(topic, number, path)
    except KafkaError as error:
        return error.code
    except StorageError:
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.NONE


async def _response(context: Context, results: Results) -> AlterReplicaLogDirsResponse:
    topics = []
    for name, partitions in results.items():
        await context.pace(REFUSAL_COST)
        topics.append(AlterReplicaLogDirTopicResult(topic_name=name, partitions=tuple(partitions)))
    return AlterReplicaLogDirsResponse(results=tuple(topics))
