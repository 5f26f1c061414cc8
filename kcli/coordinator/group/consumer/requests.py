"""The requests that only consumer groups serve. They also serve the requests of the classic protocol
(classic/requests.py)."""

from __future__ import annotations

from kcli.coordinator.group.consumer.describe import Description
from kcli.coordinator.group.consumer.targets.regexes import RegexesResolved
from kcli.coordinator.group.requests import Call, Describe, Question, Request
from kcli.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

HeartbeatCall = Call[ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse]

CONSUMER_HEARTBEAT: Request[HeartbeatCall] = Request("ConsumerGroupHeartbeat")
REGEXES_RESOLVED: Request[RegexesResolved] = Request("the result of ResolveRegexes")
DESCRIBE_CONSUMER_GROUP: Question[Describe, Description] = Question("ConsumerGroupDescribe")
