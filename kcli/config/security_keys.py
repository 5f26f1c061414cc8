"""The security keys that may change while a broker runs, and all other security keys (KIP-226).

A client that changes a dynamic config needs only the permission to alter the cluster's configs. If such a client could
change the other security keys, it could make the node send its user name and password to another server. So the other
security keys can be set only in the node's file.
"""

from __future__ import annotations

import re

STORE_KEYS = (
    "ssl.keystore.type",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.key.password",
    "ssl.truststore.type",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.certificates",
)
"""The keys of the TLS stores of a listener."""

DYNAMIC_KEYS = (*STORE_KEYS, "ssl.client.auth")
"""The keys whose new values a running listener uses without a restart. These keys need the prefix of the listener."""

_LISTENER = "listener.name."
_SECURITY = re.compile(r"(?:^|\.)(?:ssl|sasl|security|principal\.builder)\.")


def is_security_key(name: str) -> bool:
    """Whether a key is a security key. The key may have the prefix of a listener, a mechanism or a plugin."""
    return _SECURITY.search(name) is not None


def is_store_key(name: str) -> bool:
    """Whether a key is one of DYNAMIC_KEYS with the prefix of a listener."""
    return name.startswith(_LISTENER) and name[len(_LISTENER) :].partition(".")[2] in DYNAMIC_KEYS
