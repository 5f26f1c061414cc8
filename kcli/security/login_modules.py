"""Finds the login modules of a node: the JAAS entry for each listener and mechanism.

The entry is in `listener.name.<listener>.<mechanism>.sasl.jaas.config` or `<mechanism>.sasl.jaas.config`. If neither
key is set, the entry is in the file of `java.security.auth.login.config`, in the section `<listener>.KafkaServer` or
`KafkaServer`. In Kafka, `java.security.auth.login.config` is a system property of Java. Here it is a key of the node's
configuration, which KAFKA_OPTS can set too.

No Java class is loaded. Each mechanism accepts the name of one login module, and refuses every other name.
"""

from __future__ import annotations

from kcli.config.definition import ConfigError
from kcli.config.listener_config import ListenerConfig
from kcli.security.jaas import JaasError, LoginModule, login_module, login_sections

JAAS_FILE_KEY = "java.security.auth.login.config"
JAAS_KEY = "sasl.jaas.config"
SECTION = "KafkaServer"

_PACKAGE = "org.apache.kafka.common.security"
PLAIN_MODULE = f"{_PACKAGE}.plain.PlainLoginModule"
SCRAM_MODULE = f"{_PACKAGE}.scram.ScramLoginModule"
OAUTHBEARER_MODULE = f"{_PACKAGE}.oauthbearer.OAuthBearerLoginModule"
KERBEROS_MODULE = "com.sun.security.auth.module.Krb5LoginModule"

MODULES = {
    "PLAIN": PLAIN_MODULE,
    "SCRAM-SHA-256": SCRAM_MODULE,
    "SCRAM-SHA-512": SCRAM_MODULE,
    "OAUTHBEARER": OAUTHBEARER_MODULE,
    "GSSAPI": KERBEROS_MODULE,
}
"""The class name of the login module that each mechanism accepts."""

# Modules that execute code of the server that they ask (CVE-2023-25194). Kafka refuses them by name.
_DISALLOWED = frozenset(
    {"com.sun.security.auth.module.JndiLoginModule", "com.sun.security.auth.module.LdapLoginModule"}
)


def server_module(config: ListenerConfig, mechanism: str) -> LoginModule:
    """The login module of a mechanism on a listener. Raises ConfigError if it is missing or invalid."""
    key = config.key_of(JAAS_KEY, mechanism)
    if key is not None:
        where = config.config.texts.where(key)
        try:
            module = login_module(config.config.texts[key])
        except JaasError as error:
            raise ConfigError(f"{key}: {error}", key=key, where=where) from None
        _check_allowed(module, mechanism, key, where)
        return module
    return _module_in_file(config, mechanism)


def _module_in_file(config: ListenerConfig, mechanism: str) -> LoginModule:
    scoped = f"{config.listener.lower()}.{SECTION}"
    path = config.text(JAAS_FILE_KEY)
    missing = f"Could not find a '{SECTION}' or '{scoped}' entry in the JAAS configuration."
    if path is None:
        raise ConfigError(
            f"{missing} System property '{JAAS_FILE_KEY}' is not set. Set "
            f"listener.name.{config.listener.lower()}.{mechanism.lower()}.{JAAS_KEY}",
            key=JAAS_FILE_KEY,
        )
    where = config.config.texts.where(JAAS_FILE_KEY)
    try:
        with open(path, encoding="utf-8") as file:
            sections = login_sections(file.read())
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror}", key=JAAS_FILE_KEY, where=where
        ) from None
    except (JaasError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}", key=JAAS_FILE_KEY, where=where) from None
    modules = sections.get(scoped) or sections.get(SECTION)
    if not modules:
        raise ConfigError(
            f"{missing} System property '{JAAS_FILE_KEY}' is {path}", key=JAAS_FILE_KEY, where=where
        )
    for module in modules:
        if module.name in _DISALLOWED:
            _check_allowed(module, mechanism, path, where)
    # A section may have modules of several mechanisms, so the module of this mechanism counts.
    module = next((candidate for candidate in modules if candidate.name == MODULES[mechanism]), modules[0])
    _check_allowed(module, mechanism, path, where)
    return module


def _check_allowed(module: LoginModule, mechanism: str, key: str, where: str) -> None:
    if module.name in _DISALLOWED:
        raise ConfigError(
            f"{key}: {module.name} is not allowed. Update System property "
            f"'org.apache.kafka.disallowed.login.modules' to allow {module.name}",
            key=key,
            where=where,
        )
    if module.name != MODULES[mechanism]:
        raise ConfigError(
            f"{key}: {mechanism} needs the login module {MODULES[mechanism]}, found {module.name}",
            key=key,
            where=where,
        )
