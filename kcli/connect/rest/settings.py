"""Makes the settings of the REST server from the configuration of a worker: TLS, logins, headers."""

from __future__ import annotations

import dataclasses

from kcli.connect.config.rest_listeners import RestConfig
from kcli.connect.config.worker import WorkerConfig
from kcli.connect.rest.basic_auth import BasicAuth
from kcli.connect.rest.server import RestSettings
from kcli.http.rest.listeners import client_context, listening
from kcli.http.rest.response_headers import Cors, HeaderRule, ResponseHeaders
from kcli.http.rest.users import users_of_section

JAAS_SECTION = "KafkaConnect"


def rest_settings(config: WorkerConfig) -> RestSettings:
    """Raises ConfigError if a store, a header or the file of users is invalid."""
    rest = config.rest
    return dataclasses.replace(
        internal_settings(rest),
        admin_listeners=None
        if rest.admin_listeners is None
        else [listening(one, rest.admin_ssl) for one in rest.admin_listeners],
        tracks_topics=config.topic_tracking_enable,
        allows_reset=config.topic_tracking_allow_reset,
        # An empty file of users means that each login is accepted.
        check=BasicAuth(users_of_section(JAAS_SECTION)).check if rest.extension_classes else None,
    )


def internal_settings(rest: RestConfig) -> RestSettings:
    """The settings of a server for the other workers alone. Raises ConfigError if a store or a header is invalid."""
    return RestSettings(
        listeners=[listening(one, rest.ssl) for one in rest.listeners],
        headers=ResponseHeaders(
            HeaderRule.parse(rest.response_headers), Cors(rest.allow_origin, rest.allow_methods)
        ),
        forwarding_tls=client_context(rest.ssl) if any(one.is_https for one in rest.listeners) else None,
    )
