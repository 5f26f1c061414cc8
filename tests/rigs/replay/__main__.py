"""Runs the stories on the command line, or all stories, and prints the differences."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from rigs.replay import CLI, CLI_2, Compared, replay, stories


def _show(compared: Compared) -> None:
    step, came = compared.recorded, compared.came
    assert came is not None
    print(
        f"## {compared.id} {step.get('tool', '')} {' '.join(step.get('argv', ()))}: {', '.join(compared.differences)}"
    )
    for stream in ("stdout", "stderr"):
        if stream in compared.differences:
            print(f"-- recorded {stream}\n{step[stream]}\n-- came\n{getattr(came, stream)}")


def main() -> None:
    """Runs the stories on the command line, or all stories, and prints the differences."""
    wanted = sys.argv[1:]
    found = stories(CLI) | stories(CLI_2)
    for name in wanted or found:
        story_name, _, number = name.partition("/")
        with tempfile.TemporaryDirectory() as directory:
            started = time.monotonic()
            counts = {True: 0, False: 0}
            for compared in replay(found[story_name], Path(directory)):
                counts[not compared.differences] += 1
                if compared.differences and (not number or compared.id.endswith(f"/{number}")):
                    _show(compared)
            seconds = time.monotonic() - started
            print(f"== {story_name}: {counts[True]} equal, {counts[False]} different, {seconds:.0f} s")


if __name__ == "__main__":
    main()
