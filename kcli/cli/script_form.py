"""Two forms of a command: started by the name of Kafka's script, or as `kcli COMMAND`.

If the user has started Kafka's script, output, errors and exit codes are those of Kafka. Started as `kcli`, a command
prints an error after a short usage, and ends with an exit code other than 0 after an error.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from kcli.cli.output import warn
from kcli.runtime.log_text import log_line

SCRIPT_VARIABLE = "KCLI_SCRIPT"
"""The environment variable with which a shim reports that the user has started Kafka's script."""


def is_kafkas_script() -> bool:
    """Whether the user has started Kafka's script."""
    return SCRIPT_VARIABLE in os.environ


def warn_of_failures(lines: Iterable[str], tool: str) -> None:
    """Writes lines about failed records to stderr. Under the name of Kafka's script, they are lines of a log, because
    Kafka's script writes only such lines about records."""
    for line in lines:
        if is_kafkas_script():
            line = log_line("ERROR", line, f"kcli.{tool}")
        warn(line)
