"""Dispatch: the table of what is served, and errors becoming bytes in one place."""

from __future__ import annotations

import asyncio
import importlib
import logging
from types import SimpleNamespace

import pytest
from server_rig import BrokerRig, topic_image

from kcli.errors import ErrorCode, InvalidGroupIdException, KafkaError, ProtocolError, StorageError
from kcli.protocol.messages import describe_log_dirs, init_producer_id, list_offsets
from kcli.protocol.wire import codec
from kcli.protocol.wire.api import API, ApiKey
from kcli.server.handlers.served import SERVED, served_on_broker, served_on_controller


@pytest.mark.parametrize("key", sorted(SERVED), ids=lambda key: key.name)
def test_every_served_api_has_a_handler(key):
    module = importlib.import_module(SERVED[key])
    assert callable(module.handle)
    assert API[key].name.lower().replace("_", "") in module.__doc__.split("(")[0].lower()


def test_every_handler_module_is_served():
    import pkgutil

    import kcli.server.handlers as handlers

    modules = {
        f"kcli.server.handlers.{each.name}"
        for each in pkgutil.iter_modules(handlers.__path__)
        if not each.ispkg
    }
    unserved = {
        name for name in modules - set(SERVED.values()) if hasattr(importlib.import_module(name), "handle")
    }
    assert unserved == set()


def test_each_listener_has_its_own_table():
    assert ApiKey.PRODUCE in served_on_broker()
    assert ApiKey.PRODUCE not in served_on_controller()
    assert ApiKey.FETCH not in served_on_controller()
    assert ApiKey.API_VERSIONS in served_on_controller()
    assert list(served_on_broker()) == sorted(served_on_broker())


@pytest.mark.parametrize("key", sorted(SERVED), ids=lambda key: key.name)
def test_an_error_of_a_handler_has_a_place(key):
    """Whatever fails, the client hears it: as an error code somewhere in a response it can read."""
    from kcli.server.requests.context import RequestContext
    from kcli.server.requests.dispatch import _load

    route = _load(key, SERVED)
    ports = SimpleNamespace(config=SimpleNamespace(controller_listener_names=("CONTROLLER",)))
    for version in {route.spec.min_version, route.spec.max_version}:
        request = codec.message_class(key, "request")()
        context = RequestContext(ports, key, version, 1, "c", "PLAINTEXT", "127.0.0.1")
        try:
            response = route.error_response(context, request, InvalidGroupIdException("not so"))
        except ProtocolError:
            assert key is ApiKey.PRODUCE, "acks=0 has no answer"
            continue
        encoded = route.encode(response, version, 7)
        joined = b"".join(encoded) if isinstance(encoded, list) else encoded
        assert codec.decode_response(key, version, bytes(joined[4:]))[0] == 7


class Failing:
    """A handler that does what it is told to."""

    def __init__(self, error, *, later):
        self.error = error
        self.later = later

    def __call__(self, _context, _request):
        if not self.later:
            raise self.error

        async def fail():
            await asyncio.sleep(0)
            raise self.error

        return fail()


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize(
    ("error", "code", "logged"),
    [
        (InvalidGroupIdException(), ErrorCode.INVALID_GROUP_ID, False),
        (StorageError("disk is gone"), ErrorCode.KAFKA_STORAGE_ERROR, True),
        (ZeroDivisionError("bug"), ErrorCode.UNKNOWN_SERVER_ERROR, True),
    ],
)
def test_errors_of_handlers(tmp_path, monkeypatch, caplog, error, code, logged, later):
    async def main():
        async with BrokerRig(tmp_path, topic_image("t")) as rig:
            client = await rig.connect()
            monkeypatch.setattr("kcli.server.handlers.init_producer_id.handle", Failing(error, later=later))
            request = init_producer_id.InitProducerIdRequest(transactional_id=None)
            response = await client.call(request, ApiKey.INIT_PRODUCER_ID, 4)
            assert response.error_code is code

    with caplog.at_level(logging.ERROR):
        asyncio.run(main())
    assert bool(caplog.records) is logged


