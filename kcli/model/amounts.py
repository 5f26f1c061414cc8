"""Formats amounts and lists of names for people."""

from __future__ import annotations

from collections.abc import Sequence

MISSING = "-"
"""The text that is shown for an unknown value."""

NAMES_MAX = 20
"""The most names that `listed` shows, so that a question about the names fits on a screen."""


def bytes_text(value: float | None) -> str:
    """Formats a number of bytes: 12 B, 1.2 kB, 3.4 MB."""
    if value is None:
        return MISSING
    for limit, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if value >= limit:
            return f"{value / limit:.1f} {unit}"
    return f"{value:.0f} B"


def listed(names: Sequence[str]) -> str:
    """Returns names as text: the first NAMES_MAX names, and the number of the other names."""
    shown = ", ".join(names[:NAMES_MAX])
    return shown if len(names) <= NAMES_MAX else f"{shown} and {len(names) - NAMES_MAX} more"


def counted(count: int, noun: str, plural: str = "") -> str:
    """Returns a number with its noun: 1 topic, 2 topics."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"
