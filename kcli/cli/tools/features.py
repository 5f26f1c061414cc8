"""kafka-features: shows and changes the cluster's feature levels (KIP-584, KIP-1022)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kcli.cli.connect import admin
from kcli.cli.output import Output
from kcli.cli.syntax.options import Command, CommandError, Exclusive, Family, Subcommand, flag, option
from kcli.cli.tools.quorum_options import QuorumOptions
from kcli.cli.tools.storage.features import FeatureDependenciesOptions, VersionMappingOptions
from kcli.client.admin.features import FeatureDescription
from kcli.command.examples import INTERRUPTED, SUCCESS, Example
from kcli.config.features import (
    FEATURES,
    LATEST_PRODUCTION,
    METADATA_VERSION,
    METADATA_VERSIONS,
    FeatureError,
    metadata_version,
    metadata_version_of_release,
)
from kcli.model.java_text import parse_short, trim
from kcli.model.request_values import UpgradeType

OFF = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeOptions(QuorumOptions):
    metadata: str | None = option(
        "The new metadata.version. To set the other features as well, use --release-version.", deprecated=True
    )
    feature: tuple[str, ...] = option("A feature and its new level, as name=level.", repeatable=True)
    release_version: str | None = option("Set all features to their levels in this release.")
    dry_run: bool = flag("Print what the command would do, but change nothing.")


@dataclass(frozen=True, slots=True, kw_only=True)
class DowngradeOptions(UpgradeOptions):
    unsafe: bool = flag("Downgrade even if metadata may be lost.")


@dataclass(frozen=True, slots=True, kw_only=True)
class DisableOptions(QuorumOptions):
    feature: tuple[str, ...] = option("The feature to disable.", repeatable=True)
    unsafe: bool = flag("Disable even if metadata may be lost.")
    dry_run: bool = flag("Print what the command would do, but change nothing.")


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionMapping(QuorumOptions):
    release_version: str | None = option("The release. Default: the newest production release.")


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureDependencies(QuorumOptions):
    feature: tuple[str, ...] = option(
        "A feature and its level, as name=level.", repeatable=True, required=True
    )


@dataclass(frozen=True, slots=True)
class UpdateRow:
    """The result for one feature. `error` is None after a success."""

    feature: str
    level: int
    action: str
    dry_run: bool
    error: str | None


async def describe(options: QuorumOptions, output: Output) -> None:
    """Runs `describe`."""
    async with admin(options, bootstrap_controller=options.bootstrap_controller) as client:
        features = await client.describe_features()
    output.rows(features, _described)


async def upgrade(options: UpgradeOptions, output: Output) -> None:
    """Runs `upgrade`."""
    await _move(options, UpgradeType.UPGRADE, output)


async def downgrade(options: DowngradeOptions, output: Output) -> None:
    """Runs `downgrade`."""
    await _move(options, _down(options.unsafe), output)


async def disable(options: DisableOptions, output: Output) -> None:
    """Runs `disable`."""
    if not options.feature:
        raise CommandError("You must specify at least one feature to disable")
    levels = _once((name, OFF) for name in options.feature)
    await _update(options, levels, _down(options.unsafe), "disable", options.dry_run, output)


def version_mapping(options: VersionMapping, output: Output) -> int:
    """Runs `version-mapping`, which kafka-storage has too."""
    from kcli.cli.tools.storage import features as storage_features

    return storage_features.version_mapping(
        VersionMappingOptions(release_version=options.release_version), output
    )


def feature_dependencies(options: FeatureDependencies, output: Output) -> int:
    """Runs `feature-dependencies`, like kafka-storage but with another message for an unknown level."""
    from kcli.cli.tools.storage import features as storage_features

    for text in options.feature:
        name, _, level = text.partition("=")
        if name in FEATURES:
            try:
                FEATURES[name].at(parse_short(trim(level)), unstable=True)
            except FeatureError as error:
                raise CommandError(str(error)) from error
            except ValueError:
                continue  # feature_dependencies reports the level
    return storage_features.feature_dependencies(FeatureDependenciesOptions(feature=options.feature), output)


def _down(unsafe: bool) -> UpgradeType:
    return UpgradeType.UNSAFE_DOWNGRADE if unsafe else UpgradeType.SAFE_DOWNGRADE


def _described(feature: FeatureDescription) -> str:
    def shown(level: int) -> str:
        if feature.name != METADATA_VERSION:
            return str(level)
        try:
            return metadata_version(level).name
        except FeatureError:
            return f"UNKNOWN [{level}]"

    return (
        f"Feature: {feature.name}\tSupportedMinVersion: {shown(feature.min_supported)}\t"
        f"SupportedMaxVersion: {shown(feature.max_supported)}\tFinalizedVersionLevel: {shown(feature.finalized)}\t"
        f"Epoch: {'-' if feature.epoch is None else feature.epoch}"
    )


async def _move(options: UpgradeOptions, upgrade_type: UpgradeType, output: Output) -> None:
    action = "upgrade" if upgrade_type is UpgradeType.UPGRADE else "downgrade"
    if options.release_version is not None:
        if options.metadata is not None or options.feature:
            raise CommandError("Can not specify `release-version` with other feature flags.")
        levels = _levels_of_release(options.release_version, upgrade_type)
    else:
        moves: list[tuple[str, int]] = []
        if options.metadata is not None:
            output.say(" `metadata` flag is deprecated and may be removed in a future release.")
            moves.append((METADATA_VERSION, _metadata_level(options.metadata)))
        moves += map(_level, options.feature)
        if not moves:
            raise CommandError(f"You must specify at least one feature to {action}")
        levels = _once(moves)
    await _update(options, levels, upgrade_type, action, options.dry_run, output)


def _levels_of_release(release: str, upgrade_type: UpgradeType) -> dict[str, int]:
    """Returns the feature levels of a release. For an upgrade, features at level 0 are omitted."""
    version = metadata_version(_metadata_level(release))
    levels = {feature.name: feature.default_level(version) for feature in FEATURES.values()}
    return {METADATA_VERSION: version.level} | {
        name: level
        for name, level in levels.items()
        if level > OFF or upgrade_type is not UpgradeType.UPGRADE
    }


def _metadata_level(text: str) -> int:
    try:
        return metadata_version_of_release(text).level
    except FeatureError:
        stable = ", ".join(version.name for version in METADATA_VERSIONS if version <= LATEST_PRODUCTION)
        raise CommandError(
            f"Unknown metadata.version {text}. Supported metadata.version are {stable}"
        ) from None


def _level(text: str) -> tuple[str, int]:
    name, equals, level = text.rpartition("=")
    problem = f"Can't parse feature=level string {text}: "
    if not equals:
        raise CommandError(problem + "equals sign not found.")
    try:
        return trim(name), parse_short(trim(level))
    except ValueError:
        raise CommandError(problem + f"unable to parse {level} as a short.") from None


def _once(moves: Iterable[tuple[str, int]]) -> dict[str, int]:
    levels: dict[str, int] = {}
    for name, level in moves:
        if name in levels:
            raise CommandError(f"Feature {name} was specified more than once.")
        levels[name] = level
    return levels


async def _update(
    options: QuorumOptions,
    levels: dict[str, int],
    upgrade_type: UpgradeType,
    action: str,
    dry_run: bool,
    output: Output,
) -> None:
    async with admin(options, bootstrap_controller=options.bootstrap_controller) as client:
        results = await client.update_features(levels, upgrade_type, validate_only=dry_run)
    rows = [
        UpdateRow(name, levels[name], action, dry_run, None if error is None else error.message)
        for name, error in sorted(results.items())
    ]
    output.rows(rows, _updated)
    failed = sum(row.error is not None for row in rows)
    if failed:
        raise CommandError(f"{failed} out of {len(rows)} operation(s) failed.")


def _updated(row: UpdateRow) -> str:
    to = "" if row.action == "disable" else f" to {row.level}"
    if row.error is not None:
        return f"{'Can' if row.dry_run else 'Could'} not {row.action} {row.feature}{to}. {row.error}"
    done = row.action + ("d" if row.action.endswith("e") else "ed")
    return f"{row.feature} {'can be' if row.dry_run else 'was'} {done}{to}."


command = Command(
    name="features",
    description="This tool manages feature flags in Kafka.",
    family=Family.ARGPARSE4J,
    prog="kafka-features",
    help_exit=0,
    options=QuorumOptions,
    exclusive=(Exclusive(names=("bootstrap-server", "bootstrap-controller"), required=True),),
    subcommands=(
        Subcommand(
            name="describe", help="Show the features and their levels.", options=QuorumOptions, run=describe
        ),
        Subcommand(name="upgrade", help="Raise feature levels.", options=UpgradeOptions, run=upgrade),
        Subcommand(name="downgrade", help="Lower feature levels.", options=DowngradeOptions, run=downgrade),
        Subcommand(name="disable", help="Disable features.", options=DisableOptions, run=disable),
        Subcommand(
            name="version-mapping",
            help="Show the feature levels of a release.",
            options=VersionMapping,
            run=version_mapping,
        ),
        Subcommand(
            name="feature-dependencies",
            help="Show which features a feature level needs.",
            options=FeatureDependencies,
            run=feature_dependencies,
        ),
    ),
    examples=(
        Example(
            "Show the features of the cluster and their levels:",
            "kcli features --bootstrap-server localhost:9092 describe",
        ),
        Example(
            "Check whether the cluster can be upgraded to the features of a release:",
            "kcli features --bootstrap-server localhost:9092 upgrade \\\n  --release-version 4.1 --dry-run",
        ),
    ),
    exit_status=(
        SUCCESS,
        (1, "The command failed, or the change of at least one feature failed, or the options are wrong."),
        INTERRUPTED,
    ),
)
