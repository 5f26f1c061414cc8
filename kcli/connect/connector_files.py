"""Files with the configuration of a connector, for a single worker (KIP-980)."""

from __future__ import annotations

from dataclasses import dataclass

from kcli.config.properties import load
from kcli.connect.model import Config, TargetState
from kcli.connect.rest.connectors import initial_state
from kcli.formats.connect.errors import ConnectException
from kcli.http.rest.json_bodies import InvalidBody, object_of, parse_json, text_of, texts_of


@dataclass(frozen=True, slots=True)
class ConnectorFile:
    name: str
    config: Config
    target: TargetState | None = None


def read_connector_file(path: str) -> ConnectorFile:
    """Reads a JSON map with a name, a JSON request of the REST API, or properties, in this order.

    Raises OSError and ConnectException.
    """
    with open(path, "rb") as file:
        content = file.read()
    hint = ""
    try:
        value = parse_json(content, numbers_as_text=True)
    except InvalidBody as error:
        value = None
        if content.lstrip().startswith(b"{"):
            hint = f". It begins as JSON, but {error}"
    if isinstance(value, dict):
        flat = _flat(value)
        if flat is not None:
            return _named(path, flat)
        request = _request(path, value)
        if request is not None:
            return request
        hint = '. Expected an object of texts, or {"name": NAME, "config": {…}}'
    return _named(path, dict(load(path)), hint)


def _flat(value: dict[str, object]) -> Config | None:
    """A map of texts, if the JSON object is one."""
    try:
        texts = texts_of(value, "a configuration")
    except InvalidBody:
        return None
    return texts if "name" in texts else None


def _request(path: str, value: dict[str, object]) -> ConnectorFile | None:
    """The body of `POST /connectors`, if the JSON object is one."""
    try:
        fields = object_of(value, ("name", "config", "initial_state"), "a connector")
        name = text_of(fields.get("name"), "name")
        config = texts_of(fields.get("config"), "config")
        target = initial_state(fields.get("initial_state"))
    except InvalidBody:
        return None
    if name is None:
        return None
    if config.setdefault("name", name) != name:
        raise ConnectException(
            f"Connector name configuration in 'config' doesn't match the one specified in 'name' at '{path}'"
        )
    return ConnectorFile(name, config, target)


def _named(path: str, config: Config, hint: str = "") -> ConnectorFile:
    name = config.get("name")
    if not name:
        raise ConnectException(
            f"Connector configuration at '{path}' is missing the mandatory 'name' configuration{hint}"
        )
    return ConnectorFile(name, config)
