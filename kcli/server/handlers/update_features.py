"""UpdateFeatures (key 57, versions 0-2): forwards the request to the controller, which changes the finalized levels of
features (KIP-584). The rules are in controller/features.py.
"""

from __future__ import annotations

from kcli.controller.api import UPDATE_FEATURES
from kcli.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from kcli.server.handlers.shared.controller_requests import Ports, ask_controller
from kcli.server.requests.context import RequestContext


async def handle(context: RequestContext[Ports], request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    return await ask_controller(context, UPDATE_FEATURES, request)
