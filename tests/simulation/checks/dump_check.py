"""Runs `kcli dump-log` over the directory of a partition. The tool must report no fault after any crash.

Producer snapshots are not checked, because an old snapshot may be incomplete after a crash. A broker detects an
incomplete snapshot by its checksum when it reads the snapshot.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import tempfile

from kcli.cli.running import run_command
from kcli.cli.tools.dump_log.command import command
from kcli.runtime.disk import Disk, read_file
from kcli.storage.files import INDEX_SUFFIX, LOG_SUFFIX, SEGMENT_SUFFIXES, TIME_INDEX_SUFFIX

CHECKS = (
    ((INDEX_SUFFIX, TIME_INDEX_SUFFIX), ("--index-sanity-check",)),
    ((INDEX_SUFFIX, TIME_INDEX_SUFFIX), ("--verify-index-only",)),
    (SEGMENT_SUFFIXES, ("--deep-iteration",)),
)

EMPTY_BATCHES = re.compile(r"Found timestamp mismatch in :.*\n(  Index timestamp: \d+, log timestamp: -1\n)+")
"""Matches the report of dump-log about an empty batch that the cleaner has written.

This report is not a fault, because the time index contains the time of the empty batch.
"""

OFFSET_GAPS = re.compile(r"Non-consecutive offsets in .*\n(  \d+ is followed by \d+\n)+")


def dump_complaints(disk: Disk, path: str, *, compacted: bool = False) -> str:
    """Returns the faults of all files of the partition in `path`, or '' if there are no faults.

    If `compacted` is True, offsets may be missing, so reports about gaps do not count as faults.
    """
    with tempfile.TemporaryDirectory() as copy:
        names = [entry.name for entry in disk.list_dir(path) if not entry.is_dir]
        for name in names:
            with open(os.path.join(copy, name), "wb") as file:
                file.write(read_file(disk, f"{path}/{name}"))
        complaints = []
        for suffixes, options in CHECKS:
            files = [os.path.join(copy, name) for name in names if name.endswith(suffixes)]
            complaints.append(_complaints_of(files, options) if files else "")
        words = "".join(complaints)
        return OFFSET_GAPS.sub("", words) if compacted else words


def _complaints_of(files: list[str], options: tuple[str, ...]) -> str:
    said, printed = io.StringIO(), io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(printed):
        code = run_command(command, ["--files", ",".join(files), *options])
    words = EMPTY_BATCHES.sub("", said.getvalue())
    wrong = [line for line in printed.getvalue().splitlines() if "isvalid: false" in line]
    return words + "".join(f"{line}\n" for line in wrong) + (f"exit code {code}\n" if code else "")


def record_lines(disk: Disk, path: str) -> list[str]:
    """Returns the lines that dump-log prints for the records of a partition, segment by segment."""
    with tempfile.TemporaryDirectory() as copy:
        for entry in disk.list_dir(path):
            if entry.name.endswith(LOG_SUFFIX):
                with open(os.path.join(copy, entry.name), "wb") as file:
                    file.write(read_file(disk, f"{path}/{entry.name}"))
        files = ",".join(os.path.join(copy, name) for name in sorted(os.listdir(copy)))
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            run_command(command, ["--files", files, "--print-data-log"])
        return [line for line in printed.getvalue().splitlines() if line.startswith("| offset")]
