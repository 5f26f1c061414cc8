"""Makes the authorizer of a node, as its configuration (authorizer.class.name) requires."""

from __future__ import annotations

from typing import cast

from kcli.config.broker import BrokerConfig
from kcli.config.definition import ConfigError
from kcli.model.java_text import trim
from kcli.security.acls.settings import acl_settings
from kcli.security.acls.standard import StandardAuthorizer
from kcli.security.authorizer import ALLOW_ALL, Authorizer
from kcli.security.plugins import made

KEY = "authorizer.class.name"
STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
GROUP = "kcli.authorizers"
"""The entry point group in which packages declare their authorizers."""

_MEMBERS = ("is_open", "authorize", "authorize_any")
_REMOVED = ("kafka.security.authorizer.AclAuthorizer", "kafka.security.auth.SimpleAclAuthorizer")


def node_authorizer(config: BrokerConfig) -> Authorizer:
    """Returns the authorizer of a node. Raises ConfigError if the class is unknown, or if its settings are invalid."""
    name = trim(config.text(KEY))
    try:
        if not name:
            return ALLOW_ALL
        if name == STANDARD:
            return StandardAuthorizer(acl_settings(config.texts), config.node_id)
        if name in _REMOVED:
            raise ConfigError(f"{KEY}: {name} was removed in Kafka 4. Set instead {STANDARD}", key=KEY)
        authorizer = cast(Authorizer, made(KEY, name, GROUP, config.texts, _MEMBERS))
        if not isinstance(authorizer.is_open, bool):
            # A method object counts as true. So without @property, every principal could do everything.
            raise ConfigError(
                f"{KEY}: {name} has is_open without a truth value; expected a property", key=KEY
            )
        return authorizer
    except ConfigError as error:
        raise error.at(config.texts.where(error.key) if error.key else "") from None
