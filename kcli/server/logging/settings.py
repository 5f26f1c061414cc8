"""Reads the settings of the log from the configuration of a node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from kcli.config.broker import BrokerConfig
from kcli.config.definition import invalid_value
from kcli.model.java_text import trim
from kcli.server.logging import LogSettings
from kcli.server.logging.names import LEVELS
from kcli.server.logging.rotation import FileLimits

FORMAT_KEY = "kcli.log.format"
LEVELS_KEY = "kcli.log.levels"


def log_settings(config: BrokerConfig, directory: str | None) -> LogSettings:
    """Returns the settings of the log. `directory` is the directory for the files. Raises ConfigError if a level is
    invalid.
    """
    return LogSettings(
        directory=Path(directory) if directory else None,
        format=config.text(FORMAT_KEY),
        levels=_levels(config.listed(LEVELS_KEY)),
        limits=FileLimits(
            max_bytes=config.integer("kcli.log.file.max.bytes"),
            files_max=config.integer("kcli.log.files.kept"),
        ),
    )


def _levels(items: Iterable[str]) -> Mapping[str, int]:
    levels = {}
    for item in items:
        name, equals, level = (trim(part) for part in item.partition("="))
        if not equals or not name or level not in LEVELS:
            raise invalid_value(LEVELS_KEY, item, f"expected logger=level with one of {', '.join(LEVELS)}")
        levels[name] = LEVELS[level]
    return levels
