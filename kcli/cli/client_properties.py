"""The client properties on a command line: a properties file, `key=value` arguments and a profile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kcli.cli.output import warn
from kcli.cli.syntax.options import CommandError, UsageError
from kcli.model.addresses import read_server

if TYPE_CHECKING:
    from kcli.config.properties import Properties


def check_bootstrap(servers: str | None) -> None:
    """Raises UsageError, with Kafka's text, if the bootstrap list is missing or is not host:port,host:port."""
    if not servers or not servers.strip():
        raise UsageError("Error while validating the bootstrap address\n")
    addresses = [address.strip() for address in servers.split(",") if address.strip()]
    if not addresses or any(read_server(address) is None for address in addresses):
        raise UsageError("Please provide valid host:port like host1:9091,host2:9092\n")


def client_properties(
    config_file: str | None, assignments: Iterable[str], profile: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Returns the properties of a client. `key=value` arguments take precedence over the file, and the file over the
    profile.

    Raises CommandError for a file that cannot be read.
    """
    properties = dict(load_properties(config_file, profile))
    properties.update(key_values(assignments))
    return properties


def key_values(words: Iterable[str]) -> dict[str, str]:
    """Returns `key=value` arguments as a dict. As in Kafka, an argument without `=` is a key with an empty value."""
    split = (word.partition("=") for word in words)
    return {key: value for key, _, value in split}


def load_properties(path: str | None, profile: Mapping[str, str] | None = None) -> Properties:
    """Returns the properties of a file, merged over the properties of the profile.

    Raises CommandError for a file that cannot be read. If the file is missing, the message is only the path, as in
    Java.
    """
    from kcli.config.definition import ConfigError
    from kcli.config.properties import Properties, load

    properties = Properties(profile or {})
    if path is None:
        return properties
    try:
        properties.update_from(load(path), where=path)
    except FileNotFoundError as error:
        raise CommandError(path) from error
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from error
    except ConfigError as error:
        raise CommandError(error.located()) from error
    for line in properties.repeated:
        warn(f"WARN {line}")
    return properties
