"""The requests that classic groups serve. Groups of other types can serve them too, for members that speak the classic
protocol."""

from __future__ import annotations

from kcli.coordinator.group.requests import Call, Describe, Question, Request
from kcli.coordinator.group.step import GroupStep
from kcli.errors import ErrorCode, KafkaError
from kcli.protocol.messages.describe_groups import DescribedGroup
from kcli.protocol.messages.heartbeat import HeartbeatRequest
from kcli.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kcli.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kcli.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

JoinCall = Call[JoinGroupRequest, JoinGroupResponse]
SyncCall = Call[SyncGroupRequest, SyncGroupResponse]
LeaveCall = Call[LeaveGroupRequest, LeaveGroupResponse]


def fail_join(request: JoinGroupRequest, code: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=code, member_id=request.member_id)


def _refuse_join(call: JoinCall, error: KafkaError, step: GroupStep) -> None:
    step.reply(call.token, fail_join(call.request, error.code))


def _refuse_sync(call: SyncCall, error: KafkaError, step: GroupStep) -> None:
    step.reply(call.token, SyncGroupResponse(error_code=error.code))


JOIN_GROUP: Request[JoinCall] = Request("JoinGroup", _refuse_join)
SYNC_GROUP: Request[SyncCall] = Request("SyncGroup", _refuse_sync)
LEAVE_GROUP: Request[LeaveCall] = Request("LeaveGroup")
HEARTBEAT: Question[HeartbeatRequest, ErrorCode] = Question("Heartbeat")
DESCRIBE_CLASSIC_GROUP: Question[Describe, DescribedGroup] = Question("DescribeGroups")
