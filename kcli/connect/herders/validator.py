"""The interface of the validation of configurations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kcli.connect.config.infos import ConfigInfos, KeyInfo
from kcli.connect.config.plugin import Plugin
from kcli.connect.model import Config


class Validator(Protocol):
    def plugins(self, *, connectors_only: bool) -> Sequence[Plugin]: ...

    async def plugin_config(self, name: str, version: str | None) -> Sequence[KeyInfo]:
        """The keys of a plugin. Raises NotFound, BadRequest and RestError with Java's messages."""
        ...

    async def validate(self, config: Config) -> ConfigInfos:
        """Raises BadRequest if the class of the connector is missing or unknown."""
        ...
