"""Dispatch: the table of what is served, and errors becoming bytes in one place."""

from __future__ import annotations

import dataclasses
import errno
import importlib
from collections import defaultdict
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from kcli.errors import ErrorCode, InvalidGroupIdException, KafkaError, ProtocolError
from kcli.model.pace import at_once, no_pause
from kcli.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kcli.protocol.wire import codec, compiled
from kcli.protocol.wire.api import API, ApiKey
from kcli.runtime.turns import next_turn
from kcli.server.handlers import describe_acls
from kcli.server.requests import dispatch
from kcli.server.requests.apis import APIS, served_on_broker, served_on_controller
from kcli.server.requests.context import RequestContext
from rigs.loops import on_a_loop

OFFERED = defaultdict(Mock, config=SimpleNamespace(controller_listener_names=("CONTROLLER",)))
"""A node that offers every port."""


@pytest.mark.parametrize("key", sorted(APIS), ids=lambda key: key.name)
def test_every_served_api_has_a_handler(key: ApiKey) -> None:
    module = importlib.import_module(APIS[key].handler)
    assert callable(module.handle)
    assert API[key].name.lower().replace("_", "") in module.__doc__.split("(")[0].lower()


def test_every_handler_module_is_served() -> None:
    import pkgutil

    import kcli.server.handlers as handlers

    modules = {
        f"kcli.server.handlers.{each.name}"
        for each in pkgutil.iter_modules(handlers.__path__)
        if not each.ispkg
    }
    served = {api.handler for api in (*served_on_broker().values(), *served_on_controller().values())}
    unserved = {name for name in modules - served if hasattr(importlib.import_module(name), "handle")}
    assert unserved == set()


def test_each_listener_has_its_own_table() -> None:
    assert ApiKey.PRODUCE in served_on_broker()
    assert ApiKey.PRODUCE not in served_on_controller()
    assert served_on_controller()[ApiKey.FETCH] != served_on_broker()[ApiKey.FETCH]
    assert ApiKey.VOTE in served_on_controller() and ApiKey.VOTE not in served_on_broker()
    assert ApiKey.API_VERSIONS in served_on_controller()
    assert list(served_on_broker()) == sorted(served_on_broker())


@pytest.mark.parametrize("key", sorted(APIS), ids=lambda key: key.name)
def test_an_error_of_a_handler_has_a_place(key: ApiKey) -> None:
    """Whatever fails, the client hears it: as an error code somewhere in a response it can read."""
    from kcli.server.requests.dispatch import _load

    route = _load(APIS[key], OFFERED)
    for version in {route.spec.min_version, route.spec.max_version}:
        request = codec.message_class(key, "request")()
        context = RequestContext(route.ports, key, version, 1, "c", "PLAINTEXT", "127.0.0.1")
        try:
            response = at_once(route.error_response(context, request, InvalidGroupIdException("not so")))
        except ProtocolError:
            assert key is ApiKey.PRODUCE, "acks=0 has no answer"
            continue
        encoded = at_once(route.encode(response, version, 7, no_pause))
        assert encoded is not None
        joined = b"".join(encoded) if isinstance(encoded, list) else encoded
        assert codec.decode_response(key, version, bytes(joined[4:]))[0] == 7


def test_acls_are_refused_one_by_one_where_no_authorizer_runs() -> None:
    from kcli.protocol.messages.create_acls import AclCreation, CreateAclsRequest
    from kcli.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
    from kcli.protocol.messages.describe_acls import DescribeAclsRequest

    any_element = 1
    every_acl = DescribeAclsRequest(
        resource_type_filter=any_element,
        pattern_type_filter=any_element,
        operation=any_element,
        permission_type=any_element,
    )
    described = refused(ApiKey.DESCRIBE_ACLS, every_acl)
    assert described.error_code is ErrorCode.SECURITY_DISABLED
    assert described.error_message == "No Authorizer is configured on the broker"
    acl = AclCreation(resource_type=2, resource_name="t", principal="User:a", operation=3, permission_type=3)
    every = DeleteAclsFilter(resource_type_filter=1, operation=1, permission_type=1)
    created = refused(ApiKey.CREATE_ACLS, CreateAclsRequest(creations=(acl, acl))).results
    deleted = refused(ApiKey.DELETE_ACLS, DeleteAclsRequest(filters=(every,))).filter_results
    assert (len(created), len(deleted)) == (2, 1)
    assert {each.error_code for each in created + deleted} == {ErrorCode.SECURITY_DISABLED}
    assert {each.error_message for each in created + deleted} == {"No Authorizer is configured."}


