"""DeleteTopics (key 20, versions 1-6): forwards the request to the controller, which deletes the topics. The rules are
in controller/topics.py.

The request contains topic names. From version 6 on it may contain names or ids (KIP-516).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable
from dataclasses import replace

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
from kcli.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from kcli.server.handlers.ports import NodeContext
from kcli.server.handlers.shared.controller_requests import ask_controller
from kcli.server.requests.access import DELETE_CLUSTER, DELETE_TOPIC, DESCRIBE_TOPIC
from kcli.server.requests.answers import finished, then
from kcli.server.requests.rights import CHECKS_PER_TURN, Rights
from kcli.server.requests.turns import REFUSALS_PER_TURN, Steps, in_turns, run_in_turns


async def handle(context: NodeContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    rights = context.rights
    if rights.is_open or rights.allows(DELETE_CLUSTER, traced=True):
        return await ask_controller(context, DELETE_TOPICS, request)
    checked = run_in_turns(_checked(context, rights, _states(context, request)), CHECKS_PER_TURN)
    asked, refused = await finished(checked)
    if context.api_version >= DELETE_BY_ID_SINCE:
        request = replace(request, topics=asked)
    else:
        request = replace(request, topic_names=tuple(state.name or "" for state in asked))
    # The controller is asked even if nothing is left, because it may refuse all deletions.
    response = await ask_controller(context, DELETE_TOPICS, request)
    return replace(response, responses=response.responses + refused)


def _states(context: NodeContext, request: DeleteTopicsRequest) -> tuple[DeleteTopicState, ...]:
    """Returns the topics of the request in the form of version 6, for any version of the request."""
    if context.api_version >= DELETE_BY_ID_SINCE:
        return request.topics
    return tuple(DeleteTopicState(name=name) for name in request.topic_names)


def _checked(
    context: NodeContext, rights: Rights, states: tuple[DeleteTopicState, ...]
) -> Steps[tuple[tuple[DeleteTopicState, ...], tuple[DeletableTopicResult, ...]]]:
    """Divides the topics into those that go to the controller and those that this node refuses.

    Names and ids that occur twice also go to the controller, which refuses them.
    """
    topics = context.ports.metadata.topics
    counts: Counter[DeleteTopicState] = Counter()
    for state in states:
        counts[state] += 1
        yield
    images: dict[DeleteTopicState, TopicImage | None] = {}
    for state in states:
        if counts[state] == 1 and (state.name is None) != (state.topic_id is None):
            images[state] = _image(topics, state)
        yield
    names = []
    for state, image in images.items():
        name = _name(state, image)
        if name is not None:
            names.append(name)
        yield
    described = yield from rights.allowed_steps(DESCRIBE_TOPIC, names)
    deleted = yield from rights.allowed_steps(DELETE_TOPIC, names)
    asked: list[DeleteTopicState] = []
    refused: list[DeletableTopicResult] = []
    for state in states:
        yield
        if state not in images:
            asked.append(state)
            continue
        image = images[state]
        name = _name(state, image)
        if name is None:
            refused.append(_refused(state, UnknownTopicIdException()))
        elif name not in described:
            refused.append(_refused(state, TopicAuthorizationException()))
        elif image is None:
            refused.append(_refused(state, UnknownTopicOrPartitionException()))
        elif name not in deleted:
            # The client may see the topic, so the answer may have its name.
            refused.append(_refused(replace(state, name=name), TopicAuthorizationException()))
        else:
            asked.append(state)
    return tuple(asked), tuple(refused)


def _image(topics: Topics, state: DeleteTopicState) -> TopicImage | None:
    return topics.topic_by_id(state.topic_id) if state.name is None else topics.topic(state.name)


def _name(state: DeleteTopicState, image: TopicImage | None) -> str | None:
    """The name of a topic, or None if the request has an unknown id."""
    return state.name if image is None else image.name


def _refused(state: DeleteTopicState, error: KafkaError) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=state.name, topic_id=state.topic_id, error_code=error.code, error_message=error.message
    )


def error_response(
    context: NodeContext, request: DeleteTopicsRequest, error: KafkaError
) -> DeleteTopicsResponse | Awaitable[DeleteTopicsResponse]:
    def refused(state: DeleteTopicState) -> DeletableTopicResult:
        return DeletableTopicResult(
            name=state.name,
            topic_id=state.topic_id,
            error_code=error.code,
            error_message=ApiError.of(error).message,
        )

    if context.api_version >= DELETE_BY_ID_SINCE:
        results = in_turns(request.topics, refused, REFUSALS_PER_TURN)
    else:
        results = in_turns(
            request.topic_names, lambda name: refused(DeleteTopicState(name=name)), REFUSALS_PER_TURN
        )
    return then(results, lambda responses: DeleteTopicsResponse(responses=tuple(responses)))
