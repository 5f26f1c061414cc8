"""The environment variables that switch traces on and off."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

from kcli.tracing.settings import TracingError, asked, names_service, settings_of, traces_url

URL = "http://user:secret@collector:4318"


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, False),
        ({"OTEL_SERVICE_NAME": "x", "OTEL_EXPORTER_OTLP_HEADERS": "a=b"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": URL}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": URL}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": URL, "OTEL_TRACES_EXPORTER": "none"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": URL, "OTEL_SDK_DISABLED": "true"}, False),
    ],
)
def test_the_environment_asks_for_traces(environ: dict[str, str], expected: bool) -> None:
    assert asked(environ) is expected


def test_another_exporter_is_refused() -> None:
    with pytest.raises(TracingError, match="OTEL_TRACES_EXPORTER=zipkin: kcli exports only with otlp"):
        asked({"OTEL_TRACES_EXPORTER": "zipkin"})


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "=grpc: kcli exports with http/protobuf"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "secret:4318"}, "expected http://HOST:PORT"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://secret:99999"}, "expected http://HOST:PORT"),
        ({"OTEL_BSP_MAX_QUEUE_SIZE": "many"}, 'OTEL_BSP_MAX_QUEUE_SIZE="many": expected a positive number'),
        ({"OTEL_BSP_SCHEDULE_DELAY": "0"}, "expected a positive number"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named_without_secrets(
    environ: dict[str, str], message: str
) -> None:
    with pytest.raises(TracingError) as failed:
        settings_of(environ, "tool")
    assert message in str(failed.value)
    assert "secret" not in str(failed.value)


def test_a_missing_package_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(TracingError, match=r"pip install 'kcli-streaming\[traces\]'"):
        settings_of({}, "tool")


def test_the_settings_are_read_and_show_no_secret() -> None:
    environ = {
        "OTEL_BSP_MAX_QUEUE_SIZE": "7",
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=secret",
        "PATH": "/bin",
    }
    found = settings_of(environ, "tool", endpoint=URL)
    assert (found.queue_max, found.endpoint) == (7, f"{URL}/v1/traces")
    assert dict(found.environment).keys() == {"OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_EXPORTER_OTLP_HEADERS"}
    assert "secret" not in repr(found)


def test_the_path_of_traces_is_added_once() -> None:
    assert traces_url("http://c:4318/") == traces_url("http://c:4318/v1/traces") == "http://c:4318/v1/traces"


def test_the_service_name_of_the_environment_takes_precedence() -> None:
    assert names_service({"OTEL_SERVICE_NAME": "x"})
    assert names_service({"OTEL_RESOURCE_ATTRIBUTES": "a=b, service.name=x"})
    assert not names_service({"OTEL_RESOURCE_ATTRIBUTES": "service.namespace=x"})


def test_nothing_of_opentelemetry_is_imported_by_a_broker_and_by_tools_without_traces() -> None:
    script = (
        "import sys, kcli.server.node, kcli.server.roles.broker_role, kcli.cli.tools.console.producer as p;"
        "import kcli.cli.record_traces as r; assert r.record_traces('x') is None;"
        "of_traces = ('opentelemetry', 'kcli.server.requests.node_traces');"
        "found = [name for name in sys.modules if name.startswith(of_traces)];"
        "assert not found, found"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
