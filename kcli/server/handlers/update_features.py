"""UpdateFeatures (key 57, versions 0-2): raises or lowers feature levels (KIP-584). Rules: controller/features.py."""

from __future__ import annotations

from kcli.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from kcli.server.requests.access import ALTER_CLUSTER, whole_request
from kcli.server.requests.context import RequestContext

ACCESS = whole_request(ALTER_CLUSTER)


async def handle(context: RequestContext, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    return await context.broker.quorum.update_features(request, context)
