"""The result of a validation: `ConfigInfos` of the REST API. All values are texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from kcli.config.definition import ConfigKey, ConfigType, ConfigValue, parse_type, value_text
from kcli.config.validation import KeyResult
from kcli.model.java_text import trim

HIDDEN = "[hidden]"
"""The text in place of a password, as in Java."""

_VARIABLE = re.compile(r"\$\{[^}]*\}")
_SECRET_MIN = 4
"""The shortest value of a variable that is replaced in the errors of other keys. Shorter ones are parts of words."""


@dataclass(frozen=True, slots=True)
class KeyInfo:
    """The definition of a key. `default_value` is None if there is no default."""

    name: str
    type: str
    required: bool
    default_value: str | None
    importance: str
    documentation: str
    group: str | None
    width: str
    display_name: str | None
    dependents: Sequence[str]
    order: int


@dataclass(frozen=True, slots=True)
class ValueInfo:
    name: str
    value: str | None
    recommended_values: Sequence[str]
    errors: Sequence[str]
    visible: bool


@dataclass(frozen=True, slots=True)
class ConfigInfo:
    definition: KeyInfo | None
    value: ValueInfo


@dataclass(frozen=True, slots=True)
class ConfigInfos:
    name: str
    error_count: int
    groups: Sequence[str]
    configs: Sequence[ConfigInfo]


def key_info(key: ConfigKey, prefix: str = "") -> KeyInfo:
    """Describes a key. `prefix` comes before its name."""
    default = None if key.required else parse_type(key.name, key.default, key.type)
    return KeyInfo(
        name=prefix + key.name,
        type=key.type.name,
        required=key.required,
        default_value=shown_value(default, key.type),
        importance=key.importance.name,
        documentation=key.documentation,
        group=key.group,
        width=key.width.value,
        display_name=key.display_name or key.name,
        dependents=list(key.dependents),
        order=key.order,
    )


def value_info(result: KeyResult, kind: ConfigType | None, prefix: str = "") -> ValueInfo:
    """Describes a value. `kind` is None if the key has no definition."""
    return ValueInfo(
        name=prefix + result.name,
        value=shown_value(result.value, kind),
        recommended_values=[shown_value(value, kind) or "" for value in result.recommended],
        errors=list(result.errors),
        visible=result.visible,
    )


def shown_value(value: ConfigValue, kind: ConfigType | None) -> str | None:
    """The text of a value in an answer. A password is hidden."""
    return HIDDEN if kind is ConfigType.PASSWORD and value is not None else value_text(value)


def with_variables(
    infos: ConfigInfos, variables: Mapping[str, str], resolved: Mapping[str, str | None]
) -> ConfigInfos:
    """The result with the variables in place of their values. `variables` are the texts of the keys that have some."""
    by_key = {key: _values_of_variables(text, resolved[key] or "") for key, text in variables.items()}
    of_all = {
        value: name for own in by_key.values() for value, name in own.items() if len(value) >= _SECRET_MIN
    }

    def written(info: ConfigInfo) -> ConfigInfo:
        value = info.value
        errors = list(value.errors)
        for secret, name in (of_all | by_key.get(value.name, {})).items():
            errors = [error.replace(secret, name) for error in errors]
        shown = value.value if value.value in (None, HIDDEN) else variables.get(value.name, value.value)
        return replace(info, value=replace(value, value=shown, errors=errors))

    return replace(infos, configs=list(map(written, infos.configs)))


def _values_of_variables(text: str, resolved: str) -> dict[str, str]:
    """The variables of a text by their values, which the same text has where its variables are resolved."""
    names = _VARIABLE.findall(text)
    between = map(re.escape, _VARIABLE.split(text))
    match = re.fullmatch("(.*?)".join(between), resolved, re.DOTALL)
    values = match.groups() if match is not None else ()
    return {trim(value): name for value, name in zip(values, names, strict=False) if trim(value)}


def infos_of(name: str, rows: Sequence[ConfigInfo], groups: Iterable[str]) -> ConfigInfos:
    """The result with these rows. `groups` may have a group twice."""
    count = sum(len(row.value.errors) for row in rows)
    return ConfigInfos(name, count, list(dict.fromkeys(groups)), rows)
