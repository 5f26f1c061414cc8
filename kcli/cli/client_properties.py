"""The client properties on a command line: a properties file, `key=value` arguments and a profile."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from kcli.cli.output import warn
from kcli.cli.script_form import is_kafkas_script
from kcli.cli.syntax.options import CommandError, UsageError, did_you_mean
from kcli.model.addresses import read_server
from kcli.model.java_text import trim
from kcli.runtime.log_text import log_line
from kcli.security.tls.files import is_readable_by_all

if TYPE_CHECKING:
    from kcli.config.properties import Properties


_PRIVATE_FILES = ("ssl.keystore.location", "sasl.oauthbearer.assertion.private.key.file")
"""The properties that name files with private keys."""
_JAAS, _KEYTAB = "sasl.jaas.config", "keyTab"


def check_bootstrap(servers: str | None) -> None:
    """Raises UsageError, with Kafka's text, if the bootstrap list is missing or is not host:port,host:port."""
    if not servers or not trim(servers):
        raise UsageError("Error while validating the bootstrap address\n")
    addresses = [trim(address) for address in servers.split(",") if trim(address)]
    if not addresses or any(read_server(address) is None for address in addresses):
        raise UsageError("Please provide valid host:port like host1:9091,host2:9092\n")


def client_properties(
    config_file: str | None, assignments: Iterable[str], profile: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Returns the properties of a client. `key=value` arguments take precedence over the file, and the file over the
    profile. Variables of configuration providers are replaced.

    Raises CommandError for a file that cannot be read.
    """
    properties = _loaded(config_file, profile)
    properties.update_from(key_values(assignments), where="the command line")
    return dict(_resolved(properties))


def key_values(words: Iterable[str]) -> dict[str, str]:
    """Returns `key=value` arguments as a dict. As in Kafka, an argument without `=` is a key with an empty value."""
    split = (word.partition("=") for word in words)
    return {key: value for key, _, value in split}


def warn_unknown(option: str, unknown: Iterable[str], known: Iterable[str]) -> None:
    """Warns about names of `key=value` arguments that a formatter or reader does not have.

    Kafka's scripts accept such names silently, so the warning is only for a command that was started as `kcli`.
    """
    if is_kafkas_script():
        return
    for name in unknown:
        hint = did_you_mean(name, list(known))
        warn(" ".join(filter(None, (f"WARN --{option}: ignored the unknown property {name}.", hint))))


def load_properties(path: str | None, profile: Mapping[str, str] | None = None) -> Properties:
    """Returns the properties of a file, merged over the properties of the profile. Variables of configuration providers
    are replaced.

    Raises CommandError for a file that cannot be read. If the file is missing, the message is only the path, as in
    Java.
    """
    return _resolved(_loaded(path, profile))


def checked_login(properties: Mapping[str, str]) -> dict[str, str]:
    """Logs in once with the security settings that librdkafka will use. Without TLS and SASL, does not connect.

    Returns the properties for librdkafka. If librdkafka does not support the SASL mechanism, these properties name a
    relay in this process. Raises CommandError for a setting that cannot be used, and KafkaError if the login fails.
    """
    if trim(properties.get("security.protocol", "PLAINTEXT")).upper() == "PLAINTEXT":
        return dict(properties)
    from kcli.cli.record_links import (
        log_in_once,
    )  # imported late, because a client without security does not need it

    return log_in_once(properties)


def _loaded(path: str | None, profile: Mapping[str, str] | None) -> Properties:
    from kcli.config.definition import ConfigError
    from kcli.config.properties import Properties, load

    properties = Properties(profile or {})
    if path is None:
        return properties
    try:
        properties.update_from(load(path), where=path)
    except FileNotFoundError as error:
        # As in Java, the message is only the path. `plain_words` cannot know that the path is an error.
        raise CommandError(path if is_kafkas_script() else f"{path}: no such file") from error
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from error
    except ConfigError as error:
        raise CommandError(error.located()) from error
    for line in properties.repeated:
        warn(f"WARN {line}")
    return properties


def _resolved(properties: Properties) -> Properties:
    """Replaces the variables of configuration providers (KIP-297), and warns about private keys that all users of the
    machine may read."""
    from kcli.config.definition import ConfigError
    from kcli.config.providers import PROVIDERS, resolve

    if PROVIDERS in properties:
        try:
            resolve(properties)
        except ConfigError as error:
            raise CommandError(error.located()) from error
    for key, path in _private_files(properties):
        if is_readable_by_all(path):
            text = f"{key}: every user of this machine may read {path}. Use chmod 600."
            warn(log_line("WARN", text, "kcli.client"))
    return properties


def _private_files(properties: Properties) -> Iterator[tuple[str, str]]:
    """Yields the files with private keys, and the properties that name them."""
    for key in _PRIVATE_FILES:
        if key in properties:
            yield key, properties[key]
    if _KEYTAB in properties.get(_JAAS, ""):
        from kcli.security.jaas import JaasError, login_module

        with contextlib.suppress(JaasError):  # the login reports the error
            if (keytab := login_module(properties[_JAAS]).options.get(_KEYTAB)) is not None:
                yield _JAAS, keytab
