"""The text form of ids."""

from __future__ import annotations

import uuid

import pytest

from kcli.model.uuids import uuid_from_text, uuid_to_text


def test_the_text_of_an_id_is_base64_without_padding() -> None:
    assert uuid_to_text(uuid.UUID(bytes=bytes(range(16)))) == "AAECAwQFBgcICQoLDA0ODw"


def test_text_form_of_ids() -> None:
    for value in (uuid.UUID(int=0), uuid.UUID(int=1), uuid.uuid4()):
        assert uuid_from_text(uuid_to_text(value)) == value
        assert len(uuid_to_text(value)) == 22
    for text in ("", "x" * 21, "x" * 23, "!" * 22):
        with pytest.raises(ValueError, match="is not an id"):
            uuid_from_text(text)
