"""Raises and lowers the cluster's feature levels (KIP-584, KIP-1022). If one feature of a request is refused, no
feature changes."""

from __future__ import annotations

from collections.abc import Mapping

from kcli.config.features import (
    CONTROLLER_REGISTRATION_FROM,
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    FEATURES,
    KRAFT_VERSION,
    METADATA_VERSION,
    FeatureError,
    check_dependencies,
    metadata_version,
)
from kcli.controller.configs import MIN_INSYNC_REPLICAS
from kcli.controller.decision import Decision, decide
from kcli.controller.settings import ControllerSettings
from kcli.errors import InvalidUpdateVersionException, KafkaError
from kcli.metadata.image import MetadataImage, VersionRange
from kcli.model.configs import CLUSTER_DEFAULT, ConfigResourceType
from kcli.model.request_values import UpgradeType
from kcli.protocol.messages import update_features as uf
from kcli.protocol.records.metadata import ConfigRecord, FeatureLevelRecord, MetadataRecord

# The levels of metadata.version that added records or fields to the log. A downgrade below such a level would
# lose these records or fields.
METADATA_CHANGED_AT = frozenset((8, 11, 13, 14, 15, 16, 17, 18, 23))
DEFAULT_MIN_INSYNC_REPLICAS = "1"
_REFUSED = "The update failed for all features since the following feature had an error: {}"
# Kafka puts the name of its error code into the results of versions 0 and 1.
NO_ERROR_TEXT = "NONE"


def update_features(
    image: MetadataImage, settings: ControllerSettings, request: uf.UpdateFeaturesRequest
) -> Decision[uf.UpdateFeaturesResponse]:
    levels = {update.feature: update.max_version_level for update in request.feature_updates}
    proposed = {**image.features, **levels}
    records: list[MetadataRecord] = []
    try:
        for update in request.feature_updates:
            records += _update(image, settings, update, proposed)
    except InvalidUpdateVersionException as error:
        return Decision((), _refused(error))
    results = tuple(
        uf.UpdatableFeatureResult(feature=update.feature, error_message=NO_ERROR_TEXT)
        for update in request.feature_updates
    )
    response = uf.UpdateFeaturesResponse(error_message=None, results=results)
    if request.validate_only:
        return decide([], response)
    kraft_version = levels.get(KRAFT_VERSION, settings.kraft_version)
    if kraft_version > settings.kraft_version:
        return Decision((), response, kraft_version)
    return decide(records, response)


def quorum_refused(error: KafkaError) -> KafkaError:
    """The error of an UpdateFeatures if the quorum refused the new kraft.version. Its text is Kafka's text for a
    refused request."""
    return type(error)(_REFUSED.format(error.message))


def _refused(error: InvalidUpdateVersionException) -> uf.UpdateFeaturesResponse:
    """The response with one error for the whole request.

    A response without an error is different: before version 2, it has a result for each feature.
    """
    return uf.UpdateFeaturesResponse(error_code=error.code, error_message=_REFUSED.format(error.message))


def _update(
    image: MetadataImage,
    settings: ControllerSettings,
    update: uf.FeatureUpdateKey,
    proposed: Mapping[str, int],
) -> list[MetadataRecord]:
    name, level = update.feature, update.max_version_level
    upgrade_type = UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else update.upgrade_type
    if upgrade_type not in tuple(UpgradeType):
        raise _invalid(name, level, "The controller does not support the given upgrade type.")
    _check_supported(image, settings, name, level)
    current = settings.kraft_version if name == KRAFT_VERSION else image.features.get(name, 0)
    if level < current and upgrade_type == UpgradeType.UPGRADE:
        raise _invalid(
            name,
            level,
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or "
            "unsafe downgrade.",
        )
    if level > current and upgrade_type != UpgradeType.UPGRADE:
        raise _invalid(name, level, "Can't downgrade to a newer version.")
    if name == METADATA_VERSION:
        _check_downgrade(image.metadata_version, level, unsafe=upgrade_type == UpgradeType.UNSAFE_DOWNGRADE)
        return [FeatureLevelRecord(name=name, feature_level=level)]
    if name == KRAFT_VERSION:
        if level < current:
            raise _invalid(name, level, "Can't downgrade the version of this feature.")
        return []  # the quorum keeps the level in records of its own
    if name not in FEATURES:
        raise _invalid(name, level, f"Feature {name} not found.")
    try:
        check_dependencies({name: level, METADATA_VERSION: proposed[METADATA_VERSION]})
    except FeatureError as error:
        raise _invalid(name, level, str(error)) from None
    return [FeatureLevelRecord(name=name, feature_level=level), *_elr_records(image, settings, name, level)]


