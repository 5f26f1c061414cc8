"""Finds out whether the environment variables of OpenTelemetry switch traces on.

OTEL_TRACES_EXPORTER=otlp, or an address in OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, switches
traces on. OTEL_TRACES_EXPORTER=none and OTEL_SDK_DISABLED=true switch them off. The SDK itself reads the other
variables.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from kcli.errors import KcliError
from kcli.model.java_text import natural, trim

EXPORTER, DISABLED = "OTEL_TRACES_EXPORTER", "OTEL_SDK_DISABLED"
ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
SERVICE_NAME, RESOURCE = "OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES"
QUEUE, BATCH, DELAY = "OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "OTEL_BSP_SCHEDULE_DELAY"

PREFIX = "OTEL_"
_HTTP = "http/protobuf"

QUEUE_DEFAULT = 16_384
"""The most spans that may wait for the export, about 16 MB. The SDK's default of 2048 spans is too low for a tool that
sends a file of records."""
BATCH_DEFAULT, DELAY_DEFAULT_MS = 512, 1_000


class TracingError(KcliError):
    """An error for traces that are switched on but cannot be exported."""


@dataclass(frozen=True, slots=True)
class TraceSettings:
    """The settings of an export. `service` is the service name that is used if the environment does not set one.

    `endpoint` is the whole URL for OTLP over HTTP; None means that the SDK finds it in the environment. `attributes`
    describe the process, as in OTEL_RESOURCE_ATTRIBUTES. `environment` has the OTEL_ variables, so that another process
    can export in the same way.
    """

    service: str
    endpoint: str | None = None
    queue_max: int = QUEUE_DEFAULT
    batch_max: int = BATCH_DEFAULT
    delay_ms: int = DELAY_DEFAULT_MS
    attributes: tuple[tuple[str, str], ...] = ()
    environment: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        # The environment may have a password in OTEL_EXPORTER_OTLP_HEADERS.
        return f"TraceSettings(service={self.service!r})"


def asked(environ: Mapping[str, str]) -> bool:
    """Whether the environment switches traces on. Raises TracingError if it names an exporter that kcli does not
    have."""
    if trim(environ.get(DISABLED, "")).lower() == "true":
        return False
    exporter = trim(environ.get(EXPORTER, "")).lower()
    if exporter == "none":
        return False
    if exporter not in ("", "otlp"):
        raise TracingError(f"{EXPORTER}={exporter}: kcli exports only with otlp")
    return bool(exporter) or any(trim(environ.get(name, "")) for name in ENDPOINTS)


def settings_of(
    environ: Mapping[str, str],
    service: str,
    *,
    endpoint: str | None = None,
    attributes: tuple[tuple[str, str], ...] = (),
) -> TraceSettings:
    """Returns the settings for a process whose default name is `service`.

    `endpoint` is the address of a collector, such as http://localhost:4318, and takes precedence over the environment.
    Raises TracingError for a setting that cannot be used, or if opentelemetry is not installed.
    """
    protocol = trim(next((environ[name] for name in PROTOCOLS if environ.get(name)), _HTTP)).lower()
    if protocol != _HTTP:
        raise TracingError(
            f"{PROTOCOLS[1]}={protocol}: kcli exports with {_HTTP}, to which a collector listens on port 4318"
        )
    for address in (endpoint, *(environ.get(name) for name in ENDPOINTS)):
        _check_address(address)
    check_installed()
    return TraceSettings(
        service,
        None if endpoint is None else traces_url(endpoint),
        queue_max=_number(environ, QUEUE, QUEUE_DEFAULT),
        batch_max=_number(environ, BATCH, BATCH_DEFAULT),
        delay_ms=_number(environ, DELAY, DELAY_DEFAULT_MS),
        attributes=attributes,
        environment=tuple((name, value) for name, value in environ.items() if name.startswith(PREFIX)),
    )


def check_installed() -> None:
    """Raises TracingError if the packages of the extra `traces` are missing."""
    for package in ("opentelemetry", "opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"):
        try:
            is_there = importlib.util.find_spec(package) is not None
        except ModuleNotFoundError:
            is_there = False
        if not is_there:
            raise TracingError(
                f"traces need the package {package}, which is not installed: pip install 'kcli-streaming[traces]'"
            )


def traces_url(endpoint: str) -> str:
    """Returns the URL to which spans are sent: the address of a collector and /v1/traces."""
    _check_address(endpoint)
    plain = trim(endpoint).rstrip("/")
    return plain if plain.endswith("/v1/traces") else f"{plain}/v1/traces"


def names_service(environ: Mapping[str, str]) -> bool:
    """Whether the environment has a service name."""
    pairs = environ.get(RESOURCE, "").split(",")
    return bool(environ.get(SERVICE_NAME)) or any(trim(pair).startswith("service.name=") for pair in pairs)


def _check_address(address: str | None) -> None:
    if not address or not trim(address):
        return
    try:
        parts = urlsplit(trim(address))
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid:
        # The address may contain a password, so the message shows only its form.
        raise TracingError(
            "the address of the collector is invalid: expected http://HOST:PORT or https://HOST:PORT"
        )


def _number(environ: Mapping[str, str], name: str, default: int) -> int:
    text = trim(environ.get(name, ""))
    if not text:
        return default
    number = natural(text)
    if not number:
        raise TracingError(f"{name}={json.dumps(text)}: expected a positive number")
    return number
