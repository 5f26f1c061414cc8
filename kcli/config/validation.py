"""Validates all keys of a definition at once, and joins definitions, as Kafka's ConfigDef does for Connect.

`ConfigDef.parse` stops at the first error. `validate` reports every error, because a user wants to see all of them in
one answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kcli.config.definition import (
    ConfigDef,
    ConfigError,
    ConfigKey,
    ConfigValue,
    Importance,
    Recommender,
    Validator,
    missing_value,
)

_IMPORTANCE_ORDER = list(Importance)


@dataclass(slots=True)
class KeyResult:
    """The value of a key and its errors. The validation of a connector adds errors to it."""

    name: str
    value: ConfigValue = None
    recommended: Sequence[ConfigValue] = ()
    errors: list[str] = field(default_factory=list)
    visible: bool = True


def validate(definition: ConfigDef, texts: Mapping[str, str | None]) -> dict[str, KeyResult]:
    """The value and the errors of every key. Keys of `texts` that `definition` does not have are left out."""
    results = {name: KeyResult(name) for name in definition}
    for name in _undefined_dependents(definition):
        error = f"{name} is referred in the dependents, but not defined."
        results[name] = KeyResult(name, errors=[error], visible=False)
    for key in definition.values():
        _check_value(key, texts, definition, results[key.name])
    values = {name: results[name].value for name in definition}
    for key in definition.values():
        if key.recommender is not None:
            _recommend(key, key.recommender, values, results[key.name])
    return results


def groups(definition: ConfigDef) -> list[str]:
    """The groups of the keys, in the order of the first key of each group."""
    return list(dict.fromkeys(key.group for key in definition.values() if key.group is not None))


def sorted_keys(definition: ConfigDef) -> list[ConfigKey]:
    """The keys in the order of a form: by group, then by place in the group, then required and important keys first."""
    group_order = {group: number for number, group in enumerate(groups(definition))}

    def order(key: ConfigKey) -> tuple[int, int, bool, int, str]:
        group = -1 if key.group is None else group_order[key.group]
        return group, key.order, not key.required, _IMPORTANCE_ORDER.index(key.importance), key.name

    return sorted(definition.values(), key=order)


def embedded(prefix: str, group: str, first_order: int, definition: ConfigDef) -> Iterable[ConfigKey]:
    """The keys of `definition` with a prefix, as parts of a larger definition. `group` names their group.

    As in Kafka, a validator sees the name without the prefix, so its errors have the short name.
    """
    for order, key in enumerate(sorted_keys(definition), first_order):
        yield replace(
            key,
            name=prefix + key.name,
            validator=key.validator and _EmbeddedValidator(prefix, key.validator),
            group=group if key.group is None else f"{group}: {key.group}",
            order=order,
            display_name=key.display_name or key.name,
            dependents=tuple(prefix + name for name in key.dependents),
            recommender=key.recommender and _EmbeddedRecommender(prefix, key.recommender),
        )


@dataclass(frozen=True, slots=True)
class _EmbeddedValidator:
    prefix: str
    validator: Validator

    def check(self, key: str, value: ConfigValue) -> None:
        self.validator.check(key.removeprefix(self.prefix), value)

    def __str__(self) -> str:
        return str(self.validator)


@dataclass(frozen=True, slots=True)
class _EmbeddedRecommender:
    prefix: str
    recommender: Recommender

    def valid_values(self, key: str, values: Mapping[str, ConfigValue]) -> Sequence[ConfigValue]:
        return self.recommender.valid_values(key.removeprefix(self.prefix), self._own(values))

    def visible(self, key: str, values: Mapping[str, ConfigValue]) -> bool:
        return self.recommender.visible(key.removeprefix(self.prefix), self._own(values))

    def _own(self, values: Mapping[str, ConfigValue]) -> dict[str, ConfigValue]:
        prefix = self.prefix
        return {key.removeprefix(prefix): value for key, value in values.items() if key.startswith(prefix)}


def _undefined_dependents(definition: ConfigDef) -> list[str]:
    dependents = (name for key in definition.values() for name in key.dependents)
    return [name for name in dict.fromkeys(dependents) if name not in definition]


def _check_value(
    key: ConfigKey, texts: Mapping[str, str | None], definition: ConfigDef, result: KeyResult
) -> None:
    """Sets the value and the errors of one key. The validator also sees a value that could not be converted, as None,
    so that such a key may have two errors."""
    if key.name in texts:
        try:
            result.value = key.convert(texts[key.name])
        except ConfigError as error:
            result.errors.append(error.message)
    elif key.required:
        result.errors.append(missing_value(key.name).message)
    else:
        result.value = definition.default(key.name)
    if key.validator is not None:
        try:
            key.validator.check(key.name, result.value)
        except ConfigError as error:
            result.errors.append(error.message)


def _recommend(
    key: ConfigKey, recommender: Recommender, values: Mapping[str, ConfigValue], result: KeyResult
) -> None:
    try:
        result.recommended = recommender.valid_values(key.name, values)
        result.visible = recommender.visible(key.name, values)
    except ConfigError as error:
        result.errors.append(error.message)
