"""Undo files: the replicas of the partitions of a run, before the run."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from kcli.client.reassign.assignment import Assignment, ReassignError, assignment_json

NAME = "reassignment-undo-%Y%m%dT%H%M%S.%fZ.json"


def write_undo(directory: Path, before: Assignment) -> Path:
    """Writes the replicas to a new file, and returns its path. Raises ReassignError if this is not possible."""
    path = directory / datetime.now(UTC).strftime(NAME)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(assignment_json(before) + "\n")
    except OSError as error:
        raise ReassignError(f"Cannot write the undo file {path}: {error.strerror}") from None
    return path
