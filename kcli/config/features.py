"""The features (KIP-584, KIP-1022), such as metadata.version, with their levels, defaults and dependencies.

The levels are the levels of Kafka 4.1. Kafka 4.1 has levels of metadata.version up to 4.2-IV1, but the levels above
4.1-IV1 are not for production. So a cluster can be formatted or upgraded only up to 4.1-IV1. If a level is refused,
`FeatureError` is raised with Kafka's text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"
TRANSACTION_VERSION = "transaction.version"
GROUP_VERSION = "group.version"
ELIGIBLE_LEADER_REPLICAS_VERSION = "eligible.leader.replicas.version"
SHARE_VERSION = "share.version"
STREAMS_VERSION = "streams.version"


class FeatureError(ValueError):
    """A feature or level is refused. `str()` is Kafka's text."""


class UnknownLevelError(FeatureError):
    """A level or release does not exist, or a level on which it depends is missing. In these cases, Kafka raises
    IllegalArgumentException."""


@dataclass(frozen=True, slots=True, order=True)
class MetadataVersion:
    """A level of metadata.version and its name, such as 27 and `4.1-IV1`."""

    level: int
    name: str

    @property
    def release(self) -> str:
        return self.name.partition("-")[0]

    @property
    def is_production(self) -> bool:
        return self <= LATEST_PRODUCTION

    def __str__(self) -> str:
        return self.name


# fmt: off
_NAMES = (
    "3.3-IV3",
    "3.4-IV0",
    "3.5-IV0", "3.5-IV1", "3.5-IV2",
    "3.6-IV0", "3.6-IV1", "3.6-IV2",
    "3.7-IV0", "3.7-IV1", "3.7-IV2", "3.7-IV3", "3.7-IV4",
    "3.8-IV0",
    "3.9-IV0",
    "4.0-IV0", "4.0-IV1", "4.0-IV2", "4.0-IV3",
    "4.1-IV0", "4.1-IV1",
    "4.2-IV0", "4.2-IV1",
)
# fmt: on
METADATA_VERSIONS = tuple(MetadataVersion(level, name) for level, name in enumerate(_NAMES, start=7))
_BY_NAME = {version.name: version for version in METADATA_VERSIONS}
_BY_LEVEL = {version.level: version for version in METADATA_VERSIONS}
_BY_RELEASE = {version.release: version for version in METADATA_VERSIONS}
"""The newest metadata.version of each release. The levels ascend, so the last level of a release replaces its earlier
levels."""

MINIMUM_VERSION = METADATA_VERSIONS[0]
LATEST_PRODUCTION = _BY_NAME["4.1-IV1"]
LATEST_TESTING = METADATA_VERSIONS[-1]
SCRAM_SUPPORTED_FROM = _BY_NAME["3.5-IV2"]
"""The first level with SCRAM credentials in the metadata log (KIP-900)."""
DELEGATION_TOKENS_FROM = _BY_NAME["3.6-IV2"]
"""The first level with delegation tokens in the metadata log (KIP-900)."""
CONTROLLER_REGISTRATION_FROM = _BY_NAME["3.7-IV0"]
"""The first level with registrations of controllers in the metadata log (KIP-919)."""
DIRECTORY_ASSIGNMENT_FROM = _BY_NAME["3.7-IV2"]
"""The first level with the directories of replicas in the metadata log (KIP-858)."""
ISR_SHRINK_WITHOUT_NEW_EPOCH_FROM = _BY_NAME["3.6-IV0"]
"""The first level at which a smaller ISR does not begin a new leader epoch (KAFKA-15021)."""


def metadata_version(level: int) -> MetadataVersion:
    """The metadata.version with this level. Raises FeatureError if the level is below 7 or above 29."""
    try:
        return _BY_LEVEL[level]
    except KeyError:
        raise UnknownLevelError(
            f"No MetadataVersion with feature level {level}. "
            f"Valid feature levels are from {MINIMUM_VERSION.level} to {LATEST_TESTING.level}."
        ) from None


def metadata_version_of_release(text: str) -> MetadataVersion:
    """The metadata.version with a name such as `4.0-IV1`. For a release such as `4.0` or `4.0.1`, its newest
    metadata.version."""
    release = ".".join(text.split(".")[:2])
    version = _BY_NAME.get(release) or _BY_RELEASE.get(release)
    if version is None:
        raise UnknownLevelError(
            f"Version {text} is not a valid version. "
            f"The minimum version is {MINIMUM_VERSION} and the maximum version is {LATEST_TESTING}"
        )
    return version


@dataclass(frozen=True, slots=True)
class FeatureLevel:
    """One level of a feature: the metadata.version from which it is the default, and its dependencies."""

    level: int
    default_from: MetadataVersion
    dependencies: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Feature:
    name: str
    levels: tuple[FeatureLevel, ...]
    latest_production: int

    def default_level(self, version: MetadataVersion) -> int:
        """The default level for a cluster formatted at `version`."""
        return max(level.level for level in self.levels if level.default_from <= version)

    def at(self, level: int, *, unstable: bool = False) -> FeatureLevel:
        """The description of a level. Raises FeatureError if the level is unknown or not for production."""
        for known in self.levels:
            if known.level == level and (unstable or level <= self.latest_production):
                return known
        raise UnknownLevelError(f"No feature:{self.name} with feature level {level}")


