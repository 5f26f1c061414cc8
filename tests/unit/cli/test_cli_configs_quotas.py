"""kafka-configs for users, clients and ips: what is refused, how it is said, and that no password is."""

from __future__ import annotations

from typing import Any

import pytest

from kcli.cli.tools.configs.options import Entity
from kcli.cli.tools.configs.quotas import (
    QuotaRow,
    _check_keys,
    _in_map_order,
    _parsed,
    _quota_line,
    _upsertion,
    command_line,
)
from kcli.client.admin.quotas import ClientQuota
from kcli.security.mechanisms.scram import MECHANISMS

SHA_256 = MECHANISMS["SCRAM-SHA-256"]
SECRET = "s3cret,with]odd[signs=and words"

USER, CLIENT, IP = Entity(("users",), ("u",)), Entity(("clients",), ("c",)), Entity(("ips",), ("1.2.3.4",))
DEFAULT_USER = Entity(("users",), ("",))
BOTH = Entity(("users", "clients"), ("u", "c"))


BY = "using --bootstrap-server."
OF_USERS = (
    "Only quota and SCRAM credential configs can be %s for 'users' " + BY + " Unexpected config names: %s"
)
OF_CLIENTS = "Only quota configs can be added for 'clients' " + BY + " Unexpected config names: %s"
OF_IPS = "Only connection quota configs can be added for 'ips' " + BY + " Unexpected config names: %s"
NOT_BOTH = "Cannot alter both quota and SCRAM credential configs simultaneously for 'users' " + BY
NO_DEFAULT = (
    "The use of --entity-default or --user-defaults is not allowed with User SCRAM Credentials using "
    "--bootstrap-server."
)


@pytest.mark.parametrize(
    ("entity", "added", "deleted", "message"),
    [
        (USER, ["nope"], [], OF_USERS % ("added", "Set(nope)")),
        (USER, [], ["nope", "no"], OF_USERS % ("deleted", "ArrayBuffer(nope, no)")),
        (CLIENT, ["SCRAM-SHA-256"], [], OF_CLIENTS % "Set(SCRAM-SHA-256)"),
        (BOTH, ["SCRAM-SHA-256"], [], OF_CLIENTS % "Set(SCRAM-SHA-256)"),
        (IP, ["producer_byte_rate"], ["nope"], OF_IPS % "producer_byte_rate,nope"),
        (USER, ["SCRAM-SHA-256", "producer_byte_rate"], [], NOT_BOTH),
        (DEFAULT_USER, [], ["SCRAM-SHA-256"], NO_DEFAULT),
    ],
)
def test_keys_that_do_not_go_there(
    entity: Entity, added: list[str], deleted: list[str], message: str
) -> None:
    with pytest.raises(ValueError) as refused:
        _check_keys(entity, dict.fromkeys(added, ""), deleted)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("entity", "key"),
    [
        (USER, "SCRAM-SHA-512"),
        (USER, "request_percentage"),
        (BOTH, "consumer_byte_rate"),
        (IP, "connection_creation_rate"),
    ],
)
def test_keys_that_fit_the_entity_are_accepted(entity: Entity, key: str) -> None:
    _check_keys(entity, {key: ""}, [])
    _check_keys(entity, {}, [key])


@pytest.mark.parametrize(
    ("text", "value"),
    [("1024", 1024.0), (" 5 ", 5.0), ("1e3", 1000.0), (".5", 0.5), ("2.d", 2.0), ("7F", 7.0), ("-5", -5.0)],
)
def test_numbers_as_java_reads_them(text: str, value: float) -> None:
    assert _parsed("k", text) == value


@pytest.mark.parametrize("text", ["abc", "", "1_000", "nan", "inf", "1,5", "1e", "0x"])
def test_a_quota_value_must_be_a_number(text: str) -> None:
    with pytest.raises(ValueError) as refused:
        _parsed("k", text)
    assert str(refused.value) == f"Cannot parse quota configuration value for k: {text}"


@pytest.mark.parametrize(
    ("text", "iterations", "password"),
    [
        ("password=pw", 4096, b"pw"),
        ("iterations=8192,password=pw", 8192, b"pw"),
        ("iterations=-1,password=a,b=c", 4096, b"a,b=c"),
        ("password=iterations=1,password=x", 4096, b"iterations=1,password=x"),
        ("password=pässwörd", 4096, "pässwörd".encode()),
    ],
)
def test_credentials_are_parsed_with_defaults(text: str, iterations: int, password: bytes) -> None:
    made = _upsertion("u", SHA_256, text)
    assert (made.user, made.mechanism, made.iterations) == ("u", SHA_256, iterations)
    assert made.password == password
    assert "pw" not in repr(made)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("password", "Invalid credential property SCRAM_SHA_256=password"),
        ("iterations=4096", "Invalid credential property SCRAM_SHA_256=iterations=4096"),
        (SECRET, "Invalid credential property SCRAM_SHA_256=[hidden]"),
        (f"passwort={SECRET}", "Invalid credential property SCRAM_SHA_256=[hidden]"),
        (
            f"iterations=100,password={SECRET}",
            "Iterations 100 is less than the minimum 4096 required for SCRAM-SHA-256",
        ),
    ],
)
def test_credentials_that_cannot_be_read(text: str, message: str) -> None:
    with pytest.raises(ValueError) as refused:
        _upsertion("u", SHA_256, text)
    assert str(refused.value) == message


@pytest.mark.parametrize("given", ["[iterations=4096,password=%s]", "[password=%s]", "%s", "[password=%s"])
def test_no_password_is_repeated(given: str) -> None:
    arguments = ["--user", "u", "--add-config", f"SCRAM-SHA-512={given % SECRET}"]
    assert command_line(arguments) == "--user u --add-config SCRAM-SHA-512=[hidden]"
    joined = command_line([f"--add-config=producer_byte_rate=5,SCRAM-SHA-256={given % SECRET}"])
    assert joined == "--add-config=producer_byte_rate=5,SCRAM-SHA-256=[hidden]"


def test_lines_are_kafka_s() -> None:
    row = QuotaRow(
        {"client-id": None, "user": "anna"}, {"producer_byte_rate": 1e7, "request_percentage": 0.5}
    )
    assert _quota_line(row) == (
        "Quota configs for user-principal 'anna', the default client-id are "
        "producer_byte_rate=1.0E7, request_percentage=0.5"
    )
    assert _quota_line(QuotaRow({"ip": "::1"}, {})) == "Quota configs for ip '::1' are "


def test_entities_come_as_from_a_hash_map() -> None:
    """The orders of the recordings: story configs-users-quotas, steps 28 and 30."""

    def order(*entities: Any) -> list[Any]:
        return [quota.entity for quota in _in_map_order(ClientQuota(entity, {}) for entity in entities)]

    for entities in ([{"user": None}, {"user": "anna"}], [{"ip": "127.0.0.77"}, {"ip": None}]):
        assert order(*entities) == entities
        assert order(*reversed(entities)) == entities
