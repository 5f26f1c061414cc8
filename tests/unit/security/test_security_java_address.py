"""IP addresses are parsed as by Java's InetAddress.getByName, from which the results of the tables come."""

from __future__ import annotations

import pytest

from kcli.security.java_address import parse_literal


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.1", "127.0.0.1"),
        ("1", "0.0.0.1"),
        ("1.2.3", "1.2.0.3"),
        ("1.65536", "1.1.0.0"),
        ("2130706433", "127.0.0.1"),
        ("0177.0.0.1", "177.0.0.1"),
        ("1.2.3.04", "1.2.3.4"),
        ("0.0.0.0", "0.0.0.0"),
        ("4294967295", "255.255.255.255"),
        ("::1", "::1"),
        ("[::1]", "::1"),
        ("0:0:0:0:0:0:0:0001", "::1"),
        ("::ffff:1.2.3.4", "1.2.3.4"),
        ("::1.2.3.4", "::102:304"),
        ("fe80::1%1", "fe80::1%1"),
        ("localhost", None),
        ("a b", None),
        ("1_0.0.0.1", None),
        ("\N{ARABIC-INDIC DIGIT ONE}.0.0.1", None),
        ("127.0.0.1/8", None),
        ("", None),
    ],
)
def test_an_address_is_the_one_of_java(text: str, address: str | None) -> None:
    assert parse_literal(text) == address


@pytest.mark.parametrize(
    "text",
    [
        "0x7f.1",
        "256.1.1.1",
        "4294967296",
        "127.0.0.1.",
        "127.0.0.1:80",
        "1::2::3",
        "12345::",
        "::1%",
        "fe80::1%lo",
    ],
)
def test_a_text_that_only_resembles_an_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_literal(text)
