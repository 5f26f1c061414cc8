from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from kcli.server.formatting.format import FormatError
from kcli.server.formatting.scram import parse_scram_argument


def test_a_password_becomes_keys() -> None:
    salt = base64.b64encode(b"salt").decode()
    record = parse_scram_argument(f'SCRAM-SHA-256=[name=alice,password=pw,iterations=8192,salt="{salt}"]')
    salted = hashlib.pbkdf2_hmac("sha256", b"pw", b"salt", 8192)
    assert (record.name, record.mechanism, record.iterations, record.salt) == ("alice", 1, 8192, b"salt")
    assert record.server_key == hmac.digest(salted, b"Server Key", "sha256")
    assert record.stored_key == hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()


def test_a_salted_password_gives_the_same_keys() -> None:
    salt = base64.b64encode(b"salt").decode()
    salted = base64.b64encode(hashlib.pbkdf2_hmac("sha512", b"pw", b"salt", 4096)).decode()
    given = parse_scram_argument(f"SCRAM-SHA-512=[name=bob,salt={salt},saltedpassword={salted}]")
    assert given == parse_scram_argument(f"SCRAM-SHA-512=[name=bob,salt={salt},password=pw]")


def test_each_password_gets_a_new_salt() -> None:
    argument = "SCRAM-SHA-256=[name=a,password=p]"
    assert parse_scram_argument(argument).salt != parse_scram_argument(argument).salt


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("nonsense", "Failed to find equals sign in SCRAM argument 'nonsense'"),
        ("SCRAM-SHA-999=[name=a]", "The add-scram mechanism SCRAM-SHA-999 is not supported."),
        ("SCRAM-SHA-256=name=a]", "Expected configuration string to start with ["),
        ("SCRAM-SHA-256=[name=a", "Expected configuration string to end with ]"),
        ("SCRAM-SHA-256=[name]", "No equals sign found in SCRAM component: name"),
        ("SCRAM-SHA-256=[name=a,password=se,cret]", "No equals sign found in SCRAM component: [hidden]"),
        ("SCRAM-SHA-256=[password=p]", "You must supply 'name' to add-scram"),
        ("SCRAM-SHA-256=[name=a]", "You must supply one of 'password' or 'saltedpassword' to add-scram"),
        (
            "SCRAM-SHA-256=[name=a,saltedpassword=YQ==]",
            "You must supply 'salt' with 'saltedpassword' to add-scram",
        ),
        ("SCRAM-SHA-256=[name=a,password=p,b=1,a=2]", "Unknown SCRAM configurations: a, b"),
        ("SCRAM-SHA-256=[name=a,password=p,iterations=x]", "Failed to parse iterations count: x"),
        ("SCRAM-SHA-256=[name=a,password=p,salt=*]", "Failed to decode given salt: it is not base64"),
        (
            "SCRAM-SHA-256=[name=a,password=p,iterations=4095]",
            "The 'iterations' value must be >= 4096 for add-scram using SCRAM_SHA_256",
        ),
        (
            "SCRAM-SHA-512=[name=a,password=p,iterations=16385]",
            "The 'iterations' value must be <= 16384 for add-scram using SCRAM_SHA_512",
        ),
    ],
)
def test_invalid_credentials_are_refused(argument: str, message: str) -> None:
    with pytest.raises(FormatError) as refused:
        parse_scram_argument(argument)
    assert str(refused.value) == message
