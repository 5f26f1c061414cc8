"""ApiVersions (key 18, versions 0-4): lists the APIs, versions and features of this node (KIP-35, KIP-511, KIP-584).

A request of an unsupported version gets an answer in version 0. It has UNSUPPORTED_VERSION and the supported versions
of ApiVersions, so that the client can use an older version. A malformed client software name (v3+) gets
INVALID_REQUEST.
"""

from __future__ import annotations

import re
from dataclasses import replace

from kcli.errors import ErrorCode, KafkaError
from kcli.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from kcli.protocol.wire.api import API, ApiKey
from kcli.server.handlers.ports import NodeContext
from kcli.server.requests.access import OPEN
from kcli.server.requests.forwarding import ELIGIBLE

ACCESS = OPEN

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_SOFTWARE_FROM = 3
# From this version on, the answer contains features whose lowest level is 0. Older clients refuse such features
# (KIP-1022).
_MIN_ZERO_FROM = 4
# The lowest version of Produce that is advertised, although the broker serves it only from version 3 on. librdkafka
# before 2.0 assumes that a broker without Produce v0 does not support MessageSet (KAFKA-18659).
_PRODUCE_ADVERTISED_FROM = 0
_NO_VERSION = (0, -1)


def handle(context: NodeContext, request: ApiVersionsRequest | None) -> ApiVersionsResponse:
    if request is None:
        return ApiVersionsResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=(_range(ApiKey.API_VERSIONS),)
        )
    if context.api_version >= _SOFTWARE_FROM and not (
        _SOFTWARE.fullmatch(request.client_software_name)
        and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    features = context.ports.features()
    return ApiVersionsResponse(
        api_keys=_ranges(context),
        supported_features=tuple(
            SupportedFeatureKey(name=name, min_version=low, max_version=high)
            for name, (low, high) in features.supported.items()
            if low > 0 or context.api_version >= _MIN_ZERO_FROM
        ),
        finalized_features_epoch=features.epoch,
        finalized_features=tuple(
            FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
            for name, level in features.finalized.items()
            if level > 0
        ),
    )


def error_response(
    _context: NodeContext, _request: ApiVersionsRequest | None, error: KafkaError
) -> ApiVersionsResponse:
    return ApiVersionsResponse(error_code=error.code)


def _ranges(context: NodeContext) -> tuple[ApiVersion, ...]:
    """The versions of the served APIs. A broker that forwards an API lists only the versions that the active controller
    supports too (KIP-590)."""
    ranges = [_range(key) for key in context.ports.served_on(context.listener)]
    controller = context.ports.controller_versions()
    if not controller:
        return tuple(ranges)
    found = []
    for each in ranges:
        if each.api_key in ELIGIBLE:
            low, high = controller.get(each.api_key, _NO_VERSION)
            low, high = max(low, each.min_version), min(high, each.max_version)
            if low <= high:
                found.append(replace(each, min_version=low, max_version=high))
        else:
            found.append(each)
    return tuple(found)


def _range(key: ApiKey) -> ApiVersion:
    spec = API[key]
    low = _PRODUCE_ADVERTISED_FROM if key is ApiKey.PRODUCE else spec.min_version
    return ApiVersion(api_key=key, min_version=low, max_version=spec.max_version)
