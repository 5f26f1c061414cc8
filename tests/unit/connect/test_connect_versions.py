from __future__ import annotations

from itertools import pairwise

import pytest

from kcli.connect.config.versions import InvalidVersion, VersionRange, required_range


@pytest.mark.parametrize(
    ("text", "shown", "inside", "outside"),
    [
        ("4.1.0", "[4.1.0,4.1.0]", ["4.1.0", "4.1"], ["4.1.1", "4.1.0-rc1", "4"]),
        ("[1.0]", "[1.0,1.0]", ["1.0", "1", "1.0.0", "1-ga", "1.0-final"], ["1.1", "1.0-sp"]),
        ("[4.0,5.0)", "[4.0,5.0)", ["4.0", "4.10", "4.9.9", "5.0-snapshot"], ["5.0", "3.9", "4.0-beta"]),
        ("(1.0,2.0]", "(1.0,2.0]", ["1.0.1", "2"], ["1.0", "2.0.1"]),
        ("[1.0,)", "[1.0,)", ["1.0", "99"], ["0.9"]),
        ("(,1.0]", "(,1.0]", ["0.1", "1.0", "1.0-alpha-1"], ["1.1"]),
        ("[1,2),[3,4)", "[1,2),[3,4)", ["1.5", "3"], ["2", "4"]),
        (" [1.0 , 2.0) ", "[1.0,2.0)", ["1.5"], ["2"]),
        ("x", "[x,x]", ["x"], ["1", "y"]),
        ("", "[,]", [""], ["4.1.0"]),
    ],
)
def test_versions_in_ranges(text: str, shown: str, inside: list[str], outside: list[str]) -> None:
    versions = VersionRange.parse(text)
    assert str(versions) == shown
    assert [version for version in inside if not versions.contains(version)] == []
    assert [version for version in outside if versions.contains(version)] == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1.0", "Unbounded range: [1.0"),
        ("(1.0)", "Single version must be surrounded by []: (1.0)"),
        ("[2,1]", "Range defies version ordering: [2,1]"),
        ("[1,2],3", "Only fully-qualified sets allowed in multiple set scenario: [1,2],3"),
    ],
)
def test_texts_that_are_no_range(text: str, message: str) -> None:
    with pytest.raises(InvalidVersion) as refused:
        required_range(text)
    assert str(refused.value) == message


def test_every_version_is_accepted_without_a_range() -> None:
    assert required_range(None) is None
    assert required_range("latest") is None


def test_qualifiers_come_before_the_release() -> None:
    order = [
        "1-alpha",
        "1-beta",
        "1-m2",
        "1-rc1",
        "1-cr2",
        "1-snapshot",
        "1",
        "1-sp",
        "1-other",
        "1.0.1",
        "1.1",
    ]
    for low, high in pairwise(order):
        assert VersionRange.parse(f"({low},)").contains(high), (low, high)
        assert not VersionRange.parse(f"[{high},)").contains(low), (low, high)
