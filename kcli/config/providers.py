"""Configuration providers (KIP-297), which replace variables in values by texts from the environment or from files.

The variables are `${env:NAME}`, `${file:/path/secrets.properties:key}` and `${dir:/path:file}`. The key
`config.providers` lists the providers, such as `env`. A key such as `config.providers.env.class` has the Java class of
a provider. Kafka's three classes are supported. Any other class is refused, because its variables would stay in the
values as text.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kcli.config.definition import ConfigError, invalid_value
from kcli.config.listeners import split_list
from kcli.config.properties import MAX_FILE_BYTES, Properties, parse
from kcli.model.java_text import trim

PROVIDERS = "config.providers"
_PREFIX = "config.providers."
_PACKAGE = "org.apache.kafka.common.config.provider."
_SUFFIX = "ConfigProvider"
_VARIABLE = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")
MAX_SECRET_BYTES = 1 << 20
"""The largest file with a secret. Secrets are short, so a larger file was given by mistake."""

_log = logging.getLogger(__name__)

Lookup = Callable[[str], str | None]
"""Returns the value of a key, or None if the key is missing. The variable then stays in the text unchanged."""
Provider = Callable[[str], Lookup]
"""Opens a path. A file is read only once for all variables with this path. Raises ConfigError."""


class ConfigTransformer:
    """Replaces the variables of the providers that `texts` declare. Raises ConfigError for an invalid provider.

    The configurations of connectors have such variables. Each call reads the files again, because a secret may have
    changed. No value has a time to live.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._providers = {name: _provider(name, texts) for name in split_list(texts.get(PROVIDERS))}

    def transform(self, config: Mapping[str, str | None]) -> dict[str, str | None]:
        """The configuration without variables. Raises ConfigError for a file that cannot be read."""
        values = _Values(self._providers)
        return {key: None if text is None else values.replaced(text) for key, text in config.items()}

    def resolve(self, texts: Properties) -> None:
        """Replaces the variables in `texts`, except in the keys of the providers themselves."""
        values = _Values(self._providers)
        for key in [key for key in texts if not key.startswith(PROVIDERS)]:
            where = texts.where(key)
            try:
                replaced = values.replaced(texts[key])
            except ConfigError as error:
                raise ConfigError(f"{key}: {error.message}", key=key, where=where) from None
            if replaced != texts[key]:
                texts.update_from({key: replaced}, where=where)


def resolve(texts: Properties) -> None:
    """Replaces the variables in `texts` by the providers that `texts` declare. Raises ConfigError for a provider or a
    file that cannot be used."""
    try:
        transformer = ConfigTransformer(texts)
    except ConfigError as error:
        raise texts.blamed(error) from None
    transformer.resolve(texts)


class _Values:
    """The values of variables, with the paths that are open."""

    def __init__(self, providers: Mapping[str, Provider]) -> None:
        self._providers = providers
        self._lookups: dict[tuple[str, str], Lookup] = {}

    def replaced(self, text: str) -> str:
        return _VARIABLE.sub(self._value, text) if self._providers else text

    def _value(self, match: re.Match[str]) -> str:
        name, path, key = match[1], match[2] or "", match[3]
        if name not in self._providers:
            return match[0]
        if (name, path) not in self._lookups:
            self._lookups[name, path] = self._providers[name](path)
        value = self._lookups[name, path](key)
        return match[0] if value is None else value


def _provider(name: str, texts: Mapping[str, str]) -> Provider:
    key = f"{_PREFIX}{name}.class"
    java_class = trim(texts.get(key, ""))
    parameters = f"{_PREFIX}{name}.param."
    match java_class.removeprefix(_PACKAGE).removesuffix(_SUFFIX):
        case "EnvVar":
            return _environment(f"{parameters}allowlist.pattern", texts)
        case "File":
            return _Files(_allowed_paths(texts, parameters)).open
        case "Directory":
            return _Directories(_allowed_paths(texts, parameters)).open
        case "":
            raise ConfigError(f"{PROVIDERS} names '{name}', but {key} does not say what it is", key=PROVIDERS)
        case _:
            known = ", ".join(f"{_PACKAGE}{kind}{_SUFFIX}" for kind in ("EnvVar", "File", "Directory"))
            raise ConfigError(f"{key}={java_class} is not known; {known} are", key=key)


