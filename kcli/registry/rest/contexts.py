"""The resources of one context: /contexts/{context} in front of the path of another resource.

The context is that of each subject of the request that names none. `/contexts/.team/subjects/s/versions` is
`/subjects/:.team:s/versions`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from kcli.formats.registry.contexts import ALL_CONTEXTS, prefix_of
from kcli.http.rest.routing import Call, Handler, Reply, Route
from kcli.registry.decisions.errors import RegistryError

_BASES = ("/subjects", "/compatibility", "/schemas", "/config", "/mode")
_SCOPES = ("/config", "/mode")
_LISTS = {"/subjects": "subjectPrefix", "/schemas": "subjectPrefix"}
"""The resources with a query that chooses subjects, and the name of its parameter."""
_IDS = "/schemas/ids"


def in_contexts(routes: Iterable[Route]) -> list[Route]:
    """The routes that the resources have in each context."""
    return [
        Route(route.method, f"/contexts/{{context}}{route.template}", _in_context(route))
        for route in routes
        if route.template.startswith(_BASES)
    ]


def context_prefix(context: str) -> str:
    """The prefix of the subjects of a context that a path names, with or without its dot. Raises RegistryError."""
    name = context.removeprefix(":").removesuffix(":")
    if ":" in name:
        raise RegistryError(400, f"Context name '{name}' cannot contain a colon")
    return prefix_of(name if name.startswith(".") else f".{name}")


def _in_context(route: Route) -> Handler:
    async def handle(call: Call) -> Reply:
        parameters = dict(call.parameters)
        prefix = context_prefix(parameters.pop("context"))
        query = dict(call.query)
        if "subject" in parameters:
            parameters["subject"] = _qualified(prefix, parameters["subject"])
        elif route.template in _SCOPES and prefix:
            parameters["subject"] = prefix
        name = "subject" if route.template.startswith(_IDS) else _LISTS.get(route.template)
        if name is not None:
            query[name] = _qualified(prefix, query.get(name, ""))
        return await route.handler(dataclasses.replace(call, parameters=parameters, query=query))

    return handle


def _qualified(prefix: str, subject: str) -> str:
    return subject if subject.startswith((":.", ALL_CONTEXTS)) else prefix + subject
