"""Makes the mechanisms that a listener offers from the node's configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kcli.config.definition import ConfigError
from kcli.config.listener_config import ListenerConfig
from kcli.security.login_modules import MODULES, server_module
from kcli.security.mechanisms import plain, scram
from kcli.security.mechanisms.server import ServerExchange, ServerMechanism

ENABLED_KEY = "sasl.enabled.mechanisms"
HANDLER_KEY = "sasl.server.callback.handler.class"


def server_mechanisms(config: ListenerConfig, users: scram.ScramUsers) -> Mapping[str, ServerMechanism]:
    """The mechanisms in `sasl.enabled.mechanisms`, by name, in that order.

    Raises ConfigError if the configuration of one mechanism is invalid, because the node must not start then.
    """
    found = {name: _mechanism(config, name, users) for name in config.listed(ENABLED_KEY)}
    if not found:
        raise _refused(config, ENABLED_KEY, f"{ENABLED_KEY} of listener {config.listener} is empty")
    return found


def _mechanism(config: ListenerConfig, name: str, users: scram.ScramUsers) -> ServerMechanism:
    if name not in MODULES:
        known = ", ".join(MODULES)
        raise _refused(config, ENABLED_KEY, f"{ENABLED_KEY}: {name} is unknown; expected {known}")
    module = server_module(config, name)
    handler = config.text(HANDLER_KEY, name)
    if handler is not None:
        raise _refused(config, HANDLER_KEY, f"{HANDLER_KEY} of {name}: {handler} is not supported", name)
    begin: Callable[[], ServerExchange]
    if name == plain.NAME:
        passwords = plain.Passwords(module.options)

        def begin() -> ServerExchange:
            return plain.PlainServer(passwords)
    elif name in scram.MECHANISMS:
        mechanism = scram.MECHANISMS[name]

        def begin() -> ServerExchange:
            return scram.ScramServer(mechanism, users, scram.new_nonce())
    else:
        raise _refused(config, ENABLED_KEY, f"{ENABLED_KEY}: {name} is not built yet")
    return ServerMechanism(name, begin)


def _refused(config: ListenerConfig, name: str, message: str, mechanism: str | None = None) -> ConfigError:
    key = config.key_of(name, mechanism) or name
    return ConfigError(message, key=key, where=config.config.texts.where(key))
