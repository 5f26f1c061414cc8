"""ElectLeaders (key 43, versions 0-2): forwards the request to the controller, which elects leaders of partitions
(KIP-183, KIP-460). Version 0 elects only preferred replicas.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kcli.controller.api import ELECT_LEADERS
from kcli.controller.decision import ApiError
from kcli.errors import KafkaError
from kcli.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from kcli.server.handlers.ports import NodeContext
from kcli.server.handlers.shared.controller_requests import ask_controller
from kcli.server.requests.answers import then
from kcli.server.requests.turns import REFUSALS_PER_TURN, nested_steps, run_in_turns


async def handle(context: NodeContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
    return await ask_controller(context, ELECT_LEADERS, request)


def error_response(
    _context: NodeContext, request: ElectLeadersRequest, error: KafkaError
) -> ElectLeadersResponse | Awaitable[ElectLeadersResponse]:
    """The response with the error at the top (from version 1 on) and in every partition of the request."""
    message = ApiError.of(error).message
    results = nested_steps(
        request.topic_partitions or (),
        lambda each: each.partitions,
        lambda _, number: PartitionResult(partition_id=number, error_code=error.code, error_message=message),
        lambda each, parts: ReplicaElectionResult(topic=each.topic, partition_result=parts),
    )
    return then(
        run_in_turns(results, REFUSALS_PER_TURN),
        lambda refused: ElectLeadersResponse(error_code=error.code, replica_election_results=refused),
    )
