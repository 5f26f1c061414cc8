"""replica-verification: what it makes of the copies that brokers send."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.cli.main import run
from kcli.cli.tools.replica_verification import ReplicaBatch, compare

ONE, TWO, THREE = ReplicaBatch(4, 11), ReplicaBatch(9, 22), ReplicaBatch(14, 33)


def test_copies_that_are_the_same() -> None:
    assert compare("t-0", 0, 15, {1: [ONE, TWO, THREE], 2: [ONE, TWO, THREE]}) == (15, [], False)


def test_only_what_all_have_and_is_committed_counts() -> None:
    assert compare("t-0", 0, 15, {1: [ONE, TWO, THREE], 2: [ONE]}) == (5, [], False)
    assert compare("t-0", 0, 10, {1: [ONE, TWO, THREE], 2: [ONE, TWO, THREE]}) == (10, [], False)
    assert compare("t-0", 3, 10, {1: [], 2: [ONE]}) == (3, [], False)


def test_other_offsets_end_it() -> None:
    assert compare("t-0", 0, 15, {2: [ONE, THREE], 1: [ONE, TWO]}) == (
        5,
        ["partition t-0: replica 1's offset 9 doesn't match replica 2's offset 14"],
        True,
    )


def test_different_bytes_at_an_offset_are_reported() -> None:
    assert compare("t-0", 0, 15, {1: [ONE, TWO], 2: [ReplicaBatch(4, 99), TWO]}) == (
        10,
        [
            "partition t-0 has unmatched checksum at offset 4; replica 1's checksum 11; replica 2's checksum 99"
        ],
        False,
    )


@pytest.mark.usefixtures("kafkas_script")
def test_it_says_that_it_goes_away_and_what_it_needs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(["replica-verification", "--report-interval-ms", "5"]) == 1
    assert capsys.readouterr().err.startswith('Missing required argument "[broker-list]"\n')
    missing = str(tmp_path / "none.properties")
    words = ["--broker-list", "127.0.0.1:1", "--command-config", missing]
    assert run(["replica-verification", *words]) == 1
    assert capsys.readouterr().err == (
        "WARN This tool is deprecated and may be removed in a future major release.\n" + missing + "\n"
    )


def test_an_invalid_pattern_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["replica-verification", "--broker-list", "127.0.0.1:1", "--topics-include", "("]
    assert run(words) == 1
    assert capsys.readouterr().err.endswith("( is an invalid regex.\n")
