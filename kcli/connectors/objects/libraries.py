"""Imports the libraries of the extra `objects` when a connector needs them."""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType

from kcli.formats.connect.errors import ConnectException


def library(name: str) -> ModuleType:
    """Imports a library. Raises ConnectException if it is not installed."""
    check_library(name)
    return importlib.import_module(name)


def check_library(name: str) -> None:
    """Raises ConnectException if a library is not installed. It does not import the library."""
    if importlib.util.find_spec(name.partition(".")[0]) is None:
        raise ConnectException(
            f"The Python library {name.partition('.')[0]} is missing. Install it:"
            " pip install 'kcli-streaming[objects]'"
        )
