"""Makes the SASL mechanisms of a listener from the node's configuration."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kcli.config.listener_config import ListenerConfig
from kcli.security.bearer.settings import (
    SIGNED_HANDLERS,
    KeySetSettings,
    key_set_settings,
    signed_token_settings,
)
from kcli.security.bearer.signed import Keys, SignedCheck
from kcli.security.bearer.unsecured import UnsecuredCheck
from kcli.security.callbacks import password_checker, token_checker
from kcli.security.jaas import LoginModule
from kcli.security.kerberos_names import KerberosName, default_realm, parse_rules
from kcli.security.login_modules import MODULES, server_module
from kcli.security.mechanisms import gssapi, oauthbearer, plain, scram
from kcli.security.mechanisms.server import ServerExchange, ServerMechanism
from kcli.security.tls.files import is_readable_by_all

ENABLED_KEY = "sasl.enabled.mechanisms"
RULES_KEY = "sasl.kerberos.principal.to.local.rules"
HANDLER_KEY = "sasl.server.callback.handler.class"

_UNSECURED_HANDLER = (
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured."
    "OAuthBearerUnsecuredValidatorCallbackHandler"
)
_PLAIN_HANDLER = "org.apache.kafka.common.security.plain.internals.PlainServerCallbackHandler"

_log = logging.getLogger("kcli.server.Authentication")

Begin = Callable[[], ServerExchange]


@dataclass(frozen=True, slots=True)
class NodeParts:
    """The parts of a node that the mechanisms of its listeners use.

    `users` has the SCRAM credentials. `keys_of` makes the source of a key set, and begins to fetch the key set in the
    background. It raises ConfigError if the key set is a file that cannot be read.
    """

    users: scram.ScramUsers
    now_ms: Callable[[], int]
    keys_of: Callable[[ListenerConfig, KeySetSettings], Keys]


def server_mechanisms(config: ListenerConfig, parts: NodeParts) -> Mapping[str, ServerMechanism]:
    """The mechanisms in `sasl.enabled.mechanisms`, by name, in that order.

    Raises ConfigError if the configuration of one mechanism is invalid, because the node must not start then.
    """
    mechanisms = {}
    for name in config.listed(ENABLED_KEY):
        if name not in MODULES:
            known = ", ".join(MODULES)
            raise config.refusal(ENABLED_KEY, f"{ENABLED_KEY}: {name} is unknown; expected {known}")
        module = server_module(config, name)
        mechanisms[name] = ServerMechanism(name, _begin(config, name, module, parts))
    if not mechanisms:
        raise config.refusal(ENABLED_KEY, f"{ENABLED_KEY} of listener {config.listener} is empty")
    return mechanisms


def _begin(config: ListenerConfig, name: str, module: LoginModule, parts: NodeParts) -> Begin:
    handler = config.text(HANDLER_KEY, name)
    if name == plain.NAME:
        return _plain(config, module, handler)
    if name == oauthbearer.NAME:
        return _oauthbearer(config, module, handler, parts)
    if handler is not None:
        raise config.refusal(HANDLER_KEY, f"{HANDLER_KEY} of {name}: {handler} is not supported", name)
    if name in scram.MECHANISMS:
        mechanism = scram.MECHANISMS[name]
        return lambda: scram.ScramServer(mechanism, parts.users, scram.new_nonce())
    assert name == gssapi.NAME, "all other mechanisms of MODULES are above"
    return _gssapi(config, module)


def _gssapi(config: ListenerConfig, module: LoginModule) -> Begin:
    principal = module.options.get("principal")
    if principal is None:
        raise config.refusal("sasl.jaas.config", f"{module.name} has no option principal", gssapi.NAME)
    keytab = module.options.get("keyTab")
    if keytab is not None and is_readable_by_all(keytab):
        _log.warning(
            "%s has the Kerberos key of the listener %s, and every user of this machine may read it: chmod 600 %s",
            keytab, config.listener, keytab,
        )  # fmt: skip
    realm = default_realm(os.environ) or KerberosName.of(principal).realm
    try:
        names = parse_rules(config.listed(RULES_KEY), realm)
    except ValueError as error:
        raise config.refusal(RULES_KEY, f"{RULES_KEY}: {error}") from None
    try:
        credentials = gssapi.server_credentials(principal, keytab)
    except (gssapi.KerberosMissing, ValueError) as error:
        raise config.refusal("sasl.jaas.config", f"GSSAPI as {principal}: {error}", gssapi.NAME) from None
    return lambda: gssapi.KerberosServer(credentials, names.short_name)


def _plain(config: ListenerConfig, module: LoginModule, handler: str | None) -> Begin:
    if handler is None or handler == _PLAIN_HANDLER:
        passwords = plain.Passwords(module.options)
        return lambda: plain.PlainServer(passwords)
    key = config.key_of(HANDLER_KEY, plain.NAME) or HANDLER_KEY
    checker = password_checker(config, key, handler, module.options)
    return lambda: plain.PlainServer(checker.check, in_thread=True)


def _oauthbearer(config: ListenerConfig, module: LoginModule, handler: str | None, parts: NodeParts) -> Begin:
    if handler is None or handler == _UNSECURED_HANDLER:
        _log.warning(
            "Listener %s accepts tokens without a signature, so each client can log in as each user. Set %s of "
            "OAUTHBEARER to check signatures",
            config.listener,
            HANDLER_KEY,
        )
        try:
            unsecured = UnsecuredCheck(module.options, parts.now_ms)
        except ValueError as error:
            raise config.refusal("sasl.jaas.config", str(error), oauthbearer.NAME) from None
        return lambda: oauthbearer.BearerServer(unsecured)
    if handler in SIGNED_HANDLERS:
        settings = signed_token_settings(config)
        keys = parts.keys_of(config, key_set_settings(config, module.options))
        signed = SignedCheck(settings, keys, parts.now_ms)
        return lambda: oauthbearer.BearerServer(signed)
    key = config.key_of(HANDLER_KEY, oauthbearer.NAME) or HANDLER_KEY
    checker = token_checker(config, key, handler, module.options)
    return lambda: oauthbearer.BearerServer(checker.check, in_thread=True)