def _no_value(key: str) -> None:
    return None


# The environment.


def _environment(key: str, texts: Mapping[str, str]) -> Provider:
    from kcli.model.java_regex import JavaRegexError, compile_java

    pattern = trim(texts.get(key, ""))
    try:
        return _Environment(compile_java(pattern) if pattern else None).open
    except JavaRegexError as error:
        raise invalid_value(key, pattern, str(error)) from None


@dataclass(frozen=True, slots=True)
class _Environment:
    allowlist: re.Pattern[str] | None

    def open(self, path: str) -> Lookup:
        if path:
            raise ConfigError(f"Path is not supported for EnvVarConfigProvider, invalid value '{path}'")
        return self._value

    def _value(self, name: str) -> str | None:
        is_allowed = self.allowlist is None or self.allowlist.fullmatch(name) is not None
        return os.environ.get(name) if is_allowed else None


# Files and directories.


@dataclass(frozen=True, slots=True)
class _AllowedPaths:
    """The files and directories that a provider may read, and everything below them. None means every path."""

    roots: tuple[str, ...] | None

    def readable(self, path: str) -> str | None:
        """The path to read, without `..`. None if the path is empty or not allowed."""
        if not path or self.roots is None:
            return path or None
        normal = os.path.normpath(path)
        if any(normal == root or normal.startswith(os.path.join(root, "")) for root in self.roots):
            return normal
        _log.warning("The path %s is not allowed to be accessed", path)
        return None


def _allowed_paths(texts: Mapping[str, str], parameters: str) -> _AllowedPaths:
    key = f"{parameters}allowed.paths"
    value = texts.get(key, "").rstrip(",")
    if not value:
        return _AllowedPaths(None)
    roots = tuple(map(os.path.normpath, value.split(",")))
    for root in roots:
        if not os.path.isabs(root):
            raise ConfigError(f"Path {root} is not absolute", key=key)
        if not os.path.exists(root):
            raise ConfigError(f"Path {root} does not exist", key=key)
    return _AllowedPaths(roots)


@dataclass(frozen=True, slots=True)
class _Files:
    """Reads properties files, which are in UTF-8."""

    allowed: _AllowedPaths

    def open(self, path: str) -> Lookup:
        file = self.allowed.readable(path)
        if file is None:
            return _no_value
        try:
            text = _content(file, MAX_FILE_BYTES)
        except (OSError, UnicodeDecodeError):
            raise ConfigError(f"Could not read properties from file {path}") from None
        return parse(text, source=path).get


@dataclass(frozen=True, slots=True)
class _Directories:
    """Reads files whose whole content is one value, as in the secrets that Kubernetes mounts."""

    allowed: _AllowedPaths

    def open(self, path: str) -> Lookup:
        directory = self.allowed.readable(path)
        if directory is None:
            return _no_value
        if not os.path.isdir(directory):
            _log.warning("The path %s is not a directory", path)
            return _no_value
        return lambda key: self._value(directory, key)

    def _value(self, directory: str, key: str) -> str | None:
        file = os.path.join(directory, key)
        if os.path.basename(key) != key or not os.path.isfile(file):
            return None
        try:
            return _content(file, MAX_SECRET_BYTES)
        except (OSError, UnicodeDecodeError):
            raise ConfigError(f"Could not read file {file} for property {key}") from None


def _content(path: str, size_max: int) -> str:
    with open(path, "rb") as file:
        content = file.read(size_max + 1)
    if len(content) > size_max:
        raise ConfigError(f"{path} is larger than {size_max} bytes: not a configuration")
    return content.decode("utf-8")
