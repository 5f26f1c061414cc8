"""Secrets of the command line, which the list of processes must not show."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kcli.runtime.hidden_arguments import secret_parts

SHOW = (
    "import sys; from kcli.runtime.hidden_arguments import hide_secrets; hide_secrets(sys.argv); "
    "print(open('/proc/self/cmdline').read(), end='')"
)


@pytest.mark.parametrize(
    ("words", "hidden"),
    [
        (["--add-config", "SCRAM-SHA-256=[iterations=4096,password=hush]"], ["hush]"]),
        (["--add-scram", "SCRAM-SHA-512=[name=a,password=hüsh]"], ["hüsh]"]),
        (
            ["--producer-property", "sasl.jaas.config=a.PlainLoginModule required;"],
            ["a.PlainLoginModule required;"],
        ),
        (["--override", "delegation.token.secret.key=hush"], ["hush"]),
        (["--command-property", "ssl.keystore.password=hush"], ["hush"]),
        (["--hmac", "aHVzaA=="], ["aHVzaA=="]),
        (["--hmac=aHVzaA=="], ["aHVzaA=="]),
        (["--jmx-auth-prop", "ops=hush"], ["ops=hush"]),
        (["--topic", "password", "--property", "password="], []),
    ],
)
def test_secrets_are_found(words: list[str], hidden: list[str]) -> None:
    assert [word[index:] for word, index in secret_parts(words)] == hidden


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="only Linux has /proc")
def test_the_list_of_processes_does_not_show_secrets() -> None:
    words = [
        "configs",
        "--add-config",
        "SCRAM-SHA-256=[password=hüsh]",
        "--hmac",
        "hush",
        "--topic",
        "hush-t",
    ]
    shown = subprocess.run([sys.executable, "-c", SHOW, *words], capture_output=True, text=True, check=True)
    hidden = [
        "configs",
        "--add-config",
        f"SCRAM-SHA-256=[password={'*' * 6}",
        "--hmac",
        "****",
        "--topic",
        "hush-t",
    ]
    assert shown.stdout.split("\0")[3:-1] == hidden


SERVE = (
    "import kcli.server.main as server\n"
    "server.configured = lambda path, overrides: None\n"
    "server.run = lambda config, is_background: print(open('/proc/self/cmdline').read()) or 0\n"
    "server.main()"
)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="only Linux has /proc")
def test_a_server_in_the_background_does_not_show_the_secrets_of_its_overrides() -> None:
    words = ["--background", "server.properties", "--override", "ssl.keystore.password=hush"]
    shown = subprocess.run([sys.executable, "-c", SERVE, *words], capture_output=True, text=True, check=True)
    assert "ssl.keystore.password=****" in shown.stdout and "hush" not in shown.stdout
