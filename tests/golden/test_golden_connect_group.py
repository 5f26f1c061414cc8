"""The group protocol of Java's Connect: the bytes, and what its leaders decided from the metadata of their members."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence

from kcli.client.group.protocol import Generation
from kcli.client.group.requests import GroupSettings
from kcli.connect.decisions import config_records as records
from kcli.connect.decisions import protocol
from kcli.connect.decisions.assignment import IncrementalAssignor, Shares, share_eagerly
from kcli.connect.decisions.config_records import ConfigRecords
from kcli.connect.decisions.config_state import ConfigState, SessionKey
from kcli.connect.decisions.json_values import Entry
from kcli.connect.decisions.leader import Leader
from kcli.connect.herders.group import GroupAssignment
from kcli.connect.herders.membership import WorkerGroup, WorkerProtocol
from kcli.connect.model import TargetState, TaskId
from kcli.connect.stores.configs import Configs
from kcli.connect.stores.log import MemoryLog
from rigs import golden3
from rigs.connect_frames import Json, exchanges, raw, stories
from rigs.connect_stores import NoListener
from rigs.loops import on_a_loop

BYTES_MIN = 1_000
DECISIONS_MIN = 90
JOINS_MIN = 150
"""What the recording has at least."""

DEFAULT_DELAY_MS = 300_000

KNOWN_DIFFERENCES: dict[str, str] = {}
"""Decisions, by story and generation, that are not as good as any choice of ours, with the reason."""


def frames() -> Iterator[tuple[Json, Json]]:
    """Each frame with its step."""
    for step in golden3.steps(golden3.recording("connect/group.jsonl")):
        for frame in step["frames"]:
            yield step, frame


def test_every_metadata_and_assignment_is_written_byte_for_byte() -> None:
    count = 0
    for _, frame in frames():
        body = frame["body"]
        for each in (*body.get("protocols", ()), *body.get("members", ())):
            if "metadata" in each:
                embedded = raw(each["metadata"])
                version = each["decoded"]["version"]
                state = protocol.decode_metadata(embedded)
                assert protocol.encode_metadata(state, version) == embedded
                assert state.config_offset == each["decoded"]["config_offset"]
                count += 1
        for each in (*body.get("assignments", ()), body):
            if each.get("assignment"):
                embedded = raw(each["assignment"])
                assignment = protocol.decode_assignment(embedded)
                assert protocol.encode_assignment(assignment, assignment.version) == embedded
                assert assignment.assigned == work(each["decoded"]["assigned"])
                count += 1
    assert count >= BYTES_MIN


def work(by_connector: Sequence[tuple[str, Sequence[int]]] | None) -> tuple[TaskId, ...]:
    return tuple(TaskId(name, number) for name, numbers in by_connector or () for number in numbers)


class ConfigTopic:
    """The config topic of a story, as far as the actions of its steps tell."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._configs: dict[str, dict[str, str]] = {}
        self._has_session_key = False

    def happen(self, action: Json) -> None:
        if action.get("do") != "http" or action["method"] == "GET":
            return
        body = json.loads(action.get("request_body") or "{}")
        name = body["name"] if action["path"] == "/connectors" else action["path"].split("/")[2]
        match action["method"]:
            case "POST" | "PATCH":
                config = self._configs.setdefault(name, {})
                config.update(body.get("config", body))
                count = int(config.get("tasks.max", "1"))
                self._entries.append(records.connector_entry(name, config))
                self._entries += [records.task_entry(TaskId(name, number), {}) for number in range(count)]
                self._entries.append(records.commit_entry(name, count))
            case "DELETE":
                self._entries.append(records.connector_entry(name, None))
                self._entries.append(records.target_state_entry(name, None))
            case "PUT":
                self._entries.append(records.target_state_entry(name, TargetState.PAUSED))

    def signed(self, offset: int) -> None:
        """The first leader under the protocol `sessioned` writes a key, at the end of what it has read."""
        if not self._has_session_key:
            self._has_session_key = True
            key = records.session_key_entry(SessionKey(b"", "", 0))
            self._entries.insert(max(offset, 0), key)

    def at(self, offset: int) -> ConfigState:
        replayed = ConfigRecords()
        for number, (key, value) in enumerate(self._entries[: max(offset, 0)]):
            replayed.replay(number, key, value)
        assert replayed.state.offset == offset
        return replayed.state


class Story:
    """The leaders of one story, and what they know."""

    def __init__(self, delay_ms: int) -> None:
        self.configs = ConfigTopic()
        self._delay_ms = delay_ms
        self._leaders: dict[str, IncrementalAssignor] = {}
        self._now_ms = 1
        self._ends_ms = 0
        """The end of the scheduled delay, or 0."""
        self.last_generations: dict[str, int] = {}

    def matches(self, joined: Json, synced: Json) -> bool:
        """Whether our assignor decides the same for some order of the members, on which Java's choices depend."""
        members = joined["members"]
        offset = max(member["decoded"]["config_offset"] for member in members)
        if joined["protocolName"] == protocol.SESSIONED:
            self.configs.signed(offset)
        state = self.configs.at(offset)
        expected = {
            each["memberId"]: (
                set(work(each["decoded"]["assigned"])),
                set(work(each["decoded"].get("revoked"))),
                each["decoded"].get("delay") or 0,
            )
            for each in synced["assignments"]
        }
        if joined["protocolName"] == protocol.EAGER:
            orders = itertools.permutations(expected)
            return any(_decided(share_eagerly(order, state)) == expected for order in orders)
        return self._matches_incrementally(members, state, synced, expected)

    def _matches_incrementally(
        self, members: Sequence[Json], state: ConfigState, synced: Json, expected: Mapping[str, object]
    ) -> bool:
        leader, generation = synced["memberId"], synced["generationId"]
        delay_ms = synced["assignments"][0]["decoded"]["delay"]
        # The recording has no times, but the rest of a delay shows how much time has passed.
        self._now_ms = max(self._now_ms, self._ends_ms - delay_ms)
        self._ends_ms = self._now_ms + delay_ms if delay_ms else 0
        before = self._leaders.setdefault(leader, IncrementalAssignor(self._delay_ms))
        for order in itertools.permutations(members):
            assignor = self._leaders[leader] = copy.deepcopy(before)
            shares = assignor.step(
                {member["memberId"]: _allocation(member) for member in order},
                state,
                self._now_ms,
                generation=generation,
                last_generation=self.last_generations.get(leader, -1),
            )
            if _decided(shares) == expected:
                return True
        return False


