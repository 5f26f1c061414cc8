"""Ids as Kafka's tools read them."""

from __future__ import annotations

import uuid

import pytest

from kcli.cli.java.uuid import java_uuid
from kcli.model.uuids import uuid_to_text


def test_a_uuid_is_read_as_kafka_writes_it() -> None:
    some = uuid.UUID("78705cc5-498b-41ce-af20-64cb170d315e")
    assert java_uuid(uuid_to_text(some)) == some
    assert java_uuid(uuid_to_text(some) + "==") == some


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "abc",
            "Input string `abc` decoded as 2 bytes, which is not equal to the expected 16 bytes of a base64",
        ),
        ("", "Input string `` decoded as 0 bytes"),
        ("x" * 25, f"Input string with prefix `{'x' * 24}` is too long to be decoded as a base64 UUID"),
        ("a+b/", "Illegal base64 character 2b"),
        ("not an id", "Illegal base64 character 20"),
        ("a", "'a' is not URL-safe base64"),
    ],
)
def test_an_invalid_uuid_is_refused_in_javas_words(text: str, words: str) -> None:
    with pytest.raises(ValueError) as told:
        java_uuid(text)
    assert str(told.value).startswith(words)