@pytest.mark.parametrize(
    ("key", "code"),
    [
        (ApiKey.SASL_HANDSHAKE, ErrorCode.ILLEGAL_SASL_STATE),
        (ApiKey.SASL_AUTHENTICATE, ErrorCode.ILLEGAL_SASL_STATE),
    ],
    ids=lambda value: value.name,
)
def test_sasl_requests_are_refused_on_a_plaintext_listener(key: ApiKey, code: ErrorCode) -> None:
    assert refused(key, codec.message_class(key, "request")()).error_code is code


def test_a_filter_of_acls_with_an_unknown_element_closes_the_connection() -> None:
    from kcli.protocol.messages.describe_acls import DescribeAclsRequest

    context: Any = SimpleNamespace()
    with pytest.raises(ProtocolError):
        at_once(describe_acls.handle(context, DescribeAclsRequest()))


def refused(key: ApiKey, request: Any) -> Any:
    """The answer of a handler that refuses whatever it is asked."""
    from kcli.server.requests.dispatch import _load

    route = _load(APIS[key], OFFERED)
    context = RequestContext(route.ports, key, route.spec.max_version, 1, "c", "PLAINTEXT", "127.0.0.1")
    with pytest.raises(KafkaError) as error:
        at_once(route.handle(context, request))
    return at_once(route.error_response(context, request, error.value))


@on_a_loop
async def test_an_error_in_a_later_turn_of_an_answer_closes_the_connection(caplog: Any) -> None:
    async def fails(*_: object) -> bytes:
        await next_turn()
        raise ValueError("half of it is written")

    served = new_dispatch()
    key = ApiKey.LIST_GROUPS
    route = dataclasses.replace(dispatch._load(APIS[key], OFFERED), encode=fails)
    context = RequestContext(route.ports, key, 5, 1, "c", "PLAINTEXT", "127.0.0.1")
    request = codec.message_class(key, "request")()
    for _ in range(3):
        with pytest.raises(ProtocolError, match="ListGroups failed"):
            await served._answer_error(route, context, request, InvalidGroupIdException("not so"))
    assert "half of it is written" in caplog.text
    assert len(caplog.records) == 1, "the lines are limited"


@on_a_loop
async def test_a_handler_that_cannot_be_imported_gives_a_line_and_a_reason(
    monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    def fails(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(dispatch, "_load", fails)
    served = new_dispatch()
    with pytest.raises(ProtocolError, match="Too many open files"):
        served._route(ApiKey.FETCH)
    assert "Fetch could not be loaded" in caplog.text
    monkeypatch.undo()
    assert served._route(ApiKey.FETCH).spec.key is ApiKey.FETCH, "the next request tries again"


def new_dispatch() -> dispatch.Dispatch:
    unused: Any = None
    return dispatch.Dispatch(OFFERED, APIS, quotas=unused, metrics=Mock())


@pytest.mark.parametrize(("key", "version"), [(ApiKey.LIST_OFFSETS, 7), (ApiKey.FETCH, 12)])
def test_only_a_large_request_compiles_its_answer_before_it_is_decoded(
    monkeypatch: pytest.MonkeyPatch, key: ApiKey, version: int
) -> None:
    route = dispatch._load(APIS[key], OFFERED)
    done: list[str] = []

    async def decoded(*_: object) -> None:
        done.append("decoded")

    dispatch._compile_structs.cache_clear()
    monkeypatch.setattr(dispatch, "compile_structs", lambda _module: done.append("compiled"))
    monkeypatch.setattr(codec, "prepare", lambda *_: done.append("compiled"))
    monkeypatch.setattr(codec, "decoded_request", decoded)
    monkeypatch.setattr(dispatch, "decode_fetch_request", decoded)
    at_once(route.decode(version, memoryview(bytes(dispatch.DECODED_AT_ONCE_BYTES)), 0, no_pause))
    assert done == ["decoded"]
    done.clear()
    at_once(route.decode(version, memoryview(bytes(dispatch.DECODED_AT_ONCE_BYTES + 1)), 0, no_pause))
    assert done == ["compiled", "decoded"]


def test_a_prepared_request_compiles_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("compiled too late")

    key, version = ApiKey.LIST_OFFSETS, 7
    for made in (compiled.reader, compiled.writer):
        made.cache_clear()
    codec.prepare.cache_clear()
    codec.prepare(key, version)
    monkeypatch.setattr(compiled._Source, "compiled", refuse)
    part = ListOffsetsPartitionResponse(partition_index=1)
    response = ListOffsetsResponse(topics=(ListOffsetsTopicResponse(name="t", partitions=(part,)),))
    assert at_once(codec.encoded_response(response, key, version, 1, no_pause))
    with pytest.raises(ProtocolError):
        at_once(codec.decoded_request(key, version, bytes(3), 0, no_pause))
