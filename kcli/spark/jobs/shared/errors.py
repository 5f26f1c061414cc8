"""The error of a job whose cause the user can correct."""

from __future__ import annotations

import importlib.util

from kcli.errors import KcliError


class JobError(KcliError):
    """The job cannot run with these options or inputs. The message is one line for the user."""


def require(module: str, package: str) -> None:
    """Checks that an optional library is installed. Raises JobError if it is missing."""
    try:
        found = importlib.util.find_spec(module)
    except ModuleNotFoundError:  # raised if the parent package is missing
        found = None
    if found is None:
        raise JobError(f"{module} is not installed: pip install '{package}'")
