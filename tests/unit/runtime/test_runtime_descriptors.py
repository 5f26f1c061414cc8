"""The limit of descriptors, and the reserve that clients cannot use."""

from __future__ import annotations

import errno
import resource

import pytest

from kcli.runtime import descriptors
from kcli.runtime.descriptors import (
    MAX_WITHOUT_LIMIT,
    RESERVE_MAX,
    is_last_reserved,
    is_reserved,
    is_shortage,
    raise_limit,
    reserved_count,
)

Limits = tuple[int, int]


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[Limits]:
    """The limits of the process, the newest last."""
    found: list[Limits] = [(1024, 20_000)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: found[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: found.append(limits))
    return found


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((1024, 20_000), (20_000, 20_000)),
        ((1024, resource.RLIM_INFINITY), (MAX_WITHOUT_LIMIT, resource.RLIM_INFINITY)),
    ],
)
def test_the_soft_limit_becomes_the_hard_limit(limits: list[Limits], before: Limits, after: Limits) -> None:
    limits[:] = [before]
    assert raise_limit() == (before[0], after[0])
    assert limits[-1] == after


@pytest.mark.parametrize("limit", [4096, resource.RLIM_INFINITY])
def test_a_limit_that_is_high_enough_stays(limits: list[Limits], limit: int) -> None:
    limits[:] = [(limit, limit)]
    assert raise_limit() == (limit, limit)
    assert limits == [(limit, limit)]


def test_a_system_that_refuses_a_higher_limit_keeps_the_lower_one(
    limits: list[Limits], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "setrlimit", refuses)
    assert raise_limit() == (1024, 1024)


def test_connections_stop_before_files_and_files_before_other_work(limits: list[Limits]) -> None:
    assert reserved_count(1024) == 128
    numbers = (895, 896, 959, 960)
    assert [is_reserved(number) for number in numbers] == [False, True, True, True]
    assert [is_last_reserved(number) for number in numbers] == [False, False, False, True]


def test_the_reserve_is_never_much_larger_than_needed() -> None:
    assert reserved_count(1 << 20) == RESERVE_MAX
    assert reserved_count(64) == 32


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError(errno.EMFILE, ""), True),
        (OSError(errno.ENFILE, ""), True),
        (OSError(errno.ENOMEM, ""), True),
        (OSError(errno.EIO, ""), False),
        (OSError(errno.ENOSPC, ""), False),
        (OSError("a text without a number"), False),
        (ValueError(), False),
    ],
)
def test_only_some_errors_report_a_shortage(error: Exception, expected: bool) -> None:
    assert is_shortage(error) is expected


def test_a_process_without_a_limit_has_a_reserve_too(limits: list[Limits]) -> None:
    limits[:] = [(resource.RLIM_INFINITY, resource.RLIM_INFINITY)]
    assert not is_reserved(1000)
    assert is_reserved(descriptors.MAX_WITHOUT_LIMIT)
