"""Configuration providers (KIP-297), which replace variables in values by texts from the environment or from files.

The variables are `${env:NAME}`, `${file:/path/secrets.properties:key}` and `${dir:/path:file}`. The key
`config.providers` lists the providers, such as `env`. A key such as `config.providers.env.class` has the Java class of
a provider. Kafka's three classes are supported. Any other class is refused, because its variables would stay in the
values as text.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kcli.config.definition import ConfigError, invalid_value
from kcli.config.listeners import split_list
from kcli.config.properties import Properties, load
from kcli.model.java_text import trim

PROVIDERS = "config.providers"
_PREFIX = "config.providers."
_PACKAGE = "org.apache.kafka.common.config.provider."
_VARIABLE = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")
MAX_SECRET_BYTES = 1 << 20
"""The largest file with a secret. Secrets are short, so a larger file was given by mistake."""


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider. `read(path, key)` returns the value of a variable.

    If the value is missing, `read` returns None, and the variable stays in the text unchanged.
    """

    name: str
    read: Callable[[str, str], str | None]


def resolve(texts: Properties) -> None:
    """Replaces the variables in `texts`. Raises ConfigError for a provider or a file that cannot be used."""
    try:
        providers = {name: _provider(name, texts) for name in split_list(texts.get(PROVIDERS))}
    except ConfigError as error:
        raise texts.blamed(error) from None
    if not providers:
        return
    for key in list(texts):
        if key.startswith(PROVIDERS):
            continue
        where, value = texts.where(key), texts[key]
        try:
            resolved = _VARIABLE.sub(lambda match: _replacement(match, providers), value)
        except ConfigError as error:
            raise ConfigError(f"{key}: {error.message}", key=key, where=where) from None
        if resolved != value:
            texts.update_from({key: resolved}, where=where)


def _replacement(match: re.Match[str], providers: Mapping[str, Provider]) -> str:
    provider = providers.get(match[1])
    value = provider.read(match[2] or "", match[3]) if provider is not None else None
    return match[0] if value is None else value


def _provider(name: str, texts: Properties) -> Provider:
    key = f"{_PREFIX}{name}.class"
    java_class = trim(texts.get(key, ""))
    parameters = f"{_PREFIX}{name}.param."
    match java_class.removeprefix(_PACKAGE):
        case "EnvVarConfigProvider":
            return Provider(name, _environment(f"{parameters}allowlist.pattern", texts).read)
        case "FileConfigProvider":
            return Provider(name, _Files(_allowed(texts, parameters)).read)
        case "DirectoryConfigProvider":
            return Provider(name, _Directories(_allowed(texts, parameters)).read)
        case "":
            raise ConfigError(f"{PROVIDERS} names '{name}', but {key} does not say what it is", key=PROVIDERS)
        case _:
            known = ", ".join(f"{_PACKAGE}{kind}ConfigProvider" for kind in ("EnvVar", "File", "Directory"))
            raise ConfigError(f"{key}={java_class} is not known; {known} are", key=key)


def _allowed(texts: Properties, parameters: str) -> tuple[str, ...]:
    return split_list(texts.get(f"{parameters}allowed.paths"))


def _environment(key: str, texts: Properties) -> _Environment:
    from kcli.model.java_regex import JavaRegexError, compile_java

    pattern = trim(texts.get(key, ""))
    try:
        return _Environment(compile_java(pattern) if pattern else None)
    except JavaRegexError as error:
        raise invalid_value(key, pattern, str(error)) from None


@dataclass(frozen=True, slots=True)
class _Environment:
    allowlist: re.Pattern[str] | None

    def read(self, path: str, key: str) -> str | None:
        if path:
            raise ConfigError(f"a variable of the environment has no path, found '{path}'")
        if self.allowlist is not None and self.allowlist.fullmatch(key) is None:
            return None
        return os.environ.get(key)


@dataclass(frozen=True, slots=True)
class _Files:
    """Reads keys of properties files. Each file is read once."""

    allowed: tuple[str, ...]
    read_already: dict[str, Properties] = field(default_factory=dict)

    def read(self, path: str, key: str) -> str | None:
        _check_allowed(path, self.allowed)
        if path not in self.read_already:
            try:
                self.read_already[path] = load(path)
            except OSError as error:
                raise ConfigError(f"Could not read properties from file {path}: {error.strerror}") from None
        return self.read_already[path].get(key)


@dataclass(frozen=True, slots=True)
class _Directories:
    """Reads files whose whole content is one value, as in the secrets that Kubernetes mounts."""

    allowed: tuple[str, ...]

    def read(self, path: str, key: str) -> str | None:
        _check_allowed(path, self.allowed)
        file = os.path.join(path, key)
        if os.path.basename(key) != key or not os.path.isfile(file):
            return None
        if os.path.getsize(file) > MAX_SECRET_BYTES:
            raise ConfigError(f"{file} is larger than {MAX_SECRET_BYTES} bytes: not a value")
        try:
            with open(file, encoding="utf-8") as content:
                return content.read()
        except (OSError, UnicodeDecodeError):
            raise ConfigError(f"Could not read file {file} for property {key}") from None


def _check_allowed(path: str, allowed: tuple[str, ...]) -> None:
    if not allowed:
        return
    real = os.path.realpath(path)
    if not any(
        os.path.commonpath((real, os.path.realpath(root))) == os.path.realpath(root) for root in allowed
    ):
        raise ConfigError(f"{path} is not below allowed.paths ({', '.join(allowed)})")
