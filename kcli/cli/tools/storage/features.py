"""The sub-commands of kafka-storage about features: version-mapping and feature-dependencies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kcli.cli.output import Output
from kcli.cli.syntax.options import CommandError, CommonOptions, option
from kcli.model.java_text import parse_short, trim


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionMappingOptions(CommonOptions):
    release_version: str | None = option("The release. Default: the newest production release.", short="r")


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureDependenciesOptions(CommonOptions):
    feature: tuple[str, ...] = option(
        "A feature and its level, as name=level.", short="f", repeatable=True, required=True
    )


@dataclass(frozen=True, slots=True)
class FeatureLevelRow:
    feature: str
    level: int
    version: str | None = None


@dataclass(frozen=True, slots=True)
class DependencyRow:
    feature: str
    level: int
    version: str | None
    requires: tuple[FeatureLevelRow, ...]


def version_mapping(options: VersionMappingOptions, output: Output) -> int:
    from kcli.config.features import (
        FEATURES,
        LATEST_PRODUCTION,
        METADATA_VERSION,
        MINIMUM_VERSION,
        FeatureError,
        metadata_version_of_release,
    )

    release = options.release_version or LATEST_PRODUCTION.name
    try:
        version = metadata_version_of_release(release)
    except FeatureError:
        raise CommandError(
            f"Unknown release version '{release}'. Supported versions are: {MINIMUM_VERSION} to {LATEST_PRODUCTION}"
        ) from None
    rows = [FeatureLevelRow(METADATA_VERSION, version.level, release)]
    rows += [FeatureLevelRow(feature.name, feature.default_level(version)) for feature in FEATURES.values()]
    output.rows(rows, _level_text)
    return 0


def feature_dependencies(options: FeatureDependenciesOptions, output: Output) -> int:
    output.rows([_dependencies(text) for text in options.feature], _dependencies_text)
    return 0


def parse_levels(texts: Iterable[str]) -> dict[str, int]:
    """Parses `name=level` arguments. If a name is repeated, its last level counts.

    Raises CommandError with the text of Java's exception.
    """
    levels = {}
    for text in texts:
        name, equals, level = trim(text).rpartition("=")
        problem = f"Can't parse feature=level string {text}: "
        if not equals:
            raise CommandError(_illegal(problem + "equals sign not found."))
        try:
            levels[trim(name)] = parse_short(trim(level))
        except ValueError:
            raise CommandError(_illegal(problem + f"unable to parse {level} as a short.")) from None
    return levels


def _illegal(message: str) -> str:
    return f'Exception in thread "main" java.lang.RuntimeException: {message}'


def _dependencies(text: str) -> DependencyRow:
    from kcli.config.features import FEATURES, METADATA_VERSION, FeatureError, metadata_version

    name, equals, level_text = trim(text).partition("=")
    if not equals or "=" in level_text:
        raise CommandError(
            f"Invalid feature format: {text}. Expected format: 'feature=version' (e.g. 'group.version=1')"
        )
    try:
        level = parse_short(level_text)
    except ValueError:
        raise CommandError(f"Invalid version format: {level_text} for feature {name}") from None
    if name == METADATA_VERSION:
        try:
            return DependencyRow(name, level, metadata_version(level).name, ())
        except FeatureError:
            raise CommandError(f"Unknown metadata.version {level}") from None
    if name not in FEATURES:
        raise CommandError(f"Unknown feature: {name}")
    try:
        known = FEATURES[name].at(level, unstable=True)
    except FeatureError:
        raise CommandError(f"Feature level {level} is not supported for feature {name}") from None
    needs = tuple(
        FeatureLevelRow(needed, least, metadata_version(least).name if needed == METADATA_VERSION else None)
        for needed, least in sorted(known.dependencies.items())
    )
    return DependencyRow(name, level, None, needs)


def _level_text(row: FeatureLevelRow) -> str:
    return f"{row.feature}={row.level}" + (f" ({row.version})" if row.version else "")


def _dependencies_text(row: DependencyRow) -> str:
    head = _level_text(FeatureLevelRow(row.feature, row.level, row.version))
    if not row.requires:
        return f"{head} has no dependencies."
    return "\n".join([f"{head} requires:", *(f"    {_level_text(needed)}" for needed in row.requires)])
