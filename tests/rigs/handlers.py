"""Calls the handlers of a node as the dispatch does. Request and response are encoded in one version and decoded
again."""

from __future__ import annotations

import importlib
import inspect
from typing import Any, Protocol

from kcli.errors import ErrorCode
from kcli.model.configs import ConfigOperation
from kcli.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kcli.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kcli.protocol.wire.api import ApiKey
from kcli.protocol.wire.codec import Message, decode_response, encode_response
from kcli.server.handlers import create_topics, incremental_alter_configs
from kcli.server.requests.apis import APIS
from kcli.server.requests.context import RequestContext
from kcli.server.requests.offers import filled
from rigs.node import RunningNode


class Handler(Protocol):
    """A module of `kcli.server.handlers`."""

    def handle(self, context: RequestContext[Any], request: Any, /) -> Any: ...


def context_of(
    node: RunningNode, key: ApiKey, version: int, listener: str = "PLAINTEXT"
) -> RequestContext[Any]:
    declared = getattr(importlib.import_module(APIS[key].handler), "Ports", None)
    ports = None if declared is None else filled(declared, node.offers)
    return RequestContext(ports, key, version, 7, "test", listener, "127.0.0.1")


async def call(
    node: RunningNode,
    handler: Handler,
    request: Message,
    key: ApiKey,
    version: int,
    *,
    listener: str = "PLAINTEXT",
) -> Any:
    """The response as a client of this version would read it."""
    answer = handler.handle(context_of(node, key, version, listener), request)
    if inspect.isawaitable(answer):
        answer = await answer
    frame = encode_response(answer, key, version, 7)
    return decode_response(key, version, bytes(frame)[4:])[1]


async def create(node: RunningNode, name: str, partitions: int = 1, **configs: str) -> Any:
    """Creates a topic and returns its part of the response. An underscore in `configs` stands for a dot."""
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        configs=tuple(
            CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()
        ),
    )
    request = CreateTopicsRequest(topics=(topic,))
    (result,) = (await call(node, create_topics, request, ApiKey.CREATE_TOPICS, 7)).topics
    assert result.error_code is ErrorCode.NONE
    return result


SET, DELETE = ConfigOperation.SET, ConfigOperation.DELETE


async def alter(
    node: RunningNode,
    kind: int,
    name: str,
    *operations: tuple[str, int, str | None],
    listener: str = "PLAINTEXT",
) -> tuple[str, str | None]:
    """Changes configs of one resource by tuples (key, operation, value). Returns the name of the error, and the
    message."""
    resource = AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=tuple(
            AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in operations
        ),
    )
    request = IncrementalAlterConfigsRequest(resources=(resource,))
    answer = await call(
        node, incremental_alter_configs, request, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, listener=listener
    )
    return answer.responses[0].error_code.name, answer.responses[0].error_message
