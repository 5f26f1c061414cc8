from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import pytest

from kcli.config.definition import ConfigError
from kcli.http.rest.routing import Call
from kcli.registry.config.access_rules import Operation, access_rules
from kcli.registry.config.settings import LoginSettings
from kcli.registry.decisions.errors import RegistryError
from kcli.registry.rest.access import Access, logins

ANN = "ann:of-ann"


def header(login: str) -> str:
    return f"Basic {base64.b64encode(login.encode()).decode()}"


def environment(directory: Path, users: str, *, name: str = "SCHEMA_REGISTRY_OPTS") -> dict[str, str]:
    (directory / "users").write_text(users)
    (directory / "jaas.conf").write_text(
        f'R {{ a.PropertyFileLoginModule required file="{directory}/users"; }};'
    )
    return {name: f"-Djava.security.auth.login.config={directory}/jaas.conf"}


@pytest.mark.parametrize("variable", ["SCHEMA_REGISTRY_OPTS", "KAFKA_OPTS"])
def test_users_come_from_the_file_of_the_realm(tmp_path: Path, variable: str) -> None:
    users = logins(
        LoginSettings(realm="R"), environment(tmp_path, "ann: of-ann, admin\nbob:b\n", name=variable)
    )
    assert users.accepts(header(ANN)) and users.accepts(header("bob:b"))
    assert not users.accepts(header("ann:guess")) and not users.accepts(header("eve:of-ann"))


def test_only_users_with_a_role_log_in(tmp_path: Path) -> None:
    settings = LoginSettings(realm="R", roles=("admin", "dev"))
    users = logins(settings, environment(tmp_path, "ann:of-ann,dev\nbob:b,guest\neve:e\n"))
    assert users.accepts(header(ANN))
    assert not users.accepts(header("bob:b")) and not users.accepts(header("eve:e"))


def test_a_password_may_be_a_digest(tmp_path: Path) -> None:
    digest = hashlib.md5(b"of-ann").hexdigest().upper()
    users = logins(LoginSettings(realm="R"), environment(tmp_path, f"ann:MD5:{digest},dev\n"))
    assert users.accepts(header(ANN))
    assert not users.accepts(header("ann:guess")) and not users.accepts(header(f"ann:MD5:{digest}"))


@pytest.mark.parametrize("stored", ["OBF:1v2j1uum1xtv1zej1zer1xtn1uvk1v1v", "CRYPT:adpexzg3FUZAk"])
def test_a_password_that_cannot_be_checked_prevents_the_start(tmp_path: Path, stored: str) -> None:
    with pytest.raises(ConfigError) as error:
        logins(LoginSettings(realm="R"), environment(tmp_path, f"ann:{stored}\n"))
    assert "user ann" in str(error.value)
    assert stored not in str(error.value)


def test_a_missing_realm_prevents_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no section Other"):
        logins(LoginSettings(realm="Other"), environment(tmp_path, "ann:a\n"))
    with pytest.raises(ConfigError, match="needs a JAAS file"):
        logins(LoginSettings(realm="R"), {})


def test_some_requests_need_no_login(tmp_path: Path) -> None:
    settings = LoginSettings(realm="R", open_paths=("/health",))
    users = logins(settings, environment(tmp_path, "ann:a\n"))
    assert not users.are_needed("GET", "/health") and not users.are_needed("OPTIONS", "/subjects")
    assert users.are_needed("GET", "/subjects") and users.are_needed("GET", "/health/x")
    strict = logins(LoginSettings(realm="R", skips_options=False), environment(tmp_path, "ann:a\n"))
    assert strict.are_needed("OPTIONS", "/subjects")


def call(login: str = "") -> Call:
    headers = {"Authorization": header(login)} if login else {}
    return Call({}, {}, {}, headers, b"", "GET", "/")


def test_rules_apply_to_the_user_and_the_normalized_subject() -> None:
    access = Access(access_rules("*:read:; ann:write:orders-; ann:admin::.team:"))
    access.check(call(), Operation.READ, "x")
    access.check(call(ANN), Operation.WRITE, ":.:orders-value")
    access.check(call(ANN), Operation.ADMIN, ":.team:x")
    for subject in ("payments-value", ":.other:orders-value", None):
        with pytest.raises(RegistryError) as error:
            access.check(call(ANN), Operation.WRITE, subject)
        assert error.value.code == error.value.status == 403
    assert access.readable(call(), ["a", "b"]) == ["a", "b"]
    assert Access(access_rules("ann:read:a")).readable(call(ANN), ["a", "ab", "b"]) == ["a", "ab"]
    assert Access(access_rules("ann:read:a")).readable(call(), ["a", "b"]) == []
