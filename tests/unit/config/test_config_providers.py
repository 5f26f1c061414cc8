from __future__ import annotations

from pathlib import Path

import pytest

from kcli.config.definition import ConfigError
from kcli.config.not_built import start_up_warnings
from kcli.config.properties import Properties
from kcli.config.providers import ConfigTransformer, resolve
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


def test_limits_of_providers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
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
    for path in (f"{tmp_path}", f"{tmp_path}/in/..", f"{tmp_path}/inside"):
        properties = Properties(PROVIDERS | limited | {"a": f"${{dir:{path}:out}}"})
        resolve(properties)
        assert properties["a"] == f"${{dir:{path}:out}}"
        assert f"The path {path} is not allowed to be accessed" in caplog.messages
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
        (
            {"config.providers.file.param.allowed.paths": "/,relative"} | PROVIDERS,
            "Path relative is not absolute",
        ),
        (
            {"config.providers.dir.param.allowed.paths": "/nowhere/at/all"} | PROVIDERS,
            "Path /nowhere/at/all does not exist",
        ),
        (
            PROVIDERS | {"a": "${env:path:k}"},
            "a: Path is not supported for EnvVarConfigProvider, invalid value 'path'",
        ),
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


def test_a_transformer_replaces_the_variables_of_other_configurations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KCLI_TEST_TOPIC", "${env:KCLI_TEST_TOPIC}")
    secrets = tmp_path / "s.properties"
    secrets.write_text("password=caf\xe9=1\nuser=u\n", encoding="utf-8")
    transformer = ConfigTransformer(PROVIDERS | {"a": f"${{file:{secrets}:user}}"})
    config = {
        "login": f"${{file:{secrets}:user}}/${{file:{secrets}:password}}",
        "topic": "${env:KCLI_TEST_TOPIC}",
        "missing": f"${{file:{secrets}:no}} ${{dir:{tmp_path}/no:x}} ${{file::x}}",
        "null": None,
    }
    assert transformer.transform(config) == config | {"login": "u/caf\xe9=1"}
    secrets.write_text("user=other")
    assert transformer.transform({"a": f"${{file:{secrets}:user}}"}) == {"a": "other"}


def test_a_transformer_refuses_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    transformer = ConfigTransformer(PROVIDERS)
    (tmp_path / "s").write_bytes(b"a=caf\xe9")
    for path in (tmp_path / "s", tmp_path / "no"):
        with pytest.raises(ConfigError) as refused:
            transformer.transform({"a": f"${{file:{path}:a}}"})
        assert str(refused.value) == f"Could not read properties from file {path}"


def test_a_path_is_normalized_before_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out" / "deep").mkdir(parents=True)
    (tmp_path / "out" / "s").write_text("outside")
    (tmp_path / "in" / "s").write_text("inside")
    (tmp_path / "in" / "link").symlink_to(tmp_path / "out" / "deep")
    allowed = {"config.providers.dir.param.allowed.paths": f"{tmp_path}/in/"}
    transformer = ConfigTransformer(PROVIDERS | allowed)
    assert transformer.transform({"a": f"${{dir:{tmp_path}/in/link/..:s}}"}) == {"a": "inside"}


@pytest.mark.parametrize("name", ["EnvVarConfigProvider", "EnvVar", f"{PACKAGE}.EnvVarConfigProvider"])
def test_a_provider_has_a_short_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KCLI_TEST_RACK", "r7")
    transformer = ConfigTransformer({"config.providers": "e", "config.providers.e.class": name})
    assert transformer.transform({"a": "${e:KCLI_TEST_RACK}"}) == {"a": "r7"}
