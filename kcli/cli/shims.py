"""Kafka's script names, as two-line shell scripts: `python -m kcli.cli.shims [DIRECTORY]`.

A shim runs the kcli of the checkout it lies in (../.venv/bin), of its own directory, or else of the PATH.
"""

from __future__ import annotations

import os
import sys

from kcli.cli.registry import TOOLS

EXECUTABLE = 0o755


def shims() -> dict[str, str]:
    """File name -> script, for every tool that stands for one of Kafka's."""
    return {tool.script: _shim(tool.name) for tool in TOOLS.values() if tool.script}


def _shim(name: str) -> str:
    # `exec` is a special built-in: the assignment before it holds for the look-up of kcli.
    here = '$(dirname "$0")'
    return f'#!/bin/sh\nPATH="{here}/../.venv/bin:{here}:$PATH" exec kcli {name} "$@"\n'


def main() -> None:
    """Write every shim into a directory (bin/ of the checkout unless named)."""
    target = sys.argv[1] if len(sys.argv) > 1 else "bin"
    os.makedirs(target, exist_ok=True)
    for name, text in shims().items():
        path = os.path.join(target, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, EXECUTABLE)


if __name__ == "__main__":
    main()
