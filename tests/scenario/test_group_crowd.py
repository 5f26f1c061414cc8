"""Random clients of two groups send requests of both protocols: sensible, stale and wrong ones.

Meanwhile topics come and go, a broken assignor makes invalid assignments, and writes wait, fail or get lost. A failure
prints its requests so far as a scenario.

The groups stay sound after every command: of a consumer group no partition has two owners, nor two who should have it,
nor one that does not exist; a classic group counts right. No request is answered twice, and in the end each has an
answer. A coordinator that reads the log finds the same groups and offsets.
"""

from __future__ import annotations

import os
import random
import re
from enum import StrEnum
from typing import Any

import pytest

from kcli.coordinator.group.classic.group import ClassicGroup, GroupState
from kcli.coordinator.group.classic.rebalance import ClassicTimer
from kcli.coordinator.group.consumer.state.group import ConsumerGroup
from kcli.coordinator.group.consumer.state.sessions import ConsumerTimer
from rigs.answers import answers
from rigs.group_world import GroupWorld

SEEDS = int(os.environ.get("KCLI_SIM_SEEDS", "30"))
COMMANDS = 400
GROUPS, TOPICS, INSTANCES = ("g", "h"), ("t", "u", "v"), ("one", "two")
_ANSWER = re.compile(r"(?:\[\d+\] )?(x\d+) (?:<-|fails|refused)")


