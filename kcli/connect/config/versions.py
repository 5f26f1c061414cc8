"""Versions of plugins and ranges of versions, by the rules of Maven, as `*.plugin.version` has them (KIP-891).

`1.2` and `[1.2]` mean exactly this version. `[1.0,2.0)` is a range, and `[1.0,2.0),[3.0,)` are two ranges.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kcli.model.java_text import natural, trim

LATEST = "latest"
"""The version that stands for the newest one, as a missing version does."""

_PARTS = re.compile(r"[0-9]+|[^0-9.\-]+|[.\-]")
# Maven's qualifiers in order. The empty text is a release.
_QUALIFIERS = ("alpha", "beta", "milestone", "rc", "snapshot", "", "sp")
_SYNONYMS = {"a": "alpha", "b": "beta", "m": "milestone", "cr": "rc", "ga": "", "final": "", "release": ""}

_Part = tuple[int, int, str]


class InvalidVersion(ValueError):
    """A text is no range of versions. `str()` is Maven's text."""


@dataclass(frozen=True, slots=True)
class _Restriction:
    low: str | None
    high: str | None
    has_low: bool
    has_high: bool

    def contains(self, version: str) -> bool:
        key = _key(version)
        if self.low is not None and (key < _key(self.low) or (key == _key(self.low) and not self.has_low)):
            return False
        return self.high is None or key < _key(self.high) or (key == _key(self.high) and self.has_high)

    def __str__(self) -> str:
        opening, closing = "[" if self.has_low else "(", "]" if self.has_high else ")"
        return f"{opening}{self.low or ''},{self.high or ''}{closing}"


@dataclass(frozen=True, slots=True)
class VersionRange:
    restrictions: Sequence[_Restriction]

    @staticmethod
    def parse(text: str) -> VersionRange:
        """Raises InvalidVersion."""
        rest = text = trim(text)
        if rest[:1] not in ("[", "("):
            # A plain version is a hard requirement in Connect, although it is only a hint in Maven.
            return VersionRange((_Restriction(text, text, has_low=True, has_high=True),))
        restrictions: list[_Restriction] = []
        while rest[:1] in ("[", "("):
            end = min((rest.find(bracket) for bracket in "])" if bracket in rest), default=-1)
            if end < 0:
                raise InvalidVersion(f"Unbounded range: {text}")
            restrictions.append(_restriction(rest[: end + 1]))
            rest = trim(trim(rest[end + 1 :]).removeprefix(","))
        if rest:
            raise InvalidVersion(f"Only fully-qualified sets allowed in multiple set scenario: {text}")
        return VersionRange(tuple(restrictions))

    def contains(self, version: str) -> bool:
        return any(restriction.contains(version) for restriction in self.restrictions)

    def __str__(self) -> str:
        return ",".join(map(str, self.restrictions))


def required_range(text: str | None) -> VersionRange | None:
    """The range of a configuration. None means every version. Raises InvalidVersion."""
    return None if text is None or text == LATEST else VersionRange.parse(text)


def _restriction(text: str) -> _Restriction:
    has_low, has_high = text[0] == "[", text[-1] == "]"
    low, comma, high = text[1:-1].partition(",")
    low, high = trim(low), trim(high)
    if not comma:
        if not (has_low and has_high):
            raise InvalidVersion(f"Single version must be surrounded by []: {text}")
        return _Restriction(low, low, has_low, has_high)
    if low and high and _key(high) < _key(low):
        raise InvalidVersion(f"Range defies version ordering: {text}")
    return _Restriction(low or None, high or None, has_low, has_high)


def _key(version: str) -> list[_Part]:
    """The order of versions: numbers part by part, and qualifiers such as `rc` before the release.

    Zeros before a qualifier or at the end do not count, so that 1.0-rc1 equals 1-rc1, and 1.0 equals 1.
    """
    key: list[_Part] = []
    for text in _PARTS.findall(version.lower()):
        if text not in ".-":
            part = _part(text)
            if part[0] != _NUMBER:
                _drop_zeros(key)
            key.append(part)
    _drop_zeros(key)
    # A version that is longer by a qualifier such as `rc` comes before the shorter one.
    return [*key, _RELEASE]


def _drop_zeros(key: list[_Part]) -> None:
    while key and key[-1] in (_ZERO, _RELEASE):
        key.pop()


def _part(text: str) -> _Part:
    number = natural(text)
    if number is not None:
        return _NUMBER, number, ""
    qualifier = _SYNONYMS.get(text, text)
    if qualifier in _QUALIFIERS:
        rank = _QUALIFIERS.index(qualifier) - _QUALIFIERS.index("")
        return (0, rank, "") if rank < 0 else (1, rank, "")
    return 1, len(_QUALIFIERS), qualifier


_NUMBER = 2
_ZERO: _Part = (_NUMBER, 0, "")
_RELEASE: _Part = (1, 0, "")
