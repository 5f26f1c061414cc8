"""A registry that decides: its state, its settings, and its parser of schemas."""

from __future__ import annotations

from dataclasses import dataclass

from kcli.formats.registry.documents import ConfigDocument
from kcli.registry.decisions.configs import Settings, config_in_scope, mode_in_scope
from kcli.registry.decisions.records import Mode
from kcli.registry.decisions.schemas import SchemaParser
from kcli.registry.decisions.state import RegistryState


@dataclass(frozen=True, slots=True)
class Rules:
    """All functions of this room that answer a request take the rules as their first argument."""

    state: RegistryState
    settings: Settings
    parser: SchemaParser

    @classmethod
    def of(cls, settings: Settings) -> Rules:
        """Returns the rules of a registry without records."""
        state = RegistryState()
        parser = SchemaParser(
            state, strict_references=settings.strict_references, cache_size=settings.cached_schemas
        )
        return cls(state, settings, parser)

    def config_of(self, scope: str | None) -> ConfigDocument:
        """Returns the config that applies to a scope."""
        return config_in_scope(self.state, self.settings, scope)

    def mode_of(self, scope: str | None) -> Mode:
        """Returns the mode that applies to a scope."""
        return mode_in_scope(self.state, scope)

    def validates_fields(self, config: ConfigDocument) -> bool:
        """Whether a config, or else the properties, checks reserved fields."""
        return self.settings.validate_fields if config.validate_fields is None else config.validate_fields

    def validates_new_schemas(self, config: ConfigDocument) -> bool:
        """Whether a config, or else the properties, adds the checks of schemas that have no values yet."""
        if config.validate_new_schemas is None:
            return self.settings.validate_new_schemas
        return config.validate_new_schemas
