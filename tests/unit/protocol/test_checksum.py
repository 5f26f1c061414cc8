"""The checksum comes from the extension in C, without the modules that its package imports."""

from __future__ import annotations

import subprocess
import sys

import crc32c as package

from kcli.protocol import checksum


def test_the_extension_gives_the_checksums_of_its_package() -> None:
    assert checksum.crc32c(b"123456789") == 0xE3069283  # the check value of CRC-32C
    assert checksum.crc32c(b"56789", checksum.crc32c(b"1234")) == package.crc32c(b"123456789")
    assert checksum.crc32c(memoryview(bytearray(b"123456789"))) == 0xE3069283


def test_a_node_imports_no_parsers_of_packages() -> None:
    unwanted = "{'importlib.metadata', 'email', 'zipfile', 'argparse'}"
    code = f"import sys, kcli.server.main; print({unwanted} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
