"""UpdateFeatures (key 57, versions 0-2): forwards the request to the controller, which changes the finalized levels of
features (KIP-584). The rules are in controller/features.py.
"""

from __future__ import annotations

from kcli.controller.api import UPDATE_FEATURES
from kcli.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from kcli.server.handlers.ports import NodeContext
from kcli.server.handlers.shared.controller_requests import ask_controller


async def handle(context: NodeContext, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    return await ask_controller(context, UPDATE_FEATURES, request)
