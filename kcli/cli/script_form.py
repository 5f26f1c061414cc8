"""Two forms of a command: started by the name of Kafka's script, or as `kcli COMMAND`.

If the user has started Kafka's script, output, errors and exit codes are those of Kafka. Started as `kcli`, a command
prints an error after a short usage, and ends with an exit code other than 0 after an error.
"""

from __future__ import annotations

import os

SCRIPT_VARIABLE = "KCLI_SCRIPT"
"""The environment variable with which a shim reports that the user has started Kafka's script."""


def is_kafkas_script() -> bool:
    """Whether the user has started Kafka's script."""
    return SCRIPT_VARIABLE in os.environ
