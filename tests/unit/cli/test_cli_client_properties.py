"""Client properties on a command line: bootstrap lists, files, and `key=value` arguments over them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.cli.client_properties import check_bootstrap, client_properties, load_properties
from kcli.cli.syntax.options import CommandError, UsageError


@pytest.mark.parametrize("servers", ["h:9092", "h:1,i:2", "PLAINTEXT://h:9092", "[::1]:9092", " h:1 , i:2 "])
def test_bootstrap_lists_that_are_taken(servers: str) -> None:
    check_bootstrap(servers)


@pytest.mark.parametrize("servers", [None, "", " ", "h", "h:port", "h:1,i", "h:123456", ","])
def test_bootstrap_lists_that_are_refused(servers: str | None) -> None:
    with pytest.raises(UsageError):
        check_bootstrap(servers)


def test_a_file_then_words_over_it(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("client.id=of the file\nacks=1\n")
    assert client_properties(str(path), ["client.id=x=y"]) == {"client.id": "x=y", "acks": "1"}
    with pytest.raises(CommandError, match=r"missing\.properties"):
        client_properties(str(tmp_path / "missing.properties"), [])
    assert client_properties(None, ["nothing", "empty="]) == {"nothing": "", "empty": ""}


def test_a_key_that_is_set_again_is_warned_about(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "client.properties"
    path.write_text("acks=1\nacks=all\n")
    assert load_properties(str(path)) == {"acks": "all"}
    assert capsys.readouterr().err == (
        "WARN client.properties:2: acks is set again; the value at client.properties:1 is ignored\n"
    )


def test_a_file_that_cannot_be_understood_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("acks=1\nclient.id=\\uXYZ\n")
    with pytest.raises(CommandError, match=r"client\.properties:2: Malformed"):
        client_properties(str(path), [])
    with pytest.raises(CommandError, match=r"client\.properties:2: Malformed"):
        load_properties(str(path))


def test_variables_of_providers_are_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = tmp_path / "secrets.properties"
    secrets.write_text("password=from-file\n")
    (tmp_path / "token").write_text("from-directory")
    monkeypatch.setenv("KCLI_TEST_USER", "from-environment")
    package = "org.apache.kafka.common.config.provider"
    path = tmp_path / "client.properties"
    path.write_text(
        "config.providers=file,dir,env\n"
        f"config.providers.file.class={package}.FileConfigProvider\n"
        f"config.providers.dir.class={package}.DirectoryConfigProvider\n"
        f"config.providers.env.class={package}.EnvVarConfigProvider\n"
        f"ssl.key.password=${{file:{secrets}:password}}\n"
        f"ssl.keystore.password=${{dir:{tmp_path}:token}}\n"
    )
    for text in (
        client_properties(str(path), ["client.id=${env:KCLI_TEST_USER}"]),
        {**load_properties(str(path)), "client.id": "from-environment"},
    ):
        assert text["ssl.key.password"] == "from-file"
        assert text["ssl.keystore.password"] == "from-directory"
        assert text["client.id"] == "from-environment"


def test_a_provider_that_is_not_known_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text(
        "config.providers=v\nconfig.providers.v.class=com.example.Vault\nssl.key.password=${v:a}\n"
    )
    with pytest.raises(CommandError, match=r"com\.example\.Vault is not known"):
        client_properties(str(path), [])


@pytest.mark.parametrize(("mode", "is_warned"), [(0o644, True), (0o640, False), (0o600, False)])
def test_a_private_key_that_all_may_read_is_warned_about(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], mode: int, is_warned: bool
) -> None:
    key = tmp_path / "key.pem"
    key.write_text("")
    key.chmod(mode)
    for setting in (
        f"ssl.keystore.location={key}",
        f'sasl.jaas.config=a.Krb5LoginModule required useKeyTab=true keyTab="{key}";',
    ):
        client_properties(None, [setting])
        assert (f"every user of this machine may read {key}" in capsys.readouterr().err) is is_warned


def test_a_login_module_with_an_error_gets_no_warning(capsys: pytest.CaptureFixture[str]) -> None:
    client_properties(None, ["sasl.jaas.config=keyTab"])
    assert capsys.readouterr().err == ""