def _invalid(name: str, level: int, reason: str) -> InvalidUpdateVersionException:
    return InvalidUpdateVersionException(f"Invalid update version {level} for feature {name}. {reason}")


def _check_supported(image: MetadataImage, settings: ControllerSettings, name: str, level: int) -> None:
    """Raises KafkaError unless the controllers and every broker support the feature level.

    The features of a static voter are unknown until it has registered. Dynamic voters need no registration, as in
    Kafka.
    """
    nodes = [(f"Local controller {settings.node_id}", settings.supported_features)]
    nodes += [(f"Broker {broker.id}", broker.features) for broker in image.brokers.values()]
    nodes += [
        (f"Controller {controller.id}", controller.features)
        for controller in image.controllers.values()
        if controller.id != settings.node_id
    ]
    for node, features in nodes:
        supported = features.get(name, VersionRange(0, 0))
        if supported.min_version <= level <= supported.max_version:
            continue
        if supported == VersionRange(0, 0):
            raise _invalid(name, level, f"{node} does not support this feature.")
        raise _invalid(
            name, level, f"{node} only supports versions {supported.min_version}-{supported.max_version}"
        )
    if image.metadata_version < CONTROLLER_REGISTRATION_FROM.level:
        return
    for voter in sorted(settings.static_voters - image.controllers.keys() - {settings.node_id}):
        raise _invalid(
            name, level, f"controller {voter} has not registered, and may not support this feature"
        )


def _check_downgrade(current: int, target: int, *, unsafe: bool) -> None:
    try:
        metadata_version(target)
    except FeatureError:
        raise _invalid(METADATA_VERSION, target, "Unknown metadata.version.") from None
    if not any(target < level <= current for level in METADATA_CHANGED_AT):
        return
    if unsafe:
        reason = "Unsafe metadata downgrade is not supported in this version."
    else:
        reason = "Refusing to perform the requested downgrade because it might delete metadata information."
    raise _invalid(METADATA_VERSION, target, reason)


def _elr_records(
    image: MetadataImage, settings: ControllerSettings, name: str, level: int
) -> list[MetadataRecord]:
    """The records needed to enable ELR: they set the cluster's default of min.insync.replicas and remove the values of
    single brokers."""
    if name != ELIGIBLE_LEADER_REPLICAS_VERSION or level == 0 or image.features.get(name, 0) > 0:
        return []
    records: list[MetadataRecord] = []
    if MIN_INSYNC_REPLICAS not in image.config(CLUSTER_DEFAULT):
        value = settings.static_config.get(MIN_INSYNC_REPLICAS, DEFAULT_MIN_INSYNC_REPLICAS)
        records.append(_min_insync_replicas("", value))
    for resource, config in image.configs.items():
        if resource.type is ConfigResourceType.BROKER and resource.name and MIN_INSYNC_REPLICAS in config:
            records.append(_min_insync_replicas(resource.name, None))
    return records


def _min_insync_replicas(broker: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(
        resource_type=int(ConfigResourceType.BROKER),
        resource_name=broker,
        name=MIN_INSYNC_REPLICAS,
        value=value,
    )
