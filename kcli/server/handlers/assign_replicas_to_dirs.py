"""AssignReplicasToDirs (key 73, version 0): a broker reports the directories of its replicas (KIP-858).

The rules are in controller/replicas.py.
"""

from __future__ import annotations

from kcli.controller.api import ASSIGN_REPLICAS_TO_DIRS
from kcli.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from kcli.server.handlers.shared.controller_requests import Ports, ask_controller
from kcli.server.requests.context import RequestContext


async def handle(
    context: RequestContext[Ports], request: AssignReplicasToDirsRequest
) -> AssignReplicasToDirsResponse:
    return await ask_controller(context, ASSIGN_REPLICAS_TO_DIRS, request)
