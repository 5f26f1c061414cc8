"""The checksum CRC-32C of record batches, from the C extension of the library crc32c.

The package `crc32c` asks for its own version when it is imported. For this, it imports `importlib.metadata` with
parsers of e-mails and ZIP files. These modules take 2 MB of memory and 30 ms of CPU time in every node, so this module
loads the extension without the package.
"""

from __future__ import annotations

import importlib.util
from importlib.machinery import PathFinder
from typing import Protocol, TypeAlias

__all__ = ["crc32c"]

EXTENSION = "_crc32c"

Bytes: TypeAlias = bytes | bytearray | memoryview


class Checksum(Protocol):
    """Returns the CRC-32C of bytes. `value` is the checksum of the bytes in front of them."""

    def __call__(self, data: Bytes, value: int = 0, /) -> int: ...


def _loaded() -> Checksum:
    package = importlib.util.find_spec("crc32c")
    spec = PathFinder.find_spec(EXTENSION, package.submodule_search_locations if package else None)
    if spec is None or spec.loader is None:
        from crc32c import crc32c as of_package  # another version of the library may have another extension

        return of_package
    extension = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(extension)
    checksum: Checksum = extension.crc32c
    return checksum


crc32c = _loaded()
