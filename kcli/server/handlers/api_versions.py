"""ApiVersions (key 18, versions 0-4): lists the APIs, versions and features of this node (KIP-35, KIP-511, KIP-584).

A request of an unsupported version gets an answer in version 0. The answer has the error UNSUPPORTED_VERSION and the
supported versions of ApiVersions, so that the client can use an older version. A malformed client software name (v3+)
gets INVALID_REQUEST.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

from kcli.config.features import KRAFT_VERSION, supported_ranges
from kcli.errors import ErrorCode, KafkaError
from kcli.metadata.image import MetadataImage
from kcli.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from kcli.protocol.wire.api import API, ApiKey
from kcli.protocol.wire.shared_array import SharedArray
from kcli.server.quorum.loader import MetadataLoader
from kcli.server.quorum.remote_controller import ApiRanges
from kcli.server.quorum.view import QuorumView
from kcli.server.requests.apis import FORWARDED
from kcli.server.requests.context import RequestContext

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_SOFTWARE_FROM = 3
SOFTWARE_MAX_CHARACTERS = 64
"""The maximum length of the software name and of the software version of a client. Longer texts are cut, because the
metrics keep both texts, and a client sends them before its login."""
# From this version on, the answer contains features whose lowest level is 0. Older clients refuse such features
# (KIP-1022).
_MIN_ZERO_FROM = 4
# The lowest version of Produce that is advertised, although the broker serves it only from version 3 on. librdkafka
# before 2.0 assumes that a broker without Produce v0 does not support MessageSet (KAFKA-18659).
_PRODUCE_ADVERTISED_FROM = 0
_NO_VERSION = (0, -1)

Limits = tuple[tuple[ApiKey, tuple[int, int]], ...]
"""The lowest and highest version that the controller supports, for each API whose requests are forwarded. Empty if
these versions are not known."""


@dataclass(frozen=True, slots=True)
class Ports:
    controller_versions: Callable[[], ApiRanges]
    loader: MetadataLoader
    quorum: QuorumView
    served_on: Callable[[str], tuple[ApiKey, ...]]


Context = RequestContext[Ports]


async def handle(context: Context, request: ApiVersionsRequest | None) -> ApiVersionsResponse:
    if request is None:
        return ApiVersionsResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=(_range(ApiKey.API_VERSIONS),)
        )
    if context.api_version >= _SOFTWARE_FROM and not (
        _SOFTWARE.fullmatch(request.client_software_name)
        and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    if context.api_version >= _SOFTWARE_FROM:
        context.facts.software = (
            request.client_software_name[:SOFTWARE_MAX_CHARACTERS],
            request.client_software_version[:SOFTWARE_MAX_CHARACTERS],
        )
    image = context.ports.loader.image
    return ApiVersionsResponse(
        api_keys=_ranges(context.ports.served_on(context.listener), context.api_version, _limits(context)),
        supported_features=tuple(
            SupportedFeatureKey(name=name, min_version=low, max_version=high)
            for name, (low, high) in supported_ranges().items()
            if low > 0 or context.api_version >= _MIN_ZERO_FROM
        ),
        finalized_features_epoch=image.offset,
        finalized_features=tuple(
            FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
            for name, level in finalized_levels(image, context.ports.quorum.kraft_version).items()
            if level > 0
        ),
    )


async def error_response(
    _context: Context, _request: ApiVersionsRequest | None, error: KafkaError
) -> ApiVersionsResponse:
    return ApiVersionsResponse(error_code=error.code)


def finalized_levels(image: MetadataImage, kraft_version: int) -> dict[str, int]:
    """Returns the finalized level of each feature. kraft.version is in control records of the log, and not in the image
    (KIP-853)."""
    return {**image.features, KRAFT_VERSION: kraft_version}


def _limits(context: Context) -> Limits:
    """Returns the API versions of the active controller, if it runs on another node. They limit the versions of the
    requests that a broker forwards to the controller (KIP-590).
    """
    known = context.ports.controller_versions()
    return tuple((key, known.get(key, _NO_VERSION)) for key in FORWARDED) if known else ()


@cache
def _ranges(keys: tuple[ApiKey, ...], _version: int, limits: Limits) -> SharedArray[ApiVersion]:
    """Returns the version range of each API. If requests of an API are forwarded, the range contains only versions that
    the controller supports too.

    The ranges are made and encoded once for each version, because each new connection asks for them, and a consumer
    opens three connections.
    """
    by_key = dict(limits)
    ranges = (_limited(_range(key), by_key.get(key)) for key in keys)
    return SharedArray(
        version_range for version_range in ranges if version_range.min_version <= version_range.max_version
    )


def _limited(own: ApiVersion, limit: tuple[int, int] | None) -> ApiVersion:
    if limit is None:
        return own
    low, high = limit
    return replace(own, min_version=max(low, own.min_version), max_version=min(high, own.max_version))


def _range(key: ApiKey) -> ApiVersion:
    spec = API[key]
    low = _PRODUCE_ADVERTISED_FROM if key is ApiKey.PRODUCE else spec.min_version
    return ApiVersion(api_key=key, min_version=low, max_version=spec.max_version)
