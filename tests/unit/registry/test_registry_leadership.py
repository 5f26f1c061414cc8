from __future__ import annotations

import json

import pytest

from kcli.registry.decisions.leadership import (
    DUPLICATE_URLS,
    METADATA_MAX_BYTES,
    NO_ERROR,
    Assignment,
    Identity,
    InvalidMetadata,
    decode_assignment,
    decode_identity,
    elect,
    encode_assignment,
    encode_identity,
)

A, B = Identity(host="a", port=8081), Identity(host="b", port=8081)


def test_the_bytes_of_an_identity_are_those_of_java() -> None:
    assert encode_identity(A) == (
        b'{"host":"a","port":8081,"master_eligibility":true,"scheme":"http","version":1,"leader":false}'
    )
    leader = Identity(scheme="https", host="h", port=1, is_eligible=False, is_leader=True)
    assert decode_identity(encode_identity(leader)) == leader


def test_the_bytes_of_an_assignment_are_those_of_java() -> None:
    assert encode_assignment(Assignment("m-1", A)) == (
        b'{"error":0,"master":"m-1","master_identity":{"host":"a","port":8081,"master_eligibility":true,'
        b'"scheme":"http","version":1,"leader":false},"version":1}'
    )
    assert encode_assignment(Assignment()) == b'{"error":0,"version":1}'
    assert decode_assignment(encode_assignment(Assignment("m-1", A))) == Assignment("m-1", A)


def test_identities_of_other_registries_are_understood() -> None:
    # Java writes the members in any order, and nulls. Karapace has further members, and no `leader`.
    karapace = {
        "version": 2,
        "karapace_version": "5",
        "port": 8081,
        "host": "k",
        "master_eligibility": True,
    }
    assert decode_identity(json.dumps(karapace).encode()) == Identity(host="k", port=8081)
    assert decode_assignment(b'{"master":null,"master_identity":null,"version":1}') == Assignment()


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"host": "a"},
        {"host": "a/../b", "port": 1},
        {"host": "a b", "port": 1},
        {"host": "", "port": 1},
        {"host": "a", "port": "1"},
        {"host": "a", "port": 0},
        {"host": "a", "port": 65_536},
        {"host": "a", "port": True},
        {"host": "a", "port": 1, "scheme": "file"},
        [],
    ],
)
def test_a_hostile_identity_is_refused(members: object) -> None:
    with pytest.raises(InvalidMetadata):
        decode_identity(json.dumps(members).encode())


@pytest.mark.parametrize("data", [b"", b"\xff", b"[" * 5_000, b'{"host":"' + b"a" * METADATA_MAX_BYTES])
def test_bytes_that_are_no_json_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidMetadata):
        decode_identity(data)
    with pytest.raises(InvalidMetadata):
        decode_assignment(data)


def test_the_smallest_url_leads() -> None:
    assert elect({"1": B, "2": A}, sticky=False) == Assignment("2", A)
    https = Identity(scheme="https", host="0", port=1)
    assert elect({"1": https, "2": B}, sticky=False) == Assignment("2", B)
    ports = {"1": Identity(host="a", port=9), "2": Identity(host="a", port=10)}
    assert elect(ports, sticky=False).member_id == "2", "URLs are compared as texts"


def test_only_an_eligible_registry_leads() -> None:
    reader = Identity(host="a", port=8081, is_eligible=False)
    assert elect({"1": reader, "2": B}, sticky=False) == Assignment("2", B)
    assert elect({"1": reader}, sticky=False) == Assignment()
    assert elect({}, sticky=True) == Assignment()


def test_a_sticky_leader_stays_if_it_is_the_only_one() -> None:
    leader = B.as_leader(True)
    assert elect({"1": A, "2": leader}, sticky=True) == Assignment("2", leader)
    assert elect({"1": A, "2": leader}, sticky=False) == Assignment("1", A)
    assert elect({"1": A.as_leader(True), "2": leader}, sticky=True).member_id == "1"


def test_members_with_one_url_are_an_error() -> None:
    assert elect({"1": A, "2": B}, sticky=False).error == NO_ERROR
    assert elect({"1": A, "2": A}, sticky=False).error == DUPLICATE_URLS


def test_a_url_has_brackets_around_an_ipv6_address() -> None:
    assert Identity(host="fe80::1", port=1).url == "http://[fe80::1]:1"
    assert Identity(host="[fe80::1]", port=1).url == "http://[fe80::1]:1"
    assert Identity(host="::1", port=1).is_loopback and Identity(host="127.0.0.2", port=1).is_loopback
    assert not A.is_loopback
