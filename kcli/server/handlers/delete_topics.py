"""DeleteTopics (key 20, versions 1-6): forwards the request to the controller, which deletes the topics. The rules are
in controller/topics.py.

The request contains topic names. From version 6 on it may contain names or ids (KIP-516).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from kcli.controller.api import DELETE_TOPICS
from kcli.controller.decision import ApiError
from kcli.controller.topics import DELETE_BY_ID_SINCE
from kcli.errors import (
    KafkaError,
    TopicAuthorizationException,
    UnknownTopicIdException,
    UnknownTopicOrPartitionException,
)
from kcli.metadata.image import TopicImage, Topics
from kcli.model.pace import mapped
from kcli.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from kcli.runtime.clock import Clock
from kcli.server.handlers.shared.controller_requests import ask_controller
from kcli.server.quorum.channel import ControllerChannel
from kcli.server.quorum.loader import MetadataLoader
from kcli.server.requests.access import DELETE_CLUSTER, DELETE_TOPIC, DESCRIBE_TOPIC
from kcli.server.requests.context import REFUSAL_COST, RequestContext
from kcli.server.requests.rights import CHECK_COST


@dataclass(frozen=True, slots=True)
class Ports:
    channel: ControllerChannel
    clock: Clock
    loader: MetadataLoader


Context = RequestContext[Ports]


async def handle(context: Context, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    rights = context.rights
    if rights.is_open or rights.allows(DELETE_CLUSTER, traced=True):
        return await ask_controller(context, DELETE_TOPICS, request)
    accepted, refused = await _divided(context, await _states(context, request))
    if context.api_version >= DELETE_BY_ID_SINCE:
        request = replace(request, topics=accepted)
    else:
        request = replace(request, topic_names=tuple(state.name or "" for state in accepted))
    # The controller is asked even if nothing is left, because it may refuse all deletions.
    response = await ask_controller(context, DELETE_TOPICS, request)
    return replace(response, responses=response.responses + refused)


async def _states(context: Context, request: DeleteTopicsRequest) -> tuple[DeleteTopicState, ...]:
    """Returns the topics of the request in the form of version 6, for any version of the request."""
    if context.api_version >= DELETE_BY_ID_SINCE:
        return request.topics
    return await mapped(
        context.pace, REFUSAL_COST, request.topic_names, lambda name: DeleteTopicState(name=name)
    )


async def _divided(
    context: Context, states: tuple[DeleteTopicState, ...]
) -> tuple[tuple[DeleteTopicState, ...], tuple[DeletableTopicResult, ...]]:
    """Divides the topics into those that go to the controller and those that this node refuses.

    Names and ids that occur twice also go to the controller, which refuses them.
    """
    images = await _images(context, states)
    names = []
    for state, image in images.items():
        await context.pace(CHECK_COST)
        if (name := _name(state, image)) is not None:
            names.append(name)
    described = await context.allowed(DESCRIBE_TOPIC, names)
    deletable = await context.allowed(DELETE_TOPIC, names)
    accepted: list[DeleteTopicState] = []
    refused: list[DeletableTopicResult] = []
    for state in states:
        await context.pace(CHECK_COST)
        if state not in images:
            accepted.append(state)
            continue
        image = images[state]
        name = _name(state, image)
        if name is None:
            refused.append(_refused(state, UnknownTopicIdException()))
        elif name not in described:
            refused.append(_refused(state, TopicAuthorizationException()))
        elif image is None:
            refused.append(_refused(state, UnknownTopicOrPartitionException()))
        elif name not in deletable:
            # The client may see the topic, so the answer may have its name.
            refused.append(_refused(replace(state, name=name), TopicAuthorizationException()))
        else:
            accepted.append(state)
    return tuple(accepted), tuple(refused)


async def _images(
    context: Context, states: tuple[DeleteTopicState, ...]
) -> dict[DeleteTopicState, TopicImage | None]:
    """Returns the image of each topic that the request names once, by name or by id. The image of an unknown topic is
    None."""
    topics = context.ports.loader.image.topics
    counts: Counter[DeleteTopicState] = Counter()
    for state in states:
        await context.pace(CHECK_COST)
        counts[state] += 1
    images: dict[DeleteTopicState, TopicImage | None] = {}
    for state in states:
        await context.pace(CHECK_COST)
        if counts[state] == 1 and (state.name is None) != (state.topic_id is None):
            images[state] = _image(topics, state)
    return images


def _image(topics: Topics, state: DeleteTopicState) -> TopicImage | None:
    return topics.topic_by_id(state.topic_id) if state.name is None else topics.topic(state.name)


def _name(state: DeleteTopicState, image: TopicImage | None) -> str | None:
    """The name of a topic, or None if the request has an unknown id."""
    return state.name if image is None else image.name


def _refused(state: DeleteTopicState, error: KafkaError) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=state.name, topic_id=state.topic_id, error_code=error.code, error_message=error.message
    )


async def error_response(
    context: Context, request: DeleteTopicsRequest, error: KafkaError
) -> DeleteTopicsResponse:
    message = ApiError.of(error).message
    responses = await mapped(
        context.pace,
        REFUSAL_COST,
        await _states(context, request),
        lambda state: DeletableTopicResult(
            name=state.name, topic_id=state.topic_id, error_code=error.code, error_message=message
        ),
    )
    return DeleteTopicsResponse(responses=responses)
