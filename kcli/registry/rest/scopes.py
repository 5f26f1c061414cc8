"""The resources /config, /mode and /contexts, and the metadata of the server."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus

from kcli.formats.registry.documents import UPDATE_LEVEL, ConfigUpdate, ModeDocument
from kcli.http.rest.routing import Call, Reply, Route
from kcli.registry.config.access_rules import Operation
from kcli.registry.decisions import deletion, lists, scopes
from kcli.registry.registry import (
    DELETE_CONFIG,
    DELETE_CONTEXT,
    DELETE_MODE,
    UPDATE_CONFIG,
    UPDATE_MODE,
)
from kcli.registry.rest.contexts import context_prefix
from kcli.registry.rest.requests import document, flag, page
from kcli.registry.rest.resources import Desk

VERSION = "8.1.1"
COMMIT = "ceb6b3d30807b231c0a3d405c5a8f76c8bb1957c"
"""The release of Confluent's registry that this one is like. Later ones have another code for incompatible schemas."""


class ScopeResources:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._registry = desk.registry

    def routes(self) -> Sequence[Route]:
        routes = [
            Route("GET", "/contexts", self._contexts),
            Route("DELETE", "/contexts/{context}", self._delete_context),
            Route("GET", "/v1/metadata/id", self._cluster),
            Route("GET", "/v1/metadata/version", self._version),
            Route("GET", "/v1/metadata/deployment", self._deployment),
        ]
        for scope in ("", "/{subject}"):
            routes += [
                Route("GET", f"/config{scope}", self._config),
                Route("PUT", f"/config{scope}", self._update_config),
                Route("DELETE", f"/config{scope}", self._delete_config),
                Route("GET", f"/mode{scope}", self._mode),
                Route("PUT", f"/mode{scope}", self._update_mode),
                Route("DELETE", f"/mode{scope}", self._delete_mode),
            ]
        return routes

    def _scope(self, call: Call, operation: Operation) -> str | None:
        """The subject or context of the path, or None for the whole registry."""
        scope = call.parameters.get("subject")
        self._desk.access.check(call, operation, scope)
        return scope

    # Configs and modes.

    async def _config(self, call: Call) -> Reply:
        scope = self._scope(call, Operation.READ)
        config = scopes.get_config(self._desk.rules, scope, default_to_global=flag(call, "defaultToGlobal"))
        return Reply(config.to_json())

    async def _update_config(self, call: Call) -> Reply:
        scope = self._scope(call, Operation.ADMIN)
        update = await document(call, ConfigUpdate.from_json)
        return await self._registry.change(
            call,
            UPDATE_CONFIG,
            lambda rules: scopes.update_config(rules, scope, update),
            lambda answer: answer.config.to_json(level_name=UPDATE_LEVEL),
        )

    async def _delete_config(self, call: Call) -> Reply:
        scope = self._scope(call, Operation.ADMIN)
        return await self._registry.change(
            call,
            DELETE_CONFIG,
            lambda rules: scopes.delete_config(rules, scope),
            lambda config: config.to_json(),
        )

    async def _mode(self, call: Call) -> Reply:
        scope = self._scope(call, Operation.READ)
        mode = scopes.get_mode(self._desk.rules, scope, default_to_global=flag(call, "defaultToGlobal"))
        return Reply(mode.to_json())

    async def _update_mode(self, call: Call) -> Reply:
        scope, force = self._scope(call, Operation.ADMIN), flag(call, "force")
        update = await document(call, ModeDocument.from_json)
        return await self._registry.change(
            call,
            UPDATE_MODE,
            lambda rules: scopes.set_mode(rules, scope, update, force=force),
            lambda mode: mode.to_json(),
        )

    async def _delete_mode(self, call: Call) -> Reply:
        scope, recursive = self._scope(call, Operation.ADMIN), flag(call, "recursive")
        return await self._registry.change(
            call,
            DELETE_MODE,
            lambda rules: scopes.delete_mode(rules, scope, recursive=recursive),
            lambda mode: mode.to_json(),
        )

    # Contexts.

    async def _contexts(self, call: Call) -> Reply:
        names = lists.contexts(self._desk.rules, call.query.get("contextPrefix", ""))
        return Reply(list(page(call, names, self._registry.config.context_limits)))

    async def _delete_context(self, call: Call) -> Reply:
        context = context_prefix(call.parameters["context"])
        self._desk.access.check(call, Operation.ADMIN, None)
        reply = await self._registry.change(
            call,
            DELETE_CONTEXT,
            lambda rules: deletion.delete_context(rules, context),
            lambda _: None,
        )
        return Reply(None, HTTPStatus.NO_CONTENT) if reply.status is HTTPStatus.OK else reply

    # The server.

    async def _cluster(self, call: Call) -> Reply:
        clusters = {
            "kafka-cluster": self._registry.store.cluster_id,
            "schema-registry-cluster": self._registry.config.election.group_id,
        }
        return Reply({"scope": {"path": [], "clusters": clusters}, "id": ""})

    async def _version(self, call: Call) -> Reply:
        return Reply({"version": VERSION, "commitId": COMMIT})

    async def _deployment(self, call: Call) -> Reply:
        return Reply({"attributes": []})
