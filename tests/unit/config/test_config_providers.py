from __future__ import annotations

from pathlib import Path

import pytest

from kcli.config.definition import ConfigError
from kcli.config.not_built import start_up_warnings
from kcli.config.properties import Properties
from kcli.config.providers import resolve
from kcli.config.start_up import node_config

PACKAGE = "org.apache.kafka.common.config.provider"
PROVIDERS = {
    "config.providers": "env, file,dir",
    "config.providers.env.class": f"{PACKAGE}.EnvVarConfigProvider",
    "config.providers.file.class": f"{PACKAGE}.FileConfigProvider",
    "config.providers.dir.class": f"{PACKAGE}.DirectoryConfigProvider",
}


def resolved(**texts: str) -> dict[str, str]:
    properties = Properties(
        PROVIDERS | {key.replace("_", "."): text for key, text in texts.items()}, where="f:1"
    )
    resolve(properties)
    return {key: value for key, value in properties.items() if key not in PROVIDERS}


def test_values_come_from_environment_file_or_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KCLI_TEST_RACK", "r7")
    (tmp_path / "s.properties").write_text("a.key=from file\n")
    (tmp_path / "secret").write_text("from directory")
    assert resolved(
        broker_rack="rack ${env:KCLI_TEST_RACK}!",
        a=f"${{file:{tmp_path}/s.properties:a.key}}",
        b=f"${{dir:{tmp_path}:secret}}",
        c="${env:KCLI_TEST_UNSET} ${other:x} $HOME",
    ) == {
        "broker.rack": "rack r7!",
        "a": "from file",
        "b": "from directory",
        "c": "${env:KCLI_TEST_UNSET} ${other:x} $HOME",
    }


def test_without_providers_nothing_is_a_variable() -> None:
    properties = Properties({"a": "${env:HOME}"})
    resolve(properties)
    assert properties["a"] == "${env:HOME}"


def test_limits_of_providers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KCLI_TEST_RACK", "r7")
    limited = {"config.providers.env.param.allowlist.pattern": "OTHER_.*"}
    properties = Properties(PROVIDERS | limited | {"a": "${env:KCLI_TEST_RACK}"})
    resolve(properties)
    assert properties["a"] == "${env:KCLI_TEST_RACK}"
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "s").write_text("inside")
    (tmp_path / "out").write_text("outside")
    limited = {"config.providers.dir.param.allowed.paths": str(tmp_path / "in")}
    properties = Properties(PROVIDERS | limited | {"a": f"${{dir:{tmp_path}/in:s}}"})
    resolve(properties)
    assert properties["a"] == "inside"
    with pytest.raises(ConfigError, match=r"is not below allowed\.paths"):
        resolve(Properties(PROVIDERS | limited | {"a": f"${{dir:{tmp_path}:out}}"}))
    assert resolved(a=f"${{dir:{tmp_path}/in:../out}}") == {"a": f"${{dir:{tmp_path}/in:../out}}"}


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"config.providers": "vault"}, "config.providers.vault.class does not say what it is"),
        ({"config.providers": "v", "config.providers.v.class": "com.x.Vault"}, "com.x.Vault is not known"),
        (
            PROVIDERS | {"a": "${file:/nowhere/s.properties:k}"},
            "a: Could not read properties from file /nowhere",
        ),
        (PROVIDERS | {"a": "${env:path:k}"}, "a: a variable of the environment has no path, found 'path'"),
    ],
)
def test_missing_or_invalid_references_are_refused(texts: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        resolve(Properties(texts))
    assert message in str(refused.value)


def test_a_file_with_a_value_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "s").write_bytes(b"caf\xe9")
    with pytest.raises(ConfigError) as refused:
        resolved(a=f"${{dir:{tmp_path}:s}}")
    assert str(refused.value) == f"a: Could not read file {tmp_path}/s for property s"


def test_a_node_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KCLI_TEST_NODE", "42")
    texts = {
        "process.roles": "broker,controller",
        "node.id": "${env:KCLI_TEST_NODE}",
        "controller.quorum.bootstrap.servers": "h:1",
        "listeners": "PLAINTEXT://h:2,CONTROLLER://h:1",
        "controller.listener.names": "CONTROLLER",
    }
    config = node_config(PROVIDERS | texts)
    assert config.node_id == config["broker.id"] == 42
    assert start_up_warnings(config) == []