def _allocation(member: Json) -> tuple[TaskId, ...]:
    return work((member["decoded"].get("allocation") or {}).get("assigned"))


def _decided(shares: Shares) -> Mapping[str, object]:
    return {
        member: (set(share.assigned), set(share.revoked), shares.delay_ms)
        for member, share in shares.members.items()
    }


def test_leaders_decide_as_java_does() -> None:
    path = golden3.recording("connect/group-stories.jsonl")
    settings = {line["story"]: line["worker_config_extra"] for line in golden3.steps(path)}
    joined = _joined_groups()
    stories: dict[str, Story] = {}
    differences: dict[str, str] = {}
    count = 0
    for step in golden3.steps(golden3.recording("connect/group.jsonl")):
        name = step["story"]
        delay = settings[name].get("scheduled.rebalance.max.delay.ms", DEFAULT_DELAY_MS)
        story = stories.setdefault(name, Story(int(delay)))
        for action in step["actions"]:
            story.configs.happen(action)
        for body in (frame["body"] for frame in step["frames"] if _is_sync(frame)):
            group = joined.get((name, body["generationId"]))
            if body["assignments"] and group is not None:
                count += 1
                if not story.matches(group, body):
                    differences[f"{name}/{body['generationId']}"] = json.dumps(body["assignments"])
            story.last_generations[body["memberId"]] = body["generationId"]
    assert count >= DECISIONS_MIN
    golden3.check_differences(differences, KNOWN_DIFFERENCES)


def _is_sync(frame: Json) -> bool:
    return bool(frame["api"] == "SyncGroup" and frame["dir"] == "request")


def _joined_groups() -> dict[tuple[str, int], Json]:
    """The answers to JoinGroup that have the metadata of all members, by story and generation."""
    return {
        (step["story"], frame["body"]["generationId"]): frame["body"]
        for step, frame in frames()
        if frame["api"] == "JoinGroup" and frame["dir"] == "response" and frame["body"]["members"]
    }


class Worker:
    """A worker of ours in the place of one Java worker."""

    def __init__(self, url: str, offered: str) -> None:
        self.log = MemoryLog()
        self.configs = Configs(self.log)
        settings = WorkerGroup(group=GroupSettings(group_id="g"), url=url, protocol=offered)
        self.protocol = WorkerProtocol(
            settings, self.configs, Leader(IncrementalAssignor(0)), self, lambda: 0
        )

    async def assigned(self, assignment: GroupAssignment, generation: int) -> None:
        return

    def lease(self, end_s: float) -> None: ...

    async def revoked(self, connectors: Sequence[str], tasks: Sequence[TaskId]) -> None:
        return

    async def join(self, body: Json, offset: int) -> list[tuple[str, object]]:
        """What the worker sends in a JoinGroup, when it has read the config topic up to an offset."""
        await self.protocol.revoked(everything=False)
        while self.configs.state.offset < offset:
            self.log.send(records.logger_entry("any", "INFO"))
        return [(name, _comparable(metadata)) for name, metadata in self.protocol.metadata()]


def _comparable(metadata: bytes) -> object:
    """The fields of metadata. The order of the work means nothing. Java may send work that is revoked already."""
    state = protocol.decode_metadata(metadata)
    claim = state.assignment
    if claim is None:
        return state
    return (
        state.url,
        state.config_offset,
        set(claim.assigned),
        (claim.version, claim.error, claim.leader, claim.leader_url, claim.config_offset, claim.delay_ms),
    )


OFFERED = {1: "eager", 2: "compatible", 3: "sessioned"}
"""The value of connect.protocol by the number of protocols that a worker offers."""


@on_a_loop
async def test_workers_claim_what_java_workers_claim() -> None:
    joins = 0
    for name, frames in stories(golden3.recording("connect/group.jsonl")).items():
        for pairs in exchanges(frames).values():
            joins += await _replay_worker(name, pairs)
    assert joins >= JOINS_MIN


async def _replay_worker(name: str, pairs: Sequence[tuple[Json, Json | None]]) -> int:
    """Compares every JoinGroup of a worker. Returns their number."""
    worker: Worker | None = None
    generation, joins = Generation(), 0
    for frame, answer in pairs:
        body = frame["body"]
        if frame["api"] == "JoinGroup":
            expected = [(each["name"], raw(each["metadata"])) for each in body["protocols"]]
            state = protocol.decode_metadata(expected[0][1])
            if worker is None or not body["memberId"]:
                worker = Worker(state.url, OFFERED[len(expected)])
                await worker.configs.start(NoListener())
            sent = await worker.join(body, state.config_offset)
            assert sent == [(each, _comparable(metadata)) for each, metadata in expected], name
            joins += 1
            if answer is not None and not answer["errorCode"]:
                generation = Generation(answer["generationId"], answer["memberId"], answer["protocolName"])
        elif frame["api"] == "SyncGroup" and answer is not None and not answer["errorCode"]:
            assert worker is not None
            await worker.protocol.assigned(generation, raw(answer["assignment"]))
    return joins
