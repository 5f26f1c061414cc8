"""Reads the SASL settings of a client: the mechanism, and the login module with its options."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kcli.config.environment import JAAS_FILE, jaas_file
from kcli.model.java_text import trim
from kcli.security.allowed_sources import AllowedSources, sources_of_environment
from kcli.security.jaas import JaasError, LoginModule, login_module, login_sections
from kcli.security.mechanisms.client import (
    CLIENT_MECHANISMS,
    GSSAPI,
    OAUTHBEARER,
    BearerCredentials,
    ClientCredentials,
    Credentials,
    KerberosCredentials,
)
from kcli.security.token_sources import extensions, token_source

JAAS = "sasl.jaas.config"
SECTION = "KafkaClient"
"""The name of the section for clients in a JAAS file."""


def client_credentials(
    properties: Mapping[str, str], prefix: str, allowed: AllowedSources | None
) -> ClientCredentials:
    """Returns the credentials of the SASL login. Raises ValueError with the name of an invalid property."""

    def look_up(name: str) -> str | None:
        return properties.get(f"{prefix}{name}") or None

    mechanism = trim(look_up("sasl.mechanism") or GSSAPI)
    if mechanism not in CLIENT_MECHANISMS:
        raise ValueError(f"{prefix}sasl.mechanism is {mechanism}; {', '.join(CLIENT_MECHANISMS)} can be used")
    try:
        module = _login_module(properties.get(f"{prefix}{JAAS}"), look_up(JAAS_FILE))
        if mechanism == OAUTHBEARER:
            sources = sources_of_environment() if allowed is None else allowed
            return BearerCredentials(token_source(look_up, module, sources), extensions(module))
        if mechanism == GSSAPI:
            return _kerberos(look_up, module)
    except JaasError as error:
        raise ValueError(f"{prefix}{JAAS}: {error}" if prefix else str(error)) from None
    options = module.options
    for name in ("username", "password"):
        if name not in options:
            raise ValueError(f'{prefix}{JAAS} has no {name}: expected … required username="…" password="…";')
    is_token = options.get("tokenauth", "").lower() == "true"
    return Credentials(mechanism, options["username"], options["password"], is_token)


def _login_module(text: str | None, path: str | None) -> LoginModule:
    """The login module of a client: from its property, or from the section KafkaClient of a JAAS file."""
    if text is not None:
        return login_module(text)
    if path is None:
        path = jaas_file()
    missing = (
        f"Could not find a '{SECTION}' entry in the JAAS configuration. System property '{JAAS_FILE}' is"
    )
    if path is None:
        raise JaasError(f"{missing} not set")
    try:
        with open(path, encoding="utf-8") as file:
            modules = login_sections(file.read()).get(SECTION)
    except (OSError, UnicodeDecodeError) as error:
        raise JaasError(f"{path} cannot be read ({type(error).__name__})") from None
    if not modules:
        raise JaasError(f"{missing} {path}")
    return modules[0]


def _kerberos(look_up: Callable[[str], str | None], module: LoginModule) -> KerberosCredentials:
    named, configured = module.options.get("serviceName"), look_up("sasl.kerberos.service.name")
    if named is not None and configured is not None and named != configured:
        raise JaasError(
            "Conflicting serviceName values found in JAAS and Kafka configs value in JAAS file "
            f"{named}, value in Kafka config {configured}"
        )
    service = named or configured
    if service is None:
        raise JaasError("No serviceName defined in either JAAS or Kafka config")
    uses_keytab = module.options.get("useKeyTab", "").lower() == "true"
    keytab = module.options.get("keyTab") if uses_keytab else None
    return KerberosCredentials(service, module.options.get("principal"), keytab)