def _feature(name: str, latest_production: int, *later: FeatureLevel) -> Feature:
    return Feature(name, (FeatureLevel(0, MINIMUM_VERSION), *later), latest_production)


def _level(level: int, default_from: str, needs: str | None = None) -> FeatureLevel:
    dependencies = {METADATA_VERSION: _BY_NAME[needs].level} if needs else {}
    return FeatureLevel(level, _BY_NAME[default_from], dependencies)


FEATURES: Mapping[str, Feature] = {
    feature.name: feature
    for feature in (
        _feature(KRAFT_VERSION, 1, _level(1, "3.9-IV0", needs="3.9-IV0")),
        _feature(TRANSACTION_VERSION, 2, _level(1, "4.0-IV2"), _level(2, "4.0-IV2")),
        _feature(GROUP_VERSION, 1, _level(1, "4.0-IV0")),
        _feature(ELIGIBLE_LEADER_REPLICAS_VERSION, 1, _level(1, "4.1-IV0", needs="4.0-IV1")),
        _feature(SHARE_VERSION, 1, _level(1, "4.2-IV0")),
        _feature(STREAMS_VERSION, 0, _level(1, "4.2-IV1")),
    )
}
"""The features, in the order in which `kafka-storage version-mapping` lists them."""


def supported_ranges(*, unstable: bool = False) -> dict[str, tuple[int, int]]:
    """The (lowest, highest) supported level of each feature, metadata.version included, sorted by feature name.

    A node sends these ranges in its registration and in ApiVersions. A feature whose highest level is 0 is not for
    production yet, so it is left out.
    """
    newest = LATEST_TESTING if unstable else LATEST_PRODUCTION
    ranges = {METADATA_VERSION: (MINIMUM_VERSION.level, newest.level)}
    for feature in FEATURES.values():
        highest = feature.levels[-1].level if unstable else feature.latest_production
        if highest > 0:
            ranges[feature.name] = (0, highest)
    return dict(sorted(ranges.items()))


def check_dependencies(levels: Mapping[str, int], *, unstable: bool = False) -> None:
    """Raises FeatureError if a level needs a higher level of another feature, or of metadata.version."""
    for name, level in sorted(levels.items()):
        if name == METADATA_VERSION:
            continue
        for needed, at_least in FEATURES[name].at(level, unstable=unstable).dependencies.items():
            if levels.get(needed, -1) < at_least:
                raise UnknownLevelError(
                    f"{name} could not be set to {level} because it depends on {needed} level {at_least}"
                )


def effective_levels(
    requested: Mapping[str, int],
    release: MetadataVersion | None,
    *,
    dynamic_quorum: bool,
    unstable: bool = False,
) -> dict[str, int]:
    """The feature levels with which a cluster is formatted, by feature name.

    `requested` has the levels that the operator requested, by feature name. `release` is the metadata.version. Other
    features get their default for this metadata.version. kraft.version is 1 if the voters are dynamic, and otherwise 0
    (KIP-853).
    """
    version = _effective_release(requested, release, unstable=unstable)
    for name in sorted(requested):
        if name != METADATA_VERSION and name not in FEATURES:
            names = ", ".join(sorted(FEATURES))
            raise FeatureError(f"Unsupported feature: {name}. Supported features are: {names}")
    levels = {name: feature.default_level(version) for name, feature in FEATURES.items()}
    levels.update(requested)
    levels[METADATA_VERSION] = version.level
    levels[KRAFT_VERSION] = _kraft_level(requested.get(KRAFT_VERSION), dynamic_quorum=dynamic_quorum)
    check_dependencies(levels, unstable=unstable)
    return dict(sorted(levels.items()))


def _effective_release(
    requested: Mapping[str, int], release: MetadataVersion | None, *, unstable: bool
) -> MetadataVersion:
    if METADATA_VERSION in requested:
        if release is not None:
            raise FeatureError(
                f"Use --release-version instead of --feature {METADATA_VERSION}=X to avoid ambiguity."
            )
        release = metadata_version(requested[METADATA_VERSION])
    if release is None:
        return LATEST_TESTING if unstable else LATEST_PRODUCTION
    if not (unstable or release.is_production):
        raise FeatureError(f"{METADATA_VERSION} {release} is not yet stable.")
    return release


def _kraft_level(requested: int | None, *, dynamic_quorum: bool) -> int:
    flags = "--standalone, --initial-controllers, or --no-initial-controllers"
    if requested is None:
        return 1 if dynamic_quorum else 0
    if requested == 0 and dynamic_quorum:
        raise FeatureError(
            f"Cannot set kraft.version to 0 if one of the flags {flags} is used. "
            "For dynamic controllers support, try removing the --feature flag for kraft.version."
        )
    if requested > 0 and not dynamic_quorum:
        raise FeatureError(
            f"Cannot set kraft.version to {requested} unless one of the flags {flags} is used. "
            f"For dynamic controllers support, try using one of {flags}."
        )
    return requested
