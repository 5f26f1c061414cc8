"""AssignReplicasToDirs (key 73, version 0): a broker reports the directories of its replicas (KIP-858).

The rules are in controller/replicas.py.
"""

from __future__ import annotations

from kcli.controller.api import ASSIGN_REPLICAS_TO_DIRS
from kcli.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from kcli.server.handlers.ports import NodeContext
from kcli.server.handlers.shared.controller_requests import ask_controller


async def handle(context: NodeContext, request: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse:
    return await ask_controller(context, ASSIGN_REPLICAS_TO_DIRS, request)
