"""The election of preferred leaders: a broker that was restarted leads its partitions again."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from kcli.console.answers import Outcome
from kcli.console.calls import Action, bad_request
from kcli.console.pages.topology import TOPICS_PER_TURN, all_topics
from kcli.console.routes import Change
from kcli.errors import ErrorCode, KafkaError
from kcli.model.amounts import counted
from kcli.model.ids import NO_LEADER
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.messages.metadata import MetadataResponseTopic

SHOWN_MAX = 500
"""The most partitions in the answer to a preview. The summary counts all partitions."""

COMMAND = ("--election-type", "preferred", "--all-topic-partitions")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderChange:
    """A partition that gets another leader. `leader` is None if the partition has no leader now."""

    topic: str
    partition: int
    leader: int | None
    preferred: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderRow:
    """The partitions that a broker leads, before and after the election."""

    broker: int
    before: int
    after: int


@dataclass(slots=True)
class Election:
    """The leaders that change, and the partitions whose preferred replica cannot become their leader."""

    changes: list[LeaderChange] = field(default_factory=list)
    leaders: Counter[int] = field(default_factory=Counter)
    out_of_sync: int = 0

    def add(self, topic: MetadataResponseTopic) -> None:
        for description in topic.partitions:
            leader = None if description.leader_id == NO_LEADER else description.leader_id
            if leader is not None:
                self.leaders[leader] += 1
            if not description.replica_nodes or leader == (preferred := description.replica_nodes[0]):
                continue
            if preferred in description.isr_nodes:
                partition = description.partition_index
                self.changes.append(
                    LeaderChange(
                        topic=topic.name or "", partition=partition, leader=leader, preferred=preferred
                    )
                )
            else:
                self.out_of_sync += 1

    def rows(self) -> list[LeaderRow]:
        after = Counter(self.leaders)
        after.subtract(change.leader for change in self.changes if change.leader is not None)
        after.update(change.preferred for change in self.changes)
        return [
            LeaderRow(broker=broker, before=self.leaders[broker], after=after[broker])
            for broker in sorted(after)
        ]


async def elect_preferred(action: Action) -> Outcome:
    """POST /leaders/elect {}: makes the first replica of each partition its leader, if it is in sync."""
    action.target = "leaders of all partitions"
    election = await _election(action)
    if not action.is_preview:
        await _elect(action, election.changes)
    return Outcome(
        command=action.command("leader-election", *COMMAND),
        summary=_summary(election, is_preview=action.is_preview),
        details={"brokers": election.rows(), "changes": election.changes[:SHOWN_MAX]},
    )


async def _election(action: Action) -> Election:
    election = Election()
    for number, topic in enumerate((await all_topics(action.admin)).topics, 1):
        election.add(topic)
        if number % TOPICS_PER_TURN == 0:
            await asyncio.sleep(0)
    election.changes.sort(key=lambda change: (change.topic, change.partition))
    return election


async def _elect(action: Action, changes: Sequence[LeaderChange]) -> None:
    if not changes:
        return
    partitions = [TopicPartition(change.topic, change.partition) for change in changes]
    errors = {
        partition: error
        for partition, error in (await action.admin.elect_leaders(partitions)).items()
        if error is not None and error.code is not ErrorCode.ELECTION_NOT_NEEDED
    }
    if errors:
        partition, error = min(errors.items(), key=lambda item: item[0])
        raise bad_request(f"{len(errors)} of {len(changes)} elections failed. {partition}: {_text(error)}")


def _text(error: KafkaError) -> str:
    return error.message or error.code.name


def _summary(election: Election, *, is_preview: bool) -> str:
    if not election.changes:
        text = "No leader changes."
    else:
        count = counted(len(election.changes), "partition")
        text = f"The preferred leader {'would lead' if is_preview else 'leads'} {count} again."
    if election.out_of_sync:
        text += (
            f" {counted(election.out_of_sync, 'partition keeps its', 'partitions keep their')} leader, because the "
            "preferred replica is not in sync."
        )
    return text


ROUTES = (Change("/leaders/elect", "elect preferred leaders", elect_preferred),)
