"""Values of topics and groups that are stored in the metadata, as far as this release can use them.

A value was valid when it was stored, but by the rules of that release. A node that refused to read such a value would
never start again, and no client could correct it. So the node logs the value and uses the default of its key.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import lru_cache

from kcli.config.definition import ConfigDef, ConfigError

_log = logging.getLogger(__name__)

# The values whose log line is remembered. Each value is logged once, although many partitions read it.
_REPORTED_MAX = 1000


def usable(table: ConfigDef, stored: Mapping[str, str]) -> Mapping[str, str]:
    """The stored values that are valid, and the values of unknown keys. Logs every other value once."""
    texts = {}
    for name, text in stored.items():
        try:
            if name in table:
                table[name].parse(text)
        except ConfigError as error:
            _report(error.message)
        else:
            texts[name] = text
    return texts


@lru_cache(_REPORTED_MAX)
def _report(message: str) -> None:
    _log.error("A stored config is not applied, its default takes its place: %s", message)
