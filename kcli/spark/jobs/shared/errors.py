"""The error of a job, for one line to the user."""

from __future__ import annotations

import importlib.util

from kcli.errors import KcliError


class JobError(KcliError):
    """The job cannot be done as asked: one line for the user."""


def require(module: str, package: str) -> None:
    """JobError if a library is missing that not every job needs."""
    try:
        found = importlib.util.find_spec(module)
    except ModuleNotFoundError:  # of the package around it
        found = None
    if found is None:
        raise JobError(f"{module} is not installed: pip install '{package}'")
