from __future__ import annotations

import pytest

from kcli.config import features
from kcli.config.features import (
    FEATURES,
    LATEST_PRODUCTION,
    FeatureError,
    check_dependencies,
    effective_levels,
    metadata_version,
    metadata_version_of_release,
    supported_ranges,
)


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("3.3-IV3", 7),
        ("3.3", 7),
        ("3.9", 21),
        ("4.0", 25),
        ("4.0.1", 25),
        ("4.0-IV1", 23),
        ("4.1", 27),
        ("4.2", 29),
    ],
)
def test_releases_and_levels(text: str, level: int) -> None:
    assert metadata_version_of_release(text) == metadata_version(level)


def test_4_1_is_the_latest_for_production() -> None:
    assert (LATEST_PRODUCTION.level, LATEST_PRODUCTION.name) == (27, "4.1-IV1")
    assert LATEST_PRODUCTION.is_production
    assert not metadata_version(28).is_production


@pytest.mark.parametrize("text", ["3.2", "9.9", "", "4", "4.1-IV9"])
def test_unknown_releases_are_named(text: str) -> None:
    with pytest.raises(FeatureError) as refused:
        metadata_version_of_release(text)
    assert str(refused.value) == (
        f"Version {text} is not a valid version. "
        "The minimum version is 3.3-IV3 and the maximum version is 4.2-IV1"
    )


def test_unknown_levels_are_named() -> None:
    with pytest.raises(FeatureError, match=r"level 3\. Valid feature levels are from 7 to 29\.$"):
        metadata_version(3)
    with pytest.raises(FeatureError, match=r"^No feature:group\.version with feature level 99$"):
        FEATURES["group.version"].at(99)
    with pytest.raises(FeatureError, match=r"^No feature:streams\.version with feature level 1$"):
        FEATURES["streams.version"].at(1)
    assert FEATURES["streams.version"].at(1, unstable=True).level == 1


@pytest.mark.parametrize(
    ("release", "levels"),
    [
        ("4.1", (1, 2, 1, 1, 0, 0)),
        ("4.0", (1, 2, 1, 0, 0, 0)),
        ("4.0-IV1", (1, 0, 1, 0, 0, 0)),
        ("3.9", (1, 0, 0, 0, 0, 0)),
        ("3.8", (0, 0, 0, 0, 0, 0)),
        ("4.2", (1, 2, 1, 1, 1, 1)),
    ],
)
def test_a_release_has_default_feature_levels(release: str, levels: tuple[int, ...]) -> None:
    version = metadata_version_of_release(release)
    assert tuple(feature.default_level(version) for feature in FEATURES.values()) == levels


def test_a_node_registers_its_range_of_each_feature() -> None:
    assert supported_ranges() == {
        "eligible.leader.replicas.version": (0, 1),
        "group.version": (0, 1),
        "kraft.version": (0, 1),
        "metadata.version": (7, 27),
        "share.version": (0, 1),
        "transaction.version": (0, 2),
    }
    assert supported_ranges(unstable=True)["metadata.version"] == (7, 29)
    assert supported_ranges(unstable=True)["streams.version"] == (0, 1)


def test_levels_of_a_new_cluster() -> None:
    assert effective_levels({}, None, dynamic_quorum=True) == {
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "kraft.version": 1,
        "metadata.version": 27,
        "share.version": 0,
        "streams.version": 0,
        "transaction.version": 2,
    }
    assert effective_levels({"share.version": 1}, None, dynamic_quorum=False)["share.version"] == 1
    assert effective_levels({"metadata.version": 20}, None, dynamic_quorum=False)["metadata.version"] == 20
    assert effective_levels({}, None, dynamic_quorum=False)["kraft.version"] == 0


def test_refusals_at_format_time() -> None:
    release = metadata_version_of_release
    with pytest.raises(
        FeatureError, match=r"^Use --release-version instead of --feature metadata\.version=X"
    ):
        effective_levels({"metadata.version": 20}, release("4.0"), dynamic_quorum=False)
    with pytest.raises(FeatureError, match=r"^metadata\.version 4\.2-IV0 is not yet stable\.$"):
        effective_levels({}, release("4.2-IV0"), dynamic_quorum=False)
    with pytest.raises(FeatureError, match=r"^Unsupported feature: bogus\. Supported features are: eligible"):
        effective_levels({"bogus": 1}, None, dynamic_quorum=False)
    with pytest.raises(FeatureError, match=r"^Cannot set kraft\.version to 1 unless one of the flags"):
        effective_levels({"kraft.version": 1}, None, dynamic_quorum=False)
    with pytest.raises(FeatureError, match=r"^Cannot set kraft\.version to 0 if one of the flags"):
        effective_levels({"kraft.version": 0}, None, dynamic_quorum=True)
    with pytest.raises(
        FeatureError, match=r"could not be set to 1 because it depends on metadata\.version level 23"
    ):
        effective_levels({features.ELIGIBLE_LEADER_REPLICAS_VERSION: 1}, release("3.9"), dynamic_quorum=False)


def test_dependencies_of_a_set_of_levels() -> None:
    check_dependencies({"metadata.version": 23, "eligible.leader.replicas.version": 1})
    with pytest.raises(FeatureError, match="kraft"):
        check_dependencies({"metadata.version": 20, "kraft.version": 1})
