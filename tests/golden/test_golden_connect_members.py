"""The requests of Java's Connect workers, and those of a membership that gets the same answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kcli.client.group.actions import Action, Assign, Find, Lose, Request, Revoke, Send, Take
from kcli.client.group.membership import Membership, State
from kcli.client.group.protocol import Generation, JoinedMember
from kcli.client.group.requests import GroupSettings
from kcli.errors import ErrorCode
from kcli.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from kcli.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kcli.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kcli.runtime.rng import SystemRng
from rigs import golden3
from rigs.connect_frames import Json, exchanges, raw, stories

REQUESTS_MIN = 400
"""The requests that the recording has at least before its first answer whose worker is unknown."""


class Recorded:
    """The metadata of a recorded JoinGroup. The worker hands in recorded assignments."""

    protocol_type = "connect"

    def __init__(self) -> None:
        self.offers: Sequence[tuple[str, bytes]] = ()

    def metadata(self) -> Sequence[tuple[str, bytes]]:
        return self.offers

    async def assign(self, leader: Generation, members: Sequence[JoinedMember]) -> Mapping[str, bytes]:
        raise AssertionError("the recording has the assignments")

    async def assigned(self, generation: Generation, assignment: bytes) -> bool:
        raise AssertionError("the worker plays the coroutines")

    async def revoked(self, *, everything: bool) -> None:
        raise AssertionError("the worker plays the coroutines")

    async def lost(self) -> None:
        raise AssertionError("the worker plays the coroutines")


class Worker:
    """A membership in the place of one Java worker."""

    def __init__(self, group_id: str) -> None:
        settings = GroupSettings(group_id=group_id, session_timeout_ms=10_000, rebalance_timeout_ms=60_000)
        self._protocol = Recorded()
        self.membership = Membership(settings, self._protocol, SystemRng(1))
        self._actions: list[Action] = []
        self._sent: Send | None = None

    def request(self, api: str, body: Json) -> Request | None:
        """The next request of the membership, at the point where the Java worker sent `body`."""
        if api == "JoinGroup":
            self._protocol.offers = [(each["name"], raw(each["metadata"])) for each in body["protocols"]]
        if api == "LeaveGroup":
            self._actions = [each for each in self._actions if not isinstance(each, Send)]
            self._actions += self.membership.leave("", 0)
        made = {each["memberId"]: raw(each["assignment"]) for each in body.get("assignments", ())}
        while (sent := self._next_send()) is None and self._steps_on(api, made):
            pass
        self._sent = sent
        return None if sent is None else sent.request

    def _next_send(self) -> Send | None:
        sends = [each for each in self._actions if isinstance(each, Send)]
        self._actions = [each for each in self._actions if not isinstance(each, Send)]
        return next((each for each in sends if not each.is_heartbeat), None)

    def _steps_on(self, api: str, made: Mapping[str, bytes]) -> bool:
        """Carries out one action, or does what makes a worker join. Returns False if there is nothing to do."""
        if self._actions:
            self._actions += self._carry_out(self._actions.pop(0), made)
        elif api == "JoinGroup" and self.membership.state is State.UNJOINED:
            self._actions += self.membership.start(0)
        elif api == "JoinGroup" and self.membership.state is State.STABLE:
            self._actions += self.membership.rejoin("", 0)
        else:
            return False
        return True

    def _carry_out(self, action: Action, made: Mapping[str, bytes]) -> tuple[Action, ...]:
        match action:
            case Find():
                return self.membership.found(0)
            case Assign():
                return self.membership.made(made, 0)
            case Take():
                return self.membership.taken(0, must_rejoin=False)
            case Revoke() | Lose():
                return self.membership.given_up(0)
            case _:
                return ()

    def answer(self, api: str, body: Json) -> None:
        assert self._sent is not None, "an answer follows a request"
        self._actions += self.membership.answered(self._sent, response_of(api, body), 0)


def response_of(api: str, body: Json) -> JoinGroupResponse | SyncGroupResponse | LeaveGroupResponse:
    code = ErrorCode(body["errorCode"])
    if api == "LeaveGroup":
        return LeaveGroupResponse(error_code=code)
    if api == "SyncGroup":
        return SyncGroupResponse(error_code=code, assignment=raw(body["assignment"]))
    return JoinGroupResponse(
        error_code=code,
        generation_id=body["generationId"],
        protocol_type=body["protocolType"],
        protocol_name=body["protocolName"],
        leader=body["leader"],
        skip_assignment=body["skipAssignment"],
        member_id=body["memberId"],
        members=tuple(
            JoinGroupResponseMember(member_id=each["memberId"], metadata=raw(each["metadata"]))
            for each in body["members"]
        ),
    )


def as_recorded(request: Request | None) -> Json:
    """The fields of a request under their names in the recording, without reasons, which are free texts."""
    match request:
        case JoinGroupRequest():
            return {
                "groupId": request.group_id,
                "sessionTimeoutMs": request.session_timeout_ms,
                "rebalanceTimeoutMs": request.rebalance_timeout_ms,
                "memberId": request.member_id,
                "groupInstanceId": request.group_instance_id,
                "protocolType": request.protocol_type,
                "protocols": [(each.name, each.metadata) for each in request.protocols],
            }
        case SyncGroupRequest():
            return {
                "groupId": request.group_id,
                "generationId": request.generation_id,
                "memberId": request.member_id,
                "groupInstanceId": request.group_instance_id,
                "protocolType": request.protocol_type,
                "protocolName": request.protocol_name,
                "assignments": {each.member_id: each.assignment for each in request.assignments},
            }
        case LeaveGroupRequest():
            return {"groupId": request.group_id, "members": [each.member_id for each in request.members]}
        case _:
            return {"request": request}


def recorded(body: Json) -> Json:
    fields = {name: value for name, value in body.items() if name != "reason"}
    if "protocols" in body:
        fields["protocols"] = [(each["name"], raw(each["metadata"])) for each in body["protocols"]]
    if "assignments" in body:
        fields["assignments"] = {each["memberId"]: raw(each["assignment"]) for each in body["assignments"]}
    if "members" in body:
        fields["members"] = [each["memberId"] for each in body["members"]]
    return fields


def compared(frames: Sequence[Json]) -> Iterator[tuple[Json, Json]]:
    """The recorded requests, and those of the memberships."""
    for pairs in exchanges(frames).values():
        worker: Worker | None = None
        for frame, answer in pairs:
            api, body = frame["api"], frame["body"]
            if worker is None or (api == "JoinGroup" and not body["memberId"]):
                worker = Worker(body["groupId"])
            yield recorded(body), as_recorded(worker.request(api, body))
            if answer is not None:
                worker.answer(api, answer)


def test_a_membership_sends_what_a_worker_of_connect_sends() -> None:
    requests = 0
    for story, frames in stories(golden3.recording("connect/group.jsonl")).items():
        for expected, actual in compared(frames):
            assert actual == expected, story
            requests += 1
    assert requests >= REQUESTS_MIN
