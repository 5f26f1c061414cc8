"""Reads `~/.config/kcli/profiles.toml`. A profile stores servers, client settings and default options under a name.

    [prod]
    bootstrap-server = "kafka1:9092,kafka2:9092"
    command-config = "prod.properties"

    [prod.properties]
    security.protocol = "SASL_SSL"

    [prod.console-consumer]
    property = ["print.key=true"]

A profile adds options that are missing on the command line. A profile also adds client settings. The properties files
on the command line override these client settings. Errors name the file and the line, but no value of `properties`,
because the value may be a password.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kcli.cli.script_form import is_kafkas_script
from kcli.cli.syntax.options import Argument, Command, CommandError, Option, did_you_mean, options_of
from kcli.model.java_text import trim

if TYPE_CHECKING:
    from datetime import date, time

    from kcli.config.properties import Properties

    Toml = str | int | float | bool | date | time | list["Toml"] | dict[str, "Toml"]
    """A value of a TOML file."""

VARIABLE = "KCLI_PROFILE"
BOOTSTRAP, COMMAND_CONFIG, PROPERTIES = "bootstrap-server", "command-config", "properties"
# kafka-replica-verification has another name for the option bootstrap-server.
_BOOTSTRAP_OF = {"replica-verification": "broker-list"}
# Users write profiles by hand, so a larger file cannot be a file of profiles.
MAX_FILE_BYTES = 1 << 20

Words = list[tuple[str, str | None]]

_HEADER = re.compile(r"\s*\[([^\[\]]+)\]\s*(?:#.*)?", re.ASCII)
_KEY = re.compile(r"""\s*((?:"[^"]*"|'[^']*'|[\w.\- ])+?)\s*=""", re.ASCII)
_PART = re.compile(r""""([^"]*)"|'([^']*)'|([\w-]+)""", re.ASCII)
_PLACE = re.compile(r"(.*) \(at line (\d+), column \d+\)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Profile:
    """One profile. `properties` are its client settings, in the form that clients expect."""

    name: str
    file: ProfilesFile
    table: Mapping[str, Toml] = field(repr=False)
    properties: Mapping[str, str] = field(repr=False)

    @property
    def servers(self) -> str | None:
        """The bootstrap-server of the profile, which `ProfilesFile.profile` has checked."""
        addresses = self.table.get(BOOTSTRAP)
        assert addresses is None or isinstance(addresses, str)
        return addresses

    def words(self, command: Command, known: list[Option], taken: Collection[str], argv: list[str]) -> Words:
        """Returns the options (name, argument) that the profile adds, without the options in `taken`."""
        return [*self._servers(command, known, taken, argv), *self._defaults(command, known, taken)]

    def _servers(
        self, command: Command, known: list[Option], taken: Collection[str], argv: list[str]
    ) -> Words:
        servers = self.servers
        name = servers_option(command)
        is_named = {name, "bootstrap-controller"} & set(taken) or any(
            "bootstrap.servers=" in word for word in argv
        )
        if servers is None or is_named or name not in [option.name for option in known]:
            return []
        return [(name, servers)]

    def _defaults(self, command: Command, known: list[Option], taken: Collection[str]) -> Words:
        defaults = self.table.get(command.name, {})
        if not isinstance(defaults, dict):
            raise self.file.error(
                f"{command.name} must be a table of its options: [{self.name}.{command.name}]",
                self.name, command.name,
            )  # fmt: skip
        declared = [command.options, *(sub.options for sub in command.subcommands)]
        names = {option.name for options in declared for option in options_of(options)}
        words: Words = []
        for name, value in defaults.items():
            place = (self.name, command.name, name)
            if name not in names:
                hint = did_you_mean(name, sorted(names))
                raise self.file.error(f"{command.name} has no option {name}. {hint}".strip(" "), *place)
            option = next((known_option for known_option in known if known_option.name == name), None)
            if option is not None and name not in taken:
                words += [(name, text) for text in self._texts(option, value, place)]
        return words

    def _texts(self, option: Option, value: object, place: tuple[str, ...]) -> list[str | None]:
        """Returns the arguments for a TOML value. The argument None means an option without argument."""
        if option.argument is Argument.NONE or (option.argument is Argument.OPTIONAL and value is True):
            if not isinstance(value, bool):
                raise self.file.error(f"{option.name} takes no argument: expected true or false", *place)
            return [None] if value else []
        values = value if isinstance(value, list) else [value]
        if len(values) > 1 and not option.repeatable:
            raise self.file.error(f"{option.name} takes one value, not a list", *place)
        return [self._checked(option, item, place) for item in values]

    def _checked(self, option: Option, value: object, place: tuple[str, ...]) -> str:
        text = _scalar(value)
        if text is None:
            raise self.file.error(f"{option.name} must be text, a number or a list of them", *place)
        try:
            converted = option.kind.convert(text)
        except ValueError:
            raise self.file.error(
                f"{option.name} is not of type {option.kind.value}: {text}", *place
            ) from None
        if option.choices and str(converted) not in option.choices:
            raise self.file.error(f"{option.name} is one of {', '.join(option.choices)}, not {text}", *place)
        return text


@dataclass(frozen=True, slots=True)
class ProfilesFile:
    """The profiles file: its path, its text (for line numbers in errors) and its tables."""

    path: str
    text: str = field(repr=False)
    tables: Mapping[str, Toml] = field(repr=False)

    def names(self) -> list[str]:
        """Returns the names of the profiles in the file."""
        return list(self.tables)

    def profile(self, name: str) -> Profile:
        """Checks and returns the profile `name`. Raises CommandError if it is missing or invalid."""
        from kcli.cli.syntax.registry import TOOLS

        if name not in self.tables:
            known = ", ".join(self.tables) or "none"
            hint = did_you_mean(name, self.names())
            raise CommandError(f"{self.path}: there is no profile '{name}', only: {known}. {hint}".strip(" "))
        table = self.tables[name]
        if not isinstance(table, dict):
            raise self.error(f"{name} must be a table: write [{name}] above its settings", name)
        keys = (BOOTSTRAP, COMMAND_CONFIG, PROPERTIES, *TOOLS)
        for key in table:
            if key not in keys:
                hint = did_you_mean(key, list(keys))
                expected = f"{BOOTSTRAP}, {COMMAND_CONFIG}, {PROPERTIES} and the names of commands"
                raise self.error(f"a profile has no {key}, only {expected}. {hint}".strip(" "), name, key)
        if not isinstance(table.get(BOOTSTRAP, ""), str):
            raise self.error("bootstrap-server must be text: host:port,host:port", name, BOOTSTRAP)
        return Profile(name, self, table, self._properties(name, table))

    def error(self, message: str, *place: str) -> CommandError:
        """Returns an error about the entry at `place`, with file and line."""
        return CommandError(f"{self.path}:{_line_of(self.text, place)}: {message}")

    def _properties(self, name: str, table: Mapping[str, Toml]) -> Properties:
        """Returns the client settings of a profile, each with its file and line.

        Settings of the profile override the settings of its properties file.
        """
        from kcli.config.properties import Properties

        settings = Properties(self._file_properties(name, table.get(COMMAND_CONFIG)))
        own = table.get(PROPERTIES, {})
        if not isinstance(own, dict):
            raise self.error(f"properties must be a table: [{name}.properties]", name, PROPERTIES)
        for key, value in self._flat(own, (name, PROPERTIES)).items():
            line = _line_of(self.text, (name, PROPERTIES, *key.split(".")))
            settings.update_from({key: value}, where=f"{self.path}:{line}")
        return settings

    def _file_properties(self, name: str, path: object) -> Mapping[str, str]:
        from kcli.config.definition import ConfigError
        from kcli.config.properties import load

        if path is None:
            return {}
        if not isinstance(path, str):
            raise self.error("command-config must be the path of a properties file", name, COMMAND_CONFIG)
        absolute = os.path.join(os.path.dirname(self.path), os.path.expanduser(path))
        try:
            return load(absolute)
        except OSError as error:
            raise self.error(f"cannot read {absolute}: {error.strerror}", name, COMMAND_CONFIG) from None
        except ConfigError as error:
            raise CommandError(str(error)) from None

    def _flat(self, table: Mapping[str, Toml], place: tuple[str, ...]) -> dict[str, str]:
        """Joins the keys of nested tables, because TOML reads `security.protocol = …` as a table in a table."""
        flat: dict[str, str] = {}
        for key, value in table.items():
            if isinstance(value, dict):
                flat |= {f"{key}.{rest}": text for rest, text in self._flat(value, (*place, key)).items()}
                continue
            values = [_scalar(item) for item in (value if isinstance(value, list) else [value])]
            texts = [text for text in values if text is not None]
            if len(texts) < len(values):
                raise self.error(f"{key} must be text, a number, true or false", *place, key)
            flat[key] = ",".join(texts)
        return flat


def profiles_path() -> str:
    """Returns the path of the profiles file.

    A relative XDG_CONFIG_HOME is ignored (XDG Base Directory Specification).
    """
    home = os.environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(home):
        home = os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(home, "kcli", "profiles.toml")


def chosen_file() -> str:
    """Returns the path of the file in which `kcli profile use` stores the name of a profile."""
    return os.path.join(os.path.dirname(profiles_path()), "profile")


def chosen_name() -> str | None:
    """Returns the name of the profile that commands without --profile use: $KCLI_PROFILE, or the stored name.

    Kafka's scripts do not read the stored name, because a script must not depend on an earlier command of a user.
    """
    name = os.environ.get(VARIABLE) or None
    if name is not None or is_kafkas_script():
        return name
    try:
        with open(chosen_file(), encoding="utf-8") as file:
            return trim(file.read(MAX_FILE_BYTES)) or None
    except (OSError, UnicodeDecodeError):
        return None


def load_profiles() -> ProfilesFile:
    """Reads the profiles file. Raises FileNotFoundError if it is missing, CommandError for any other failure."""
    import tomllib

    path = profiles_path()
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise CommandError(f"{path} is larger than {MAX_FILE_BYTES} bytes: not a file of profiles")
        text = content.decode()
        return ProfilesFile(path, text, tomllib.loads(text))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise CommandError(f"{path}:{line}: not UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        match = _PLACE.fullmatch(str(error))
        where, what = (f"{path}:{match[2]}", match[1]) if match else (path, str(error))
        raise CommandError(f"{where}: not TOML: {what}") from None


def servers_option(command: Command) -> str:
    """Returns the name of the command's option for the servers."""
    return _BOOTSTRAP_OF.get(command.name, BOOTSTRAP)


def chosen_profile(known: list[Option], name: str | None) -> Profile | None:
    """Returns the profile that `--profile` names. Without this option, returns the profile that $KCLI_PROFILE names, or
    the one of `kcli profile use`.

    Returns None if no profile is named, or if the command has no option --profile.
    """
    if not any(option.name == "profile" for option in known):
        return None
    source = "--profile" if name is not None else VARIABLE if os.environ.get(VARIABLE) else "kcli profile use"
    name = name if name is not None else chosen_name()
    if name is None:
        return None
    try:
        return load_profiles().profile(name)
    except FileNotFoundError:
        raise CommandError(f"{source} {name}: there is no {profiles_path()}") from None


def _scalar(value: object) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, (str, int, float)) else None


def _line_of(text: str, place: tuple[str, ...]) -> int:
    """Finds the line number of an entry, or of the table that contains it.

    The TOML reader does not keep line numbers.
    """
    prefix = ".".join(place) + "."
    best, line_of_best = 0, 1
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        header, key = _HEADER.fullmatch(line), _KEY.match(line)
        if header is not None:
            here = table = _path(header[1])
        elif key is not None:
            here = (*table, *_path(key[1]))
        else:
            continue
        name = ".".join(here) + "."
        if len(name) > best and prefix.startswith(name):
            best, line_of_best = len(name), number
    return line_of_best


def _path(text: str) -> tuple[str, ...]:
    return tuple(double or single or bare for double, single, bare in _PART.findall(text))
