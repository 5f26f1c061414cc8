"""kcli console: which options it refuses before it listens."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from kcli.cli.main import run

SERVER = ("--bootstrap-server", "127.0.0.1:1")


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What the command prints on stderr, before its usage, when it ends with an error."""
    assert run(["console", *words]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    return said.err.partition("Option ")[0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--read-only",), 'Missing required argument "[bootstrap-server]", or --cluster'),
        ((*SERVER, "--listen", "8090"), "--listen 8090: expected host:port"),
        ((*SERVER, "--listen", "0.0.0.0:8090"), "other machines could read passwords on the network"),
        ((*SERVER, "--listen", "console.example.com:8090"), "other machines could read passwords"),
        ((*SERVER, "--tls-key", "k.pem"), "--tls-certificate and --tls-key need each other"),
        ((*SERVER, "--tls-key", "k", "--tls-certificate", "c"), "--tls-certificate c: No such file"),
        ((*SERVER, "--base-path", "kafka"), "--base-path kafka: expected a path such as /kafka"),
        ((*SERVER, "--base-path", "/a?b"), "--base-path /a?b: expected a path"),
        ((*SERVER, "--cluster", "live"), "--cluster live: expected NAME=host:port or NAME=FILE"),
        ((*SERVER, "--cluster", "a/b=h:1"), "--cluster a/b=h:1: expected NAME"),
        ((*SERVER, "--cluster", "main=h:1"), "two clusters have the same name"),
        ((*SERVER, "--metrics", "nothing"), "--metrics"),
        (
            (*SERVER, "--connect", "ftp://u:secret@h"),
            "--connect h: expected a URL such as http://localhost:8083",
        ),
        ((*SERVER, "--connect", "h:1", "--connect", "http://h:1"), "--connect: two URLs have the same host"),
        ((*SERVER, "--audit-log", "/none/audit"), "the audit log /none/audit cannot be opened"),
        (("--bootstrap-server", "nothing"), "Invalid url in bootstrap.servers: nothing"),
    ],
)
def test_wrong_options_are_refused(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    assert message in refused(capsys, *words)


def test_a_port_that_is_taken_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        assert refused(capsys, *SERVER, "--listen", listen).startswith(f"--listen {listen}: ")


def test_a_client_certificate_serves_only_this_machine(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = tmp_path / "client.properties"
    config.write_text("security.protocol=SSL\nssl.keystore.location=/none.pem\nssl.keystore.type=PEM\n")
    words = (*SERVER, "--command-config", str(config), "--listen", "0.0.0.0:1", "--insecure")
    assert "client certificate" in refused(capsys, *words)


def test_further_clusters_name_their_workers_of_connect_in_their_files(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = tmp_path / "live.properties"
    config.write_text("bootstrap.servers=h:1\nkcli.connect.urls=http://a:1, ftp://b\n")
    assert "kcli.connect.urls ftp://b: expected a URL" in refused(
        capsys, *SERVER, "--cluster", f"live={config}"
    )
