"""Configs and modes: those of a subject, of its context, and of all contexts."""

from __future__ import annotations

import enum
from dataclasses import dataclass, fields, replace

from kcli.formats.registry.contexts import DEFAULT_CONTEXT, GLOBAL_CONTEXT, Subject, beside, prefix_of
from kcli.formats.registry.documents import ConfigDocument, ConfigUpdate
from kcli.formats.schemas import CompatibilityPolicy
from kcli.registry.decisions.annotations import check_rule_set
from kcli.registry.decisions.errors import invalid_config, invalid_level
from kcli.registry.decisions.records import Mode
from kcli.registry.decisions.state import RegistryState


class Level(enum.StrEnum):
    """With which versions a new version must be compatible, and in which direction."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def is_transitive(self) -> bool:
        return self.endswith("_TRANSITIVE")

    @property
    def is_backward(self) -> bool:
        """Whether the new schema must read values of the old schema."""
        return self.startswith(("BACKWARD", "FULL"))

    @property
    def is_forward(self) -> bool:
        """Whether the old schema must read values of the new schema."""
        return self.startswith(("FORWARD", "FULL"))


@dataclass(frozen=True, slots=True)
class Settings:
    """What the properties of a registry decide about schemas.

    `strict_references` refuses a schema that reaches two versions of one reference. `cached_schemas` is the number of
    parsed schemas in memory.
    """

    level: Level = Level.BACKWARD
    validate_fields: bool = False
    validate_new_schemas: bool = True
    allow_empty_subject: bool = True
    allow_mode_changes: bool = True
    strict_references: bool = False
    cached_schemas: int = 1_000


# Fields that a subject inherits from the default context. The level is not among them: if only the context sets a
# level, Confluent's registry applies the level of the properties file to a subject that has a config of its own.
_INHERITED = (
    "normalize",
    "validate_fields",
    "validate_new_schemas",
    "validate_rules",
    "compatibility_policy",
    "compatibility_group",
)


def own_config(state: RegistryState, settings: Settings, scope: str | None) -> ConfigDocument | None:
    """Returns the config that a scope has. The default and the global context always have one."""
    config = state.configs.get(scope)
    if config is not None:
        return _with_level(config, settings)
    return ConfigDocument(compatibility_level=settings.level) if _is_top(scope) else None


def config_in_scope(state: RegistryState, settings: Settings, scope: str | None) -> ConfigDocument:
    """Returns the config that applies to a scope."""
    config = None if scope is None else own_config(state, settings, scope)
    if scope is None or config is None:
        levels = (state.configs.get(place) for place in _places(scope))
        return _with_level(next((level for level in levels if level is not None), ConfigDocument()), settings)
    top = own_config(state, settings, None) or ConfigDocument()
    missing = {name: getattr(top, name) for name in _INHERITED if getattr(config, name) is None}
    return replace(config, **missing)


def updated_config(old: ConfigDocument | None, update: ConfigUpdate) -> ConfigDocument:
    """Returns a config after an update. Raises RegistryError if the update is invalid."""
    config = _checked(update.config)
    changes = {
        item.name: getattr(config, item.name)
        for item in fields(ConfigDocument)
        if item.name in update.removed or getattr(config, item.name) is not None
    }
    return replace(old or ConfigDocument(), **changes)


def alias_of(state: RegistryState, subject: str) -> str:
    """Returns the subject that a request means. It is another one if the config of the subject has an alias."""
    config = state.configs.get(subject)
    return beside(subject, config.alias) if config is not None and config.alias else subject


def own_mode(state: RegistryState, scope: str | None) -> Mode | None:
    """Returns the mode that a scope has. The default and the global context always have one."""
    return state.modes.get(scope) or (Mode.READWRITE if _is_top(scope) else None)


def mode_in_scope(state: RegistryState, scope: str | None) -> Mode:
    """Returns the mode that applies to a scope."""
    modes = (state.modes.get(place) for place in _places(scope))
    return next((mode for mode in modes if mode is not None), Mode.READWRITE)


def _places(scope: str | None) -> tuple[str | None, ...]:
    """The scope, its context, and the global context."""
    context = DEFAULT_CONTEXT if scope is None else Subject.of(scope).context
    return scope, prefix_of(context) or None, prefix_of(GLOBAL_CONTEXT)


def _is_top(scope: str | None) -> bool:
    return scope is None or Subject.of(scope).context == GLOBAL_CONTEXT


def _with_level(config: ConfigDocument, settings: Settings) -> ConfigDocument:
    return config if config.compatibility_level else replace(config, compatibility_level=settings.level.value)


def _checked(config: ConfigDocument) -> ConfigDocument:
    """The config of an update, with its level and its policy in upper case."""
    check_rule_set(config.default_rule_set)
    check_rule_set(config.override_rule_set)
    level, policy = config.compatibility_level, config.compatibility_policy
    if level is not None and level.upper() not in list(Level):
        raise invalid_level()
    if policy is not None and policy.upper() not in (CompatibilityPolicy.STRICT, CompatibilityPolicy.LENIENT):
        raise invalid_config(f"Invalid compatibility policy {policy}. Valid values are strict and lenient")
    return replace(
        config,
        compatibility_level=None if level is None else level.upper(),
        compatibility_policy=None if policy is None else policy.upper(),
    )