class Crowd:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.world = GroupWorld()
        self.story: list[str] = []
        self.asked: set[str] = set()
        self.run(f"config initial_rebalance_delay_ms={self.one_of(0, 300)} max_size={self.one_of(3, 9)}")
        self.run(
            f"config consumer_max_size={self.one_of(3, 9)} offsets_retention_ms={self.one_of(500, 10**6)}"
        )

    def one_of(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def some(self, choices: tuple[str, ...]) -> list[str]:
        return self.random.sample(choices, self.random.randrange(len(choices) + 1))

    def token(self) -> str:
        token = f"x{len(self.story)}"
        self.asked.add(token)
        return token

    def run(self, command: str) -> None:
        self.story.append(f"> {command}")
        for said in self.world.run(command):
            self.story.append(f"  {said}")
            answered = _ANSWER.match(said)
            if answered is not None:
                assert answered[1] in self.asked, f"{answered[1]} is answered twice"
                self.asked.remove(answered[1])

    # Who says what

    def who(self, group: str) -> tuple[str, int, str]:
        """A member's id, its epoch or generation and its instance; or invented ones."""
        known = self.world.shard._groups.get(group)
        ids = [] if known is None else list(known.members)
        if isinstance(known, ClassicGroup):
            ids += known.pending_joins
        if not ids or self.random.random() < 0.1:
            return self.one_of("m1", "m2", "m3"), self.one_of(-1, 0, 1, 5), self.one_of("", *INSTANCES)
        member_id = self.random.choice(ids)
        member = known.members.get(member_id)
        epoch = known.generation_id if isinstance(known, ClassicGroup) else member.epoch
        instance = None if member is None else getattr(member, "instance_id", None)
        if isinstance(known, ClassicGroup) and member is not None:
            instance = member.group_instance_id
        return member_id, epoch + self.one_of(*[0] * 15, -1, 1), instance or self.one_of(*[""] * 9, "one")

    def speak(self) -> str:
        group = self.one_of(*GROUPS)
        member, epoch, instance = self.who(group)
        of_instance = f" instance={instance}" if instance else ""
        verbs = (self.join, self.join, self.sync, self.beat, self.beat, self.beat, self.leave, self.commit)
        return self.one_of(*verbs)(group, member, epoch, of_instance)

    def join(self, group: str, member: str, epoch: int, instance: str) -> str:
        if self.random.random() < 0.5:
            return self.consumer_beat(group, member, 0, instance)
        who = "" if self.random.random() < 0.4 else f" member={member}"
        subscription = "@" + "+".join(self.some(TOPICS)) if self.random.random() < 0.9 else "odd"
        names = self.one_of("range", "range", "range,sticky", "sticky")
        protocols = ",".join(f"{name}:{subscription}" for name in names.split(","))
        return (
            f"join {self.token()} group={group}{who}{instance} v={self.one_of(0, 3, 4, 9)} rebalance=900 "
            f"session=6000 protocols={protocols} owned={self.partitions()}"
        )

    def partitions(self) -> str:
        """Of topics that may not be there, with numbers that may not be theirs."""
        known = [name for name in self.some(TOPICS) if name in self.world.topics.named.values()]
        return ";".join(
            f"{name}:{self.random.randrange(3)},{self.random.randrange(3, 6)}" for name in known
        ) or ("none")

    def sync(self, group: str, member: str, epoch: int, instance: str) -> str:
        known = self.world.shard._groups.get(group)
        ids = list(known.members) if isinstance(known, ClassicGroup) else []
        chosen = {each: self.partitions() for each in ids}
        given = ",".join(
            f"{each}:={listed.replace(':', '/').replace(',', '+')}"
            for each, listed in chosen.items()
            if listed != "none"
        )
        return f"sync {self.token()} group={group} member={member} gen={epoch}{instance} assign={given}"

    def beat(self, group: str, member: str, epoch: int, instance: str) -> str:
        if isinstance(self.world.shard._groups.get(group), ClassicGroup):
            return f"beat group={group} member={member} gen={epoch}{instance}"
        return self.consumer_beat(group, member, epoch, instance)

    def consumer_beat(self, group: str, member: str, epoch: int, instance: str) -> str:
        said = (
            f" rebalance=900 topics={'+'.join(self.some(TOPICS))}" if not epoch or self.one_of(0, 1) else ""
        )
        regex = f" regex={self.one_of('', '[tu]', '.*')}" if said and self.one_of(0, 1) else ""
        owned = f" owned={self.partitions()}" if epoch > 0 and self.one_of(0, 1) else ""
        assignor = f" assignor={self.one_of('range', 'uniform')}" if self.random.random() < 0.2 else ""
        return f"hb {self.token()} group={group} member={member} epoch={epoch}{instance}{said}{regex}{owned}{assignor}"

    def leave(self, group: str, member: str, epoch: int, instance: str) -> str:
        if isinstance(self.world.shard._groups.get(group), ConsumerGroup) and self.one_of(0, 1):
            return f"hb {self.token()} group={group} member={member} epoch={self.one_of(-1, -2)}{instance}"
        return f"leave {self.token()} group={group} members={member},/one"

    def commit(self, group: str, member: str, epoch: int, instance: str) -> str:
        place = f"{self.one_of(*TOPICS)}-{self.random.randrange(2)}={len(self.story)}"
        who = "" if self.random.random() < 0.2 else f" member={member} gen={epoch}{instance}"
        verb = self.one_of("commit {}", "commit {}", "txn-commit {} producer=7", "txn-commit {} producer=8")
        return f"{verb.format(self.token())} group={group}{who} {place}"

    def trouble(self) -> str:
        match self.random.randrange(9):
            case 0:
                return f"drop {self.one_of(*TOPICS)}"
            case 1 | 2:
                name = self.one_of(*TOPICS)
                known = self.world.topics.topic(name)
                return f"topic {name} {self.random.randrange(1, 4) + (0 if known is None else known.partition_count)}"
            case 3:
                return "hold"
            case 4:
                return f"delete {self.token()} {self.one_of(*GROUPS)}"
            case 5 if self.world._asked:
                return f"resolved group={self.random.choice(list(self.world._asked))}"
            case 6:
                return f"delete-offsets {self.token()} group={self.one_of(*GROUPS)} t-0 u-1"
            case 7:
                return f"end producer={self.one_of(7, 8)} commit={self.one_of('yes', 'no')}"
        return "flush"

    def step(self) -> None:
        match self.random.randrange(10):
            case 0:
                self.run(self.trouble())
            case 1:
                self.run(f"+{self.one_of(0, 50, 50, 1_000, 7_000)}")
            case 2 if self.random.random() < 0.1:
                self.writes_fail()
            case 3 if self.random.random() < 0.1:
                self.fail_over(lost=self.one_of(True, False))
            case _:
                self.run(self.speak())

    def writes_fail(self) -> None:
        """The writes wait to be one batch, so all of them fail. A client with an answer may write again meanwhile."""
        for _ in range(len(self.world._held)):
            self.run("fail NOT_ENOUGH_REPLICAS")

    def fail_over(self, *, lost: bool) -> None:
        """The coordinator moves: waiting clients get NOT_COORDINATOR, and waiting writes may be lost."""
        if lost:
            self.asked -= {token for ready in self.world._held for token, _ in answers(ready)}
            self.world._held.clear()
        self.run("flush")
        self.run("resign")
        assert not self.asked, f"{self.asked} were never answered"
        before = self.facts()
        self.run("restart")
        if not lost:
            after = self.facts()
            assert after == before
        self.run("flush")

    def facts(self) -> list[str]:
        """What is to survive, in no order: of a classic group its members are not."""
        found = []
        for group in GROUPS:
            kind = [
                each
                for each in self.world.run("list")
                if f"group_id={group} " in each and "group_type=consumer" in each
            ]
            if kind:
                found += sorted(self.world.run(f"members group={group}"))
            found += sorted(self.world.run(f"fetch group={group} stable=yes"))
        return found

    # What must hold

    def check(self) -> None:
        deadlines = self.world.shard._timers._deadlines
        for group in self.world.shard._groups.values():
            if isinstance(group, ConsumerGroup):
                self.check_consumer(group)
                kind: StrEnum = ConsumerTimer.SESSION
                silent = list(group.members)
            else:
                self.check_classic(group)
                kind = ClassicTimer.SESSION
                silent = [
                    name
                    for name, each in group.members.items()
                    if not each.join_token and not each.sync_token
                ]
            for member_id in silent:
                assert (kind, group.group_id, member_id) in deadlines, f"{member_id} has no session"

    def check_consumer(self, group: ConsumerGroup) -> None:
        has = [(member.assigned, member.pending_revocation) for member in group.members.values()]
        for kind in ([each for both in has for each in both], list(group.targets.values())):
            owned = [
                (topic_id, number)
                for each in kind
                for topic_id, numbers in each.items()
                for number in numbers
            ]
            assert len(owned) == len(set(owned)), "a partition has two owners"
            for topic_id, number in owned:
                topic = self.world.topics.topic_by_id(topic_id)
                assert topic is None or 0 <= number < topic.partition_count, "a partition that does not exist"
        assert group.targets.keys() <= group.members.keys()
        assert {group.members[each].instance_id for each in group.static_members.values()} == set(
            group.static_members
        )

    def check_classic(self, group: ClassicGroup) -> None:
        waiting = sum(member.join_token is not None for member in group.members.values())
        assert group.awaiting_join_count == waiting
        assert group.pending_syncs.keys() <= group.members.keys()
        assert set(group.static_members.values()) <= group.members.keys()
        assert group.leader_id in group.members if group.members else group.leader_id is None
        assert not group.members or group.state not in (GroupState.EMPTY, GroupState.DEAD)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_groups_stay_sound_in_a_crowd(seed: int) -> None:
    crowd = Crowd(seed)
    try:
        for _ in range(COMMANDS):
            crowd.step()
            crowd.check()
        crowd.fail_over(lost=False)
    except BaseException as failure:
        failure.add_note("\n".join(crowd.story))
        raise
