"""Reads the file that `--config` names, which contains defaults for the options of jobs.

The command line takes precedence over the file. The key of an option has dots in place of dashes. A key such as
`bootstrap.servers` sets the option of every job. A key such as `export.format` sets the option --format only for the
job `export`. An option with several values has a line break (`\\n` in the file) between two of them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from kcli.command.options import Argument, Option, UsageError
from kcli.config.properties import load
from kcli.spark.submit import JOBS

ALIASES = {"bootstrap.servers": "bootstrap.server"}
"""Settings of Kafka's properties files whose option has another name, with the name of the option."""

SHARED_KEYS = frozenset(
    {
        "trigger.interval",
        "compression.type",
        "max.offsets.per.trigger",
        "on.bad.record",
        "dead.letter.topic",
        "read.committed",
    }
)
"""Keys that a file for all jobs may contain. A job without such an option ignores the key without a warning."""


@dataclass(frozen=True, slots=True)
class Defaults:
    """The defaults of one job."""

    words: tuple[str, ...] = ()
    """The defaults as command-line arguments."""
    unknown: tuple[str, ...] = ()
    """The keys of the file that are not options of the job."""


def load_defaults(path: str, job: str, known: list[Option], taken: Collection[str]) -> Defaults:
    """Reads the defaults of a job, except the options in `taken`. Raises UsageError if the file is invalid."""
    try:
        properties = load(path)
    except (OSError, ValueError) as error:
        raise UsageError(f"--config {path}: {error}") from None
    by_name = {option.name: option for option in known}
    words: list[str] = []
    unknown: list[str] = []
    for key, value in properties.items():
        owner, _, rest = key.partition(".")
        if owner in JOBS and owner != job:
            continue
        name = rest if owner == job else key
        option = by_name.get(ALIASES.get(name, name).replace(".", "-"))
        if option is None:
            if key not in SHARED_KEYS:
                unknown.append(key)
        elif option.name not in taken:
            words += _words(option, value, f"--config {path}: {key}")
    return Defaults(tuple(words), tuple(unknown))


def _words(option: Option, value: str, place: str) -> list[str]:
    if option.argument is not Argument.NONE:
        return [f"--{option.name}={part}" for part in (value.split("\n") if option.repeatable else [value])]
    if value.lower() not in ("true", "false"):
        raise UsageError(f"{place} is {value!r}; expected true or false")
    return [f"--{option.name}"] if value.lower() == "true" else []
