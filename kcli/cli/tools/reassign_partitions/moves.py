"""Starts and reports moves between the log directories of a broker, for kafka-reassign-partitions (KIP-113)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from kcli.cli.output import Output
from kcli.cli.tools.reassign_partitions.plan import PlanError
from kcli.client.admin.admin import AdminClient
from kcli.client.admin.log_dirs import Replica
from kcli.errors import ErrorCode, KafkaError

# The pause between two attempts, because a broker refuses a directory for a replica that does not exist yet.
RETRY_INTERVAL_S = 0.1


class MoveState(Enum):
    """The state of a move of a replica to a log directory."""

    COMPLETED = "completed"
    ACTIVE = "active"
    CANCELLED = "cancelled"
    MISSING_REPLICA = "missing replica"
    MISSING_LOG_DIR = "missing log dir"


@dataclass(frozen=True, slots=True)
class LogDirMove:
    """One replica: its current directory, its target, and `future`, the directory to which a broker copies the replica
    now."""

    replica: Replica
    state: MoveState
    target: str
    current: str | None = None
    future: str | None = None


async def log_dir_moves(client: AdminClient, targets: Mapping[Replica, str]) -> list[LogDirMove]:
    """Returns the state of the move of each replica, sorted by replica."""
    if not targets:
        return []
    current: dict[Replica, str] = {}
    future: dict[Replica, str] = {}
    log_dirs = await client.describe_log_dirs(sorted({replica.broker for replica in targets}))
    for broker, directories in log_dirs.items():
        if isinstance(directories, KafkaError):
            raise directories
        for directory in directories:
            for entry in directory.replicas:
                replica = Replica(entry.topic, entry.partition, broker)
                (future if entry.is_future else current)[replica] = directory.path
    return [
        LogDirMove(
            replica,
            _state(targets[replica], current.get(replica), future.get(replica)),
            targets[replica],
            current.get(replica),
            future.get(replica),
        )
        for replica in sorted(targets)
    ]


def _state(target: str, current: str | None, future: str | None) -> MoveState:
    if current is None:
        return MoveState.MISSING_REPLICA if future is None else MoveState.MISSING_LOG_DIR
    if future is not None:
        return MoveState.ACTIVE
    return MoveState.COMPLETED if current == target else MoveState.CANCELLED


def move_line(move: LogDirMove) -> str:
    replica = move.replica
    name, broker = f"{replica.topic}-{replica.partition}", replica.broker
    match move.state:
        case MoveState.COMPLETED:
            return f"Reassignment of replica {replica} completed successfully."
        case MoveState.ACTIVE if move.future == move.target:
            return f"Reassignment of replica {replica} is still in progress."
        case MoveState.ACTIVE:
            return (
                f"Partition {name} on broker {broker} is being moved to log dir {move.future} "
                f"instead of {move.target}."
            )
        case MoveState.CANCELLED:
            return (
                f"Partition {name} on broker {broker} is not being moved from log dir {move.current} "
                f"to {move.target}."
            )
        case MoveState.MISSING_LOG_DIR:
            return (
                f"Partition {name} is not found in any live log dir on broker {broker}. "
                "There is likely an offline log directory on the broker."
            )
        case MoveState.MISSING_REPLICA:
            return f"Partition {name} cannot be found in any live log directory on broker {broker}."


async def start_moves(
    client: AdminClient, targets: Mapping[Replica, str], timeout_ms: int, output: Output
) -> dict[Replica, str]:
    """Requests the moves repeatedly until every replica exists or `timeout_ms` has passed.

    Returns the replicas that are still missing, with their targets. Raises PlanError for any other error.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_ms / 1000
    left = dict(targets)
    while True:
        for replica, error in sorted((await client.alter_replica_log_dirs(left)).items()):
            if error is None:
                path = left.pop(replica)
                output.say(
                    f"Successfully started moving log directory to {path} for replica "
                    f"{replica.topic}-{replica.partition} with broker {replica.broker} "
                )
            elif error.code is not ErrorCode.REPLICA_NOT_AVAILABLE:
                raise PlanError(f"Failed to alter dir for {replica}") from error
        if not left or loop.time() >= deadline:
            return left
        await asyncio.sleep(RETRY_INTERVAL_S)