def test_an_error_without_a_place_in_the_message_closes(tmp_path, monkeypatch):
    async def main():
        async with BrokerRig(tmp_path, topic_image("t")) as rig:
            client = await rig.connect()
            monkeypatch.setattr(
                "kcli.server.handlers.describe_log_dirs.handle", Failing(ProtocolError("no"), later=True)
            )
            client.post(describe_log_dirs.DescribeLogDirsRequest(topics=None), ApiKey.DESCRIBE_LOG_DIRS, 2)
            assert await client.at_end()

    asyncio.run(main())


def test_a_response_that_cannot_be_written_becomes_an_error(tmp_path, monkeypatch, caplog):
    async def main():
        async with BrokerRig(tmp_path, topic_image("t")) as rig:
            client = await rig.connect()
            broken = init_producer_id.InitProducerIdResponse(producer_id="not a number")
            monkeypatch.setattr("kcli.server.handlers.init_producer_id.handle", lambda *_: broken)
            request = init_producer_id.InitProducerIdRequest(transactional_id=None)
            response = await client.call(request, ApiKey.INIT_PRODUCER_ID, 4)
            assert response.error_code is ErrorCode.UNKNOWN_SERVER_ERROR

    asyncio.run(main())


def test_a_client_without_an_id_is_served(tmp_path):
    async def main():
        async with BrokerRig(tmp_path, topic_image("t")) as rig:
            client = await rig.connect()
            part = list_offsets.ListOffsetsPartition(partition_index=0, timestamp=-1)
            topic = list_offsets.ListOffsetsTopic(name="t", partitions=(part,))
            request = list_offsets.ListOffsetsRequest(replica_id=-1, topics=(topic,))
            for version in range(1, 11):
                response = await client.call(request, ApiKey.LIST_OFFSETS, version, client_id=None)
                assert response.topics[0].partitions[0].offset == 0

    asyncio.run(main())


def test_acls_are_refused_one_by_one_where_no_authorizer_runs():
    from kcli.protocol.messages.create_acls import AclCreation, CreateAclsRequest
    from kcli.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
    from kcli.protocol.messages.describe_acls import DescribeAclsRequest

    described = refused(ApiKey.DESCRIBE_ACLS, DescribeAclsRequest())
    assert described.error_code is ErrorCode.SECURITY_DISABLED
    assert described.error_message == "No Authorizer is configured on the broker"
    created = refused(ApiKey.CREATE_ACLS, CreateAclsRequest(creations=(AclCreation(), AclCreation()))).results
    deleted = refused(ApiKey.DELETE_ACLS, DeleteAclsRequest(filters=(DeleteAclsFilter(),))).filter_results
    assert (len(created), len(deleted)) == (2, 1)
    assert {each.error_code for each in created + deleted} == {ErrorCode.SECURITY_DISABLED}
    assert {each.error_message for each in created + deleted} == {"No Authorizer is configured."}


@pytest.mark.parametrize(
    ("key", "code"),
    [
        (ApiKey.SASL_HANDSHAKE, ErrorCode.ILLEGAL_SASL_STATE),
        (ApiKey.SASL_AUTHENTICATE, ErrorCode.ILLEGAL_SASL_STATE),
        (ApiKey.CREATE_DELEGATION_TOKEN, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED),
        (ApiKey.RENEW_DELEGATION_TOKEN, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED),
        (ApiKey.EXPIRE_DELEGATION_TOKEN, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED),
        (ApiKey.DESCRIBE_DELEGATION_TOKEN, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED),
    ],
    ids=lambda value: value.name,
)
def test_what_needs_sasl_is_refused_on_a_plaintext_listener(key, code):
    assert refused(key, codec.message_class(key, "request")()).error_code is code


def refused(key, request):
    """The answer of a handler that refuses whatever it is asked."""
    from kcli.server.requests.context import RequestContext
    from kcli.server.requests.dispatch import _load

    route = _load(key, SERVED)
    context = RequestContext(SimpleNamespace(), key, route.spec.max_version, 1, "c", "PLAINTEXT", "127.0.0.1")
    with pytest.raises(KafkaError) as error:
        route.handle(context, request)
    return route.error_response(context, request, error.value)
