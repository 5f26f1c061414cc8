"""The error that a job raises if the user can correct its cause."""

from __future__ import annotations

import importlib.util

from kcli.errors import KcliError


class JobError(KcliError):
    """Raised if a job cannot run with its options or inputs. The message is one line for the user."""


def require(module: str, package: str) -> None:
    """Checks that an optional library is installed. Raises JobError if it is missing."""
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:  # raised if the parent package is missing
        spec = None
    if spec is None:
        raise JobError(f"{module} is not installed: pip install '{package}'")
