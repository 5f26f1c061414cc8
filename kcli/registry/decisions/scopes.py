"""Requests for the configs and modes of subjects, of contexts and of the registry, whose scope is None."""

from __future__ import annotations

from kcli.formats.registry.contexts import GLOBAL_CONTEXT, Subject, is_valid, prefix_of, scope_of
from kcli.formats.registry.documents import ConfigDocument, ConfigUpdate, ModeDocument
from kcli.registry.decisions.configs import own_config, own_mode, updated_config
from kcli.registry.decisions.decision import Decision
from kcli.registry.decisions.deletion import check_not_readonly
from kcli.registry.decisions.errors import (
    config_not_set,
    forward_not_global,
    invalid_mode,
    invalid_subject,
    mode_not_set,
    not_permitted,
    reference_exists,
    subject_not_found,
)
from kcli.registry.decisions.records import (
    Entry,
    KeyType,
    Mode,
    ScopeKey,
    clear_subject_value,
    config_value,
    mode_value,
)
from kcli.registry.decisions.rules import Rules


def get_config(rules: Rules, subject: str | None, *, default_to_global: bool = False) -> ConfigDocument:
    """Returns the config of a scope, or the config that applies to it. Raises RegistryError if it has none."""
    scope = _scope(subject)
    config = rules.config_of(scope) if default_to_global else own_config(rules.state, rules.settings, scope)
    if config is None:
        raise config_not_set(str(scope))
    return config


def update_config(rules: Rules, subject: str | None, update: ConfigUpdate) -> Decision[ConfigUpdate]:
    """Changes a config. The answer is the new config, in the form of an update. Raises RegistryError."""
    scope = _scope(subject)
    config = updated_config(rules.state.configs.get(scope), update)
    _check_scope(subject)
    check_not_readonly(rules, scope)
    entries = rules.state.entries(ScopeKey(KeyType.CONFIG, scope), config_value(scope, config))
    return Decision(ConfigUpdate(config), entries)


def delete_config(rules: Rules, subject: str | None) -> Decision[ConfigDocument]:
    """Deletes a config. The answer is the old config. Raises RegistryError."""
    scope = _scope(subject)
    config = own_config(rules.state, rules.settings, scope)
    if config is None:
        raise subject_not_found(scope)
    check_not_readonly(rules, scope)
    return Decision(config, _deletion(rules, KeyType.CONFIG, scope, is_present=scope in rules.state.configs))


def get_mode(rules: Rules, subject: str | None, *, default_to_global: bool = False) -> ModeDocument:
    """Returns the mode of a scope, or the mode that applies to it. Raises RegistryError if it has none."""
    scope = _scope(subject)
    mode = rules.mode_of(scope) if default_to_global else own_mode(rules.state, scope)
    if mode is None:
        raise mode_not_set(str(scope))
    return ModeDocument(mode.value)


def set_mode(
    rules: Rules, subject: str | None, update: ModeDocument, *, force: bool = False
) -> Decision[ModeDocument]:
    """Sets a mode. The mode None removes it. `force` allows IMPORT although there are schemas. Raises RegistryError."""
    _check_scope(subject)
    scope = _scope(subject)
    mode = _mode(update.mode)
    if mode is Mode.FORWARD and scope != prefix_of(GLOBAL_CONTEXT):
        raise forward_not_global()
    _check_mutable(rules)
    key = ScopeKey(KeyType.MODE, scope)
    if mode is None:
        return Decision(update, _deletion(rules, KeyType.MODE, scope, is_present=scope in rules.state.modes))
    begins_import = mode is Mode.IMPORT and rules.mode_of(scope) is not Mode.IMPORT and not force
    cleared = _cleared(rules, scope) if begins_import else ()
    return Decision(update, (*cleared, *rules.state.entries(key, mode_value(scope, mode))))


def delete_mode(rules: Rules, subject: str | None, *, recursive: bool = False) -> Decision[ModeDocument]:
    """Deletes a mode. `recursive` also deletes the modes of the subjects of a context. The answer is the old mode."""
    scope = _scope(subject)
    mode = own_mode(rules.state, scope)
    if mode is None and not recursive:
        raise subject_not_found(scope)
    _check_mutable(rules)
    entries = _deletion(rules, KeyType.MODE, scope, is_present=scope in rules.state.modes)
    parsed = Subject.of(scope or "")
    if recursive and not parsed.name:
        inner = [place for place in rules.state.modes if place is not None and place != scope]
        inner = [place for place in inner if Subject.of(place).context == parsed.context]
        entries += tuple(
            entry for place in inner for entry in _deletion(rules, KeyType.MODE, place, is_present=True)
        )
    return Decision(ModeDocument(None if mode is None else mode.value), entries)


def _scope(subject: str | None) -> str | None:
    return None if subject is None else scope_of(subject)


def _check_scope(subject: str | None) -> None:
    if subject is not None and not is_valid(subject, is_scope=True):
        raise invalid_subject(subject)


def _check_mutable(rules: Rules) -> None:
    if not rules.settings.allow_mode_changes:
        raise not_permitted("Mode changes are not allowed")


def _mode(text: str | None) -> Mode | None:
    try:
        return None if text is None else Mode(text.upper())
    except ValueError:
        raise invalid_mode() from None


def _cleared(rules: Rules, scope: str | None) -> tuple[Entry, ...]:
    """Deletes the deleted versions of a scope for good, so that an import can use their numbers and ids."""
    if rules.state.has_subjects(scope, deleted=False):
        raise not_permitted("Cannot import since found existing subjects")
    entries: list[Entry] = []
    for subject in rules.state.subjects_in(scope):
        for schema in rules.state.versions(subject):
            if any(rules.state.referrers(schema.key)):
                raise reference_exists(subject, schema.version)
            entries += rules.state.entries(schema.key, None)
    return (
        *entries,
        *rules.state.entries(ScopeKey(KeyType.CLEAR_SUBJECT, scope), clear_subject_value(scope)),
    )


def _deletion(rules: Rules, key_type: KeyType, scope: str | None, *, is_present: bool) -> tuple[Entry, ...]:
    return rules.state.entries(ScopeKey(key_type, scope), None) if is_present else ()
