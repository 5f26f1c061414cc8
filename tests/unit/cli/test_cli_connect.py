"""Errors of a tool about its cluster: settings that cannot be used, servers that cannot be found."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.cli.connect import ClusterOptions, admin
from kcli.cli.main import run
from kcli.cli.syntax.options import CommandError

NOWHERE = "no-such-host.invalid:9092"  # RFC 6761: such a name never resolves


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "retry.backoff.ms=x",
            "Invalid value x for configuration retry.backoff.ms: Not a number of type LONG",
        ),
        ("retries=-1", "retries: Value must be at least 0"),
        (
            "metadata.recovery.strategy=hope",
            "Invalid value hope for configuration metadata.recovery.strategy",
        ),
    ],
)
def test_invalid_settings_are_named_with_their_line(text: str, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text(f"client.id=me\n{text}\n")
    with pytest.raises(CommandError) as told:
        admin(ClusterOptions(bootstrap_server="127.0.0.1:1", command_config=str(path)))
    assert complaint in str(told.value)
    assert "client.properties:2" in str(told.value)


def test_unknown_names_of_settings_are_warned_about(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file may be shared with producers and consumers, and that of a new controller is a broker's."""
    path = tmp_path / "client.properties"
    path.write_text("acks=all\ngroup.id=g\nprocess.roles=controller\nrequest.timout.ms=5\n")
    admin(ClusterOptions(bootstrap_server="127.0.0.1:1", command_config=str(path)))
    assert capsys.readouterr().err == (
        "WARN client.properties:4: ignored the unknown setting request.timout.ms. "
        "Did you mean request.timeout.ms?\n"
    )


def test_settings_without_effect_are_warned_about(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "client.properties"
    path.write_text("ssl.provider=\nsasl.login.refresh.window.factor=0.5\nclient.id=c\n")
    admin(ClusterOptions(bootstrap_server="127.0.0.1:1", command_config=str(path)))
    expected = "WARN client.properties:2: sasl.login.refresh.window.factor has no effect in kcli.\n"
    assert capsys.readouterr().err == expected


def test_a_tool_has_defaults_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("request.timeout.ms=5000\n")
    options = ClusterOptions(bootstrap_server="127.0.0.1:1", command_config=str(path))
    config = admin(options, defaults={"request.timeout.ms": "1", "default.api.timeout.ms": "7000"}).config
    assert (config.request_timeout_ms, config.default_api_timeout_ms) == (5000, 7000)


def test_one_server_with_an_address_is_enough() -> None:
    assert len(admin(ClusterOptions(bootstrap_server=f"{NOWHERE},127.0.0.1:1")).config.servers) == 2


@pytest.mark.usefixtures("kafkas_script")
@pytest.mark.parametrize(
    ("words", "code", "out", "err"),
    [
        (f"topics --list --bootstrap-server {NOWHERE}", 1, "", "No resolvable bootstrap urls given in"),
        (f"get-offsets --bootstrap-server {NOWHERE}", 1, "", "Error occurred: No resolvable bootstrap urls"),
        (f"reassign-partitions --list --bootstrap-server {NOWHERE}", 1, "Error: No resolvable", ""),
        (f"consumer-groups --list --bootstrap-server {NOWHERE}", 0, "\nError: Executing", "No resolvable"),
        (
            f"cluster cluster-id -C {NOWHERE}",
            1,
            "",
            "No resolvable bootstrap urls given in bootstrap.controllers",
        ),
        (f"topics --list --bootstrap-server {'a' * 70}:1", 1, "", "not a host name"),
        ("topics --list --bootstrap-server h:1 --command-config no/such", 1, "", "no/such\n"),
        ("get-offsets --bootstrap-server h:1 --command-config no/such", 1, "", "Error occurred: no/such\n"),
        (
            "reassign-partitions --list --bootstrap-server h:1 --command-config no/such",
            1,
            "Error: no/such\n",
            "",
        ),
        (
            "metadata-quorum --bootstrap-server h:1 --command-config no/such describe --status",
            1,
            "",
            "Properties file no/such does not exists!\n",
        ),
        (
            "configs --describe --topic t --bootstrap-server h:1 --command-config no/such",
            1,
            "",
            "java.nio.file.NoSuchFileException: no/such\n",
        ),
    ],
)
def test_each_tool_tells_it_in_its_way(
    words: str, code: int, out: str, err: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words.split()) == code
    printed = capsys.readouterr()
    assert out in printed.out
    assert err in printed.err
    assert bool(out) == bool(printed.out)
