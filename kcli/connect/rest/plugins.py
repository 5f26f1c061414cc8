"""The resources of plugins: /connector-plugins and everything below it."""

from __future__ import annotations

from collections.abc import Sequence

from kcli.connect.errors import BadRequest, RestError
from kcli.connect.herders.herder import Herder
from kcli.connect.rest import entities
from kcli.formats.connect.errors import ConnectException
from kcli.http.rest.json_bodies import InvalidBody, texts_of
from kcli.http.rest.json_slices import read_json
from kcli.http.rest.routing import Call, Reply, Route

_SUFFIX = "Connector"


class PluginResources:
    def __init__(self, herder: Herder) -> None:
        self._herder = herder

    def routes(self) -> Sequence[Route]:
        one = "/connector-plugins/{plugin}"
        return [
            Route("GET", "/connector-plugins", self._list),
            Route("GET", f"{one}/config", self._config),
            Route("PUT", f"{one}/config/validate", self._validate),
        ]

    async def _list(self, call: Call) -> Reply:
        # JAX-RS reads any text but "true" as false. A missing or empty parameter has the default true.
        only_connectors = (call.query.get("connectorsOnly") or "true").lower() == "true"
        plugins = self._herder.validator.plugins(connectors_only=only_connectors)
        return Reply([entities.plugin(plugin) for plugin in plugins])

    async def _config(self, call: Call) -> Reply:
        keys = await self._herder.validator.plugin_config(
            call.parameters["plugin"], call.query.get("version")
        )
        return Reply([entities.key_info(key) for key in keys])

    async def _validate(self, call: Call) -> Reply:
        plugin = call.parameters["plugin"]
        body = await read_json(call.body, numbers_as_text=True)
        if body is None:
            raise InvalidBody("the body is empty: expected an object with the keys of a configuration")
        config = texts_of(body, "the body")
        included = config.get("connector.class")
        if included is not None and not _short(included).endswith(_short(plugin)):
            raise BadRequest(f"Included connector type {included} does not match request type {plugin}")
        try:
            return Reply(entities.config_infos(await self._herder.validator.validate(config)))
        except (RestError, ConnectException) as error:
            # Java waits for the validation in another thread, so its error is wrapped and loses its status.
            raise RestError(f"{error.java_class}: {error}", 500) from error


def _short(name: str) -> str:
    """A class name without the suffix Connector, which is its alias if the name is simple."""
    return name[: -len(_SUFFIX)] if name.endswith(_SUFFIX) and name != _SUFFIX else name
