"""Where metrics are served: the key of our own, and Kafka's environment variable."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.config.definition import ConfigError
from kcli.config.not_built import start_up_warnings
from kcli.config.start_up import node_config
from kcli.server.main import configured

NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "log.dirs": "/tmp/x",
}


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9999", ("127.0.0.1", 9999)),
        (":9999", ("", 9999)),
        ("[::1]:0", ("::1", 0)),
        ("", None),
    ],
)
def test_the_metrics_listener_is_host_and_port(text: str, address: tuple[str, int] | None) -> None:
    assert node_config(NODE, {"kcli.metrics.listener": text}).metrics_address == address


@pytest.mark.parametrize("text", ["9999", "host:", "host:70000", "http://host:1"])
def test_an_invalid_metrics_listener_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"kcli\.metrics\.listener: it must be host:port"):
        node_config(NODE, {"kcli.metrics.listener": text})


def test_jmx_port_opens_it_unless_the_file_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "server.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in NODE.items()))
    monkeypatch.delenv("JMX_PORT", raising=False)
    assert configured(str(file), {}).metrics_address is None
    monkeypatch.setenv("JMX_PORT", "9999")
    assert configured(str(file), {}).metrics_address == ("", 9999)
    assert configured(str(file), {"kcli.metrics.listener": "h:1"}).metrics_address == ("h", 1)
    monkeypatch.setenv("JMX_PORT", "many")
    with pytest.raises(ConfigError) as refused:
        configured(str(file), {})
    assert refused.value.located().startswith("environment variable JMX_PORT: ")


def test_only_reporters_and_levels_do_nothing() -> None:
    config = node_config(
        NODE,
        {
            "metrics.num.samples": "3",
            "metrics.sample.window.ms": "1000",
            "metric.reporters": "com.example.Reporter",
            "kcli.metrics.listener": ":1",
        },
    )
    assert start_up_warnings(config) == [
        "--override: metric.reporters does nothing; not built yet: metrics reporters, which are Java classes"
    ]
