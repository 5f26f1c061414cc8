"""One membership without a network, for stories: tests/scenario/membership_*.txt. A story plays the coordinator and the
callbacks. Commands:

    config key=value …                          settings of the member, before anything else
    start                                       the member begins to join
    +ms                                         time passes, deadline by deadline
    found | not-found CODE                      the look-up of the coordinator ends
    joined gen=1 id=a leader=a [members=a,b type=toy name=old skip=yes]   the answer to JoinGroup
    joined CODE [id=a]
    synced TEXT [type=toy name=old] | synced CODE      the answer to SyncGroup, with the assignment
    beat CODE | left CODE                       the answers to Heartbeat and LeaveGroup
    fails join|sync|beat|leave [CODE]           a request gets no answer
    late join|sync|beat CODE …                  an answer to the request before the last of its kind
    made a=TEXT b=TEXT                          the leader has made assignments
    taken [again] | given-up                    a callback ends; `again`: the member must join again
    rejoin REASON | leave REASON [static]       the caller's wishes
    show
    silence                                     how long the coordinator has been silent
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from kcli.client.group.actions import (
    API_KEYS,
    Action,
    Assign,
    End,
    Find,
    Lose,
    Request,
    Response,
    Revoke,
    Send,
    Take,
)
from kcli.client.group.membership import Membership
from kcli.client.group.protocol import Generation, JoinedMember
from kcli.client.group.requests import GroupSettings
from kcli.errors import ErrorCode, KafkaError, error_for
from kcli.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kcli.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from kcli.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kcli.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from rigs.scenarios import Commands, pairs

KINDS: dict[str, type[Request]] = {
    "join": JoinGroupRequest,
    "sync": SyncGroupRequest,
    "beat": HeartbeatRequest,
    "leave": LeaveGroupRequest,
}


class ToyProtocol:
    """A protocol type whose metadata and assignments are short texts. The world plays the coroutines."""

    protocol_type = "toy"

    def __init__(self) -> None:
        self.joins = 0

    def metadata(self) -> Sequence[tuple[str, bytes]]:
        self.joins += 1
        return [("new", b"new-%d" % self.joins), ("old", b"old-%d" % self.joins)]

    async def assign(self, leader: Generation, members: Sequence[JoinedMember]) -> Mapping[str, bytes]:
        raise AssertionError("the world makes the assignments")

    async def assigned(self, generation: Generation, assignment: bytes) -> bool:
        raise AssertionError("the world takes the assignment")

    async def revoked(self, *, everything: bool) -> None:
        raise AssertionError("the world gives up the assignment")

    async def lost(self) -> None:
        raise AssertionError("the world gives up the assignment")


class NoJitter:
    """Random numbers that leave each back-off as it is."""

    def random(self) -> float:
        return 0.5

    def randrange(self, stop: int) -> int:
        raise AssertionError("a membership needs no integers")

    def uuid(self) -> object:
        raise AssertionError("a membership needs no ids")


class MembershipWorld(Commands):
    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self._settings = GroupSettings(
            group_id="g", session_timeout_ms=10_000, rebalance_timeout_ms=60_000, request_timeout_ms=30_000
        )
        self._sent: dict[str, list[Send]] = {kind: [] for kind in KINDS}
        self._membership = self._new()

    def _new(self) -> Membership:
        return Membership(self._settings, ToyProtocol(), NoJitter())

    def run(self, command: str) -> list[str]:
        """Carries out one command. Returns the actions of the membership."""
        if not command.startswith("+"):
            return super().run(command)
        self.out = []
        end_ms = self.now_ms + int(command[1:])
        while (due_ms := self._membership.next_deadline_ms) is not None and due_ms <= end_ms:
            self.now_ms = max(self.now_ms, due_ms)
            before = len(self.out)
            self._take(self._membership.tick(self.now_ms))
            assert self._membership.next_deadline_ms != due_ms, f"a tick at {due_ms} changes nothing"
            self.out[before:] = [f"[{self.now_ms}] {line}" for line in self.out[before:]]
        self.now_ms = end_ms
        return self.out

    # Commands

    def _do_config(self, words: list[str]) -> None:
        values = {key: int(text) if text.isdigit() else text for key, text in pairs(words).items()}
        self._settings = dataclasses.replace(self._settings, **values)
        self._membership = self._new()

    def _do_start(self, _words: list[str]) -> None:
        self._take(self._membership.start(self.now_ms))

    def _do_found(self, _words: list[str]) -> None:
        self._take(self._membership.found(self.now_ms))

    def _do_not_found(self, words: list[str]) -> None:
        self._take(self._membership.not_found(error_for(ErrorCode[words[0]]), self.now_ms))

    def _do_joined(self, words: list[str]) -> None:
        self._answer("join", -1, words)

    def _do_synced(self, words: list[str]) -> None:
        self._answer("sync", -1, words)

    def _do_beat(self, words: list[str]) -> None:
        self._answer("beat", -1, words)

    def _do_left(self, words: list[str]) -> None:
        self._answer("leave", -1, words)

    def _do_late(self, words: list[str]) -> None:
        self._answer(words[0], -2, words[1:])

    def _do_fails(self, words: list[str]) -> None:
        code = ErrorCode[words[1]] if len(words) > 1 else ErrorCode.NETWORK_EXCEPTION
        self._take(self._membership.failed(self._sent[words[0]][-1], error_for(code), self.now_ms))

    def _do_made(self, words: list[str]) -> None:
        made = {member: text.encode() for member, text in pairs(words).items()}
        self._take(self._membership.made(made, self.now_ms))

    def _do_taken(self, words: list[str]) -> None:
        self._take(self._membership.taken(self.now_ms, must_rejoin="again" in words))

    def _do_given_up(self, _words: list[str]) -> None:
        self._take(self._membership.given_up(self.now_ms))

    def _do_rejoin(self, words: list[str]) -> None:
        self._take(self._membership.rejoin(" ".join(words), self.now_ms))

    def _do_leave(self, words: list[str]) -> None:
        reason = " ".join(word for word in words if word != "static")
        self._take(self._membership.leave(reason, self.now_ms, removes_static="static" in words))

    def _do_show(self, _words: list[str]) -> None:
        member = self._membership
        leads = ", leads" if member.is_leader else ""
        self.out.append(f"{member.state.name}, generation {member.generation.id}{leads}")

    def _do_silence(self, _words: list[str]) -> None:
        since_ms = self._membership.silent_since_ms
        self.out.append("none" if since_ms is None else f"{self.now_ms - since_ms} ms")

    # Answers and actions

    def _answer(self, kind: str, nth: int, words: list[str]) -> None:
        code = ErrorCode[words[0]] if words and words[0] in ErrorCode.__members__ else ErrorCode.NONE
        response = _response(kind, code, words)
        self._take(self._membership.answered(self._sent[kind][nth], response, self.now_ms))

    def _take(self, actions: Sequence[Action]) -> None:
        for action in actions:
            self.out.append(_shown(action))
            if isinstance(action, Send):
                (kind,) = (name for name, cls in KINDS.items() if isinstance(action.request, cls))
                self._sent[kind].append(action)


def _response(kind: str, code: ErrorCode, words: list[str]) -> Response:
    fields = pairs(words)
    match kind:
        case "join":
            leads = fields.get("leader") == fields.get("id")
            members = fields.get("members", fields.get("id", "")).split(",") if leads else []
            return JoinGroupResponse(
                error_code=code,
                generation_id=int(fields.get("gen", "-1")),
                member_id=fields.get("id", ""),
                leader=fields.get("leader", ""),
                protocol_type=fields.get("type", "toy"),
                protocol_name=fields.get("name", "old"),
                skip_assignment="skip" in fields,
                members=tuple(
                    JoinGroupResponseMember(member_id=name, metadata=name.encode()) for name in members
                ),
            )
        case "sync":
            text = "" if code is not ErrorCode.NONE or not words else words[0]
            return SyncGroupResponse(
                error_code=code,
                protocol_type=fields.get("type", "toy"),
                protocol_name=fields.get("name", "old"),
                assignment=text.encode(),
            )
        case "beat":
            return HeartbeatResponse(error_code=code)
        case _:
            return LeaveGroupResponse(error_code=code)


def _shown(action: Action) -> str:
    match action:
        case Find():
            return "find the coordinator"
        case Send(request, timeout_ms):
            shown = [f"send {API_KEYS[type(request)].name}", *_fields(request)]
            return f"{' '.join(shown)} within {timeout_ms}"
        case Assign(generation, members):
            names = " ".join(f"{each.member_id}:{each.metadata.decode()}" for each in members)
            return f"assign in generation {generation.id} by {generation.protocol_name} to {names}"
        case Take(generation, assignment):
            return f"take '{assignment.decode()}' of generation {generation.id}"
        case Revoke(everything):
            return f"revoke{' everything' if everything else ''}"
        case Lose():
            return "lose"
        case End(error):
            assert error is None or isinstance(error, KafkaError), error
            return f"end{'' if error is None else f' {error.code.name}: {error}'}"


def _fields(request: Request) -> list[str]:
    """The fields of a request that differ between two requests of a member."""
    match request:
        case JoinGroupRequest():
            offers = ",".join(f"{each.name}:{each.metadata.decode()}" for each in request.protocols)
            reason = f" reason='{request.reason}'" if request.reason else ""
            return [f"member='{request.member_id}' offers={offers}{reason}"]
        case SyncGroupRequest():
            made = [f"{each.member_id}:{each.assignment.decode()}" for each in request.assignments]
            return [f"generation={request.generation_id} member='{request.member_id}'", *made]
        case HeartbeatRequest():
            return [f"generation={request.generation_id} member='{request.member_id}'"]
        case LeaveGroupRequest():
            (member,) = request.members
            return [f"member='{member.member_id}' reason='{member.reason}'"]
