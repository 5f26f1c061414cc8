"""The version property of metadata, in the sequence that Confluent's registry is tested with."""

from __future__ import annotations

import pytest

from kcli.registry.decisions.deletion import delete_version
from kcli.registry.decisions.errors import RegistryError
from kcli.registry.decisions.lookup import get_version, look_up
from rigs.small_schemas import Topic, request

TEXT = '{"a":1}'


def metadata(**properties: str) -> dict[str, object]:
    return {
        "properties": {
            name.replace("number", "confluent:version"): value for name, value in properties.items()
        }
    }


class Client:
    def __init__(self) -> None:
        self.topic = Topic()

    def post(self, version: int | None = None, **properties: str) -> int:
        """Registers the text with properties and returns its id."""
        members = {"metadata": metadata(**properties)} if properties else {}
        return self.topic.post("s", TEXT, version=version, **members).id

    def newest(self) -> tuple[int, dict[str, str] | None]:
        return self._shown(get_version(self.topic.rules, "s", -1).version)

    def found(self, **properties: str) -> tuple[int, dict[str, str] | None]:
        """Looks up the text with properties."""
        members = {"metadata": metadata(**properties)} if properties else {}
        return self._shown(look_up(self.topic.rules, "s", request(TEXT, **members)).version)

    def delete(self, version: int) -> None:
        self.topic.carry_out(delete_version(self.topic.rules, "s", version))

    def _shown(self, version: int) -> tuple[int, dict[str, str] | None]:
        found = get_version(self.topic.rules, "s", version).definition.metadata
        return version, None if found is None else dict(found.properties)


def numbered(version: int) -> tuple[int, dict[str, str]]:
    return version, {"confluent:version": str(version)}


def test_one_text_gets_versions_by_its_metadata() -> None:
    client = Client()
    assert client.post() == 1
    assert client.newest() == (1, None)
    assert client.post(-1) == 1
    assert client.post(2) == client.post(-1) == 2
    assert client.newest() == numbered(2)
    assert client.found() == client.found(number="1") == (1, None)
    assert client.found(number="2") == numbered(2)
    client.delete(1)
    assert client.found() == numbered(2)
    assert client.post() == 2
    assert client.post(3) == client.post(-1) == client.post(-1) == 3
    assert client.newest() == numbered(3)
    with pytest.raises(RegistryError, match="Version is not one more than previous version"):
        client.post(3)
    assert client.post(4) == 4
    assert client.found() == numbered(4)


def test_a_property_of_another_version_makes_a_new_one() -> None:
    client = Client()
    for version in (1, 2, 3, 4):
        assert client.post(version) == version
    assert client.post(number="-1") == 5
    assert client.newest() == numbered(5)
    assert (client.post(number="2"), client.post(number="3")) == (2, 3)
    assert client.post(number="0") == 6
    assert client.newest() == numbered(6)
    assert client.topic.post("s", TEXT, metadata={}).id == 6
    assert client.post(mykey="myvalue") == 7
    assert client.newest() == (7, {"mykey": "myvalue"})
    assert client.post(-1) == 8
    assert client.newest() == (8, {"confluent:version": "8", "mykey": "myvalue"})
    assert client.found(mykey="myvalue")[0] == 7
    client.delete(7)
    assert client.found(mykey="myvalue")[0] == 8


def test_a_schema_is_imported_with_several_versions_in_any_order() -> None:
    client = Client()
    client.topic.write((b'{"keytype":"MODE","magic":0}', b'{"mode":"IMPORT"}'))
    ids = [client.topic.post("s", TEXT, version=version, id=1).id for version in (1, 2, 1)]
    assert ids == [1, 1, 1]
    assert [schema.version for schema in client.topic.state.versions("s")] == [1, 2]
