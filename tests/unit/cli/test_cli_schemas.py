"""`kcli schemas` against a small registry in this process: its login, its profile, completion, and hostile answers."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcli.cli.complete import candidates
from kcli.cli.main import run
from kcli.cli.syntax.registry import TOOLS
from kcli.cli.tools.schemas.connection import URL_VARIABLE
from rigs.schema_registry import MemoryRegistry, memory_registry

ORDER = '{"type":"record","name":"Order","fields":[]}'
ESCAPE = "\x1b[31mred"


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[MemoryRegistry]:
    with memory_registry() as served:
        served.put("orders-value", ORDER)
        monkeypatch.delenv(URL_VARIABLE, raising=False)
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
        yield served


def login_of(registry: MemoryRegistry) -> str | None:
    header = registry.calls[-1].headers.get("Authorization")
    return None if header is None else base64.b64decode(header.removeprefix("Basic ")).decode()


def test_the_registry_and_its_login_come_from_a_file_a_profile_or_the_command_line(
    registry: MemoryRegistry,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["schemas", "get", "orders-value", "--registry", registry.url]) == 0
    assert login_of(registry) is None
    file = tmp_path / "client.properties"
    file.write_text(f"schema.registry.url={registry.url}\nbasic.auth.user.info=ann:secret\n")
    assert run(["schemas", "get", "orders-value", "--command-config", str(file)]) == 0
    assert login_of(registry) == "ann:secret"
    with_login = registry.url.replace("http://", "http://ben:other@")
    monkeypatch.setenv(URL_VARIABLE, with_login)
    assert run(["schemas", "get", "orders-value"]) == 0
    assert login_of(registry) == "ben:other"
    monkeypatch.delenv(URL_VARIABLE)
    (tmp_path / "kcli").mkdir()
    (tmp_path / "kcli/profiles.toml").write_text(
        f'[prod.schemas]\nregistry = "{registry.url}"\n[prod.properties]\n"basic.auth.user.info" = "eve:third"\n'
    )
    assert run(["schemas", "list", "--profile", "prod"]) == 0
    assert login_of(registry) == "eve:third"
    file.write_text("basic.auth.user.info=nobody\n")
    capsys.readouterr()
    assert run(["schemas", "list", "--command-config", str(file)]) == 2
    assert "basic.auth.user.info: expected user:password" in capsys.readouterr().err


def test_a_refused_login_is_an_error_without_the_password(
    registry: MemoryRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.failures = [(401, {}, b'{"error_code":401,"message":"Unauthorized"}')]
    url = registry.url.replace("http://", "http://ann:s3cret@")
    assert run(["schemas", "get", "orders-value", "--registry", url]) == 2
    assert capsys.readouterr().err == "Unauthorized. Check the login in --registry or in the properties\n"


def test_names_and_reasons_cannot_control_the_terminal(
    registry: MemoryRegistry, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.put(ESCAPE, '"int"')
    registry.check = {"is_compatible": False, "messages": [f"never {ESCAPE}"]}
    file = tmp_path / "orders-value.avsc"
    file.write_text('"int"')
    for words, code in (("list", 0), (f"check {file}", 1)):
        assert run(["schemas", *words.split(), "--registry", registry.url]) == code
        printed = capsys.readouterr()
        assert "\x1b" not in printed.out + printed.err
        assert "\\x1b[31mred" in printed.out


@pytest.mark.parametrize(
    "answer",
    [b"<html>", b"[1]", b'{"subject":"x"}', b'{"compatibilityLevel":1}', b"", b"\xff", b"[" * 100_000],
)
def test_invalid_answers_are_errors(
    answer: bytes, registry: MemoryRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.failures = [(200, {}, answer)]
    assert run(["schemas", "get", "orders-value", "--registry", registry.url]) == 2
    printed = capsys.readouterr()
    assert (printed.out, len(printed.err.splitlines())) == ("", 1)


def test_subjects_are_completed(registry: MemoryRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    def complete(words: list[str], incomplete: str) -> list[str]:
        return [one.value for one in candidates(TOOLS["schemas"].load(), words, incomplete)]

    registry.put(ESCAPE, '"int"')
    monkeypatch.setenv(URL_VARIABLE, registry.url)
    assert complete(["get"], "or") == ["orders-value"]
    assert complete(["put"], "or") == []
    assert complete(["put", "--subject"], "or") == ["orders-value"]
    monkeypatch.setenv(URL_VARIABLE, "http://127.0.0.1:1")
    assert complete(["delete"], "or") == []
    assert complete(["delete", "--registry", registry.url, "--subject"], "or") == []


def test_output_in_json_has_all_that_the_registry_knows(
    registry: MemoryRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    uses = [{"name": "Order", "subject": "orders-value", "version": 1}]
    registry.put("list", '{"type":"array","items":"Order"}', references=uses)
    assert run(["schemas", "get", "list", "--output", "json", "--registry", registry.url]) == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["references"], row["metadata"], row["type"]) == (uses, None, "AVRO")
