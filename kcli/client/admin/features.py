"""Admin calls about feature levels (KIP-584)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.client.client import Destination, error_of, raise_for
from kcli.errors import ErrorCode, KafkaError
from kcli.model.request_values import UpgradeType
from kcli.protocol.wire.api import ApiKey

if TYPE_CHECKING:
    from kcli.client.client import Client


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureDescription:
    """A feature: the levels that the node supports, and the finalized level of the cluster (0: off)."""

    name: str
    min_supported: int
    max_supported: int
    finalized: int
    epoch: int | None
    """The metadata offset of the finalized levels, or None if the node has not received finalized levels."""


async def describe_features(client: Client) -> list[FeatureDescription]:
    """Returns the features of a node, sorted by name."""
    from kcli import KAFKA_VERSION
    from kcli.protocol.messages.api_versions import ApiVersionsRequest

    async def attempt() -> list[FeatureDescription]:
        request = ApiVersionsRequest(client_software_name="kcli", client_software_version=KAFKA_VERSION)
        response = await client.send(request, ApiKey.API_VERSIONS)
        raise_for(response.error_code)
        finalized = {feature.name: feature.max_version_level for feature in response.finalized_features}
        epoch = response.finalized_features_epoch
        return [
            FeatureDescription(
                name=feature.name,
                min_supported=feature.min_version,
                max_supported=feature.max_version,
                finalized=finalized.get(feature.name, 0),
                epoch=epoch if epoch >= 0 else None,
            )
            for feature in sorted(response.supported_features, key=lambda supported: supported.name)
        ]

    return await client.call("describeFeatures", attempt)


async def update_features(
    client: Client, levels: Mapping[str, int], upgrade_type: UpgradeType, *, validate_only: bool = False
) -> dict[str, KafkaError | None]:
    """Sets the levels of features. Returns the error of each feature, or None.

    If one feature is refused, no level is changed.
    """
    from kcli.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

    request = UpdateFeaturesRequest(
        timeout_ms=client.config.default_api_timeout_ms,
        feature_updates=tuple(
            FeatureUpdateKey(
                feature=name,
                max_version_level=level,
                upgrade_type=int(upgrade_type),
                allow_downgrade=upgrade_type is not UpgradeType.UPGRADE,
            )
            for name, level in levels.items()
        ),
        validate_only=validate_only,
    )

    async def attempt() -> dict[str, KafkaError | None]:
        at_least = 1 if validate_only or upgrade_type is UpgradeType.UNSAFE_DOWNGRADE else 0
        response = await client.send(
            request, ApiKey.UPDATE_FEATURES, to=Destination.CONTROLLER, at_least=at_least
        )
        if response.error_code is ErrorCode.NOT_CONTROLLER:
            raise_for(response.error_code, response.error_message)
        whole = error_of(response.error_code, response.error_message)
        # From version 2 on, the answer has one error for all features (KIP-1022).
        errors = {
            result.feature: error_of(result.error_code, result.error_message) for result in response.results
        }
        return {name: whole or errors.get(name) for name in levels}

    return await client.call("updateFeatures", attempt)
