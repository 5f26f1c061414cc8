"""What the parts of a node offer to handlers and metrics: objects by name.

A handler or a group of beans declares a dataclass of the objects that it takes, and gets exactly these.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Offers = Mapping[str, object]

KindT = TypeVar("KindT", bound="DataclassInstance")


def filled(kind: type[KindT], offers: Offers) -> KindT:
    """Makes a dataclass whose fields are filled by name from the offers. Raises KeyError if no part offers a name."""
    return kind(**{field.name: offers[field.name] for field in dataclasses.fields(kind)})
