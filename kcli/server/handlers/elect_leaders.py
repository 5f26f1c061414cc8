"""ElectLeaders (key 43, versions 0-2): forwards the request to the controller, which elects leaders of partitions
(KIP-183, KIP-460). Version 0 elects only preferred replicas.
"""

from __future__ import annotations

from kcli.controller.api import ELECT_LEADERS
from kcli.controller.decision import ApiError
from kcli.errors import KafkaError
from kcli.model.pace import nested
from kcli.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from kcli.server.handlers.shared.controller_requests import Ports, ask_controller
from kcli.server.requests.context import REFUSAL_COST, RequestContext

Context = RequestContext[Ports]


async def handle(context: Context, request: ElectLeadersRequest) -> ElectLeadersResponse:
    return await ask_controller(context, ELECT_LEADERS, request)


async def error_response(
    context: Context, request: ElectLeadersRequest, error: KafkaError
) -> ElectLeadersResponse:
    """The response with the error at the top (from version 1 on) and in every partition of the request."""
    message = ApiError.of(error).message
    results = await nested(
        context.pace,
        REFUSAL_COST,
        request.topic_partitions or (),
        lambda topic: topic.partitions,
        lambda _, number: PartitionResult(partition_id=number, error_code=error.code, error_message=message),
        lambda topic, parts: ReplicaElectionResult(topic=topic.topic, partition_result=parts),
    )
    return ElectLeadersResponse(error_code=error.code, replica_election_results=results)
