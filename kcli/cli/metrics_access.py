"""The login and the TLS settings of tools for the metrics endpoints of brokers."""

from __future__ import annotations

from collections.abc import Mapping

from kcli.http.broker_metrics import MetricsAccess


def metrics_access(properties: Mapping[str, str]) -> MetricsAccess:
    """Reads the login and the TLS settings for metrics endpoints. Raises CommandError if a setting is invalid."""
    user = properties.get("kcli.metrics.user")
    credentials = None if user is None else f"{user}:{properties.get('kcli.metrics.password', '')}"
    if properties.get("kcli.metrics.protocol", "HTTP").upper() != "HTTPS":
        return MetricsAccess(credentials)
    from kcli.cli.syntax.options import CommandError
    from kcli.config.definition import ConfigError
    from kcli.security.tls.contexts import client_tls

    try:
        return MetricsAccess(credentials, client_tls(properties.get).context())
    except (ConfigError, OSError) as error:
        raise CommandError(str(error)) from error
