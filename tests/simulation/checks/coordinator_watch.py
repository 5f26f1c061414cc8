"""Watches when the coordinators of a simulated cluster begin to serve.

A shard is the state of a coordinator for one partition of its topic. A shard may serve only after all records from
which it was loaded are committed. Otherwise an answer could depend on records that the next leader does not have.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from kcli.model.ids import Offset
from kcli.server.coordinators.groups import GroupRunner
from kcli.server.coordinators.transactions import TransactionRunner
from kcli.server.partitions.leader_partition import LeaderPartition
from kcli.server.roles.broker_role import BrokerRole

Runner = GroupRunner | TransactionRunner


class CoordinatorWatch:
    """Stores the log end of each partition when its leader begins to lead, and checks when shards begin to serve. Call
    `check` after every iteration of the event loop in which a broker acted."""

    def __init__(self) -> None:
        self.loads = 0
        """The number of shards that have begun to serve, and were loaded from at least one record."""
        self._first_ends: dict[LeaderPartition, Offset] = {}
        self._serving: set[Runner] = set()

    def check(self, broker: BrokerRole) -> None:
        """Raises AssertionError if a shard began to serve before its log was committed."""
        for leader in broker.replicas:
            if leader not in self._first_ends:
                self._first_ends[leader] = leader.log.log_end_offset
        runners: Iterator[Runner] = chain(broker.groups.shards.loaded(), broker.transactions.shards.loaded())
        for runner in runners:
            if runner not in self._serving:
                self._serving.add(runner)
                self._check_first(runner)

    def _check_first(self, runner: Runner) -> None:
        leader = runner.partition
        end = self._first_ends.get(leader, 0)
        self.loads += end > 0
        assert leader.log.high_watermark >= end, (
            f"The coordinator of {leader} serves, but its log had {end} records when its leadership began, and only "
            f"{leader.log.high_watermark} are committed"
        )
