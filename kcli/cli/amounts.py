"""Formats amounts for people."""

from __future__ import annotations

MISSING = "-"
"""The text of a value that is not known."""


def bytes_text(value: float | None) -> str:
    """Formats a number of bytes: 12 B, 1.2 kB, 3.4 MB."""
    if value is None:
        return MISSING
    for limit, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if value >= limit:
            return f"{value / limit:.1f} {unit}"
    return f"{value:.0f} B"
