"""ApiVersions: the ranges of the APIs are made and encoded once for each version."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kcli.metadata.image import MetadataImage
from kcli.model.pace import at_once, no_pause
from kcli.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kcli.protocol.wire import codec
from kcli.protocol.wire.api import ApiKey
from kcli.server.handlers import api_versions
from kcli.server.handlers.api_versions import SOFTWARE_MAX_CHARACTERS
from kcli.server.network.request_facts import RequestFacts

SERVED = {
    "PLAINTEXT": (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.METADATA),
    "EXTERNAL": (ApiKey.FETCH, ApiKey.CREATE_TOPICS, ApiKey.ELECT_LEADERS, ApiKey.DELETE_TOPICS),
    "CONTROLLER": (ApiKey.VOTE,),
}


def answer(
    version: int, listener: str = "PLAINTEXT", controller: dict[int, tuple[int, int]] | None = None
) -> ApiVersionsResponse:
    context: Any = SimpleNamespace(
        api_version=version, listener=listener, ports=ports(controller), facts=RequestFacts()
    )
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    return at_once(api_versions.handle(context, request))


def ports(controller: dict[int, tuple[int, int]] | None = None) -> SimpleNamespace:
    return SimpleNamespace(
        loader=SimpleNamespace(image=MetadataImage(features={"group.version": 1})),
        quorum=SimpleNamespace(kraft_version=1),
        served_on=SERVED.__getitem__,
        controller_versions=lambda: controller or {},
    )


def test_kraft_version_is_a_feature_although_it_is_not_in_the_image() -> None:
    features = {each.name: each.max_version_level for each in answer(3).finalized_features}
    assert features == {"group.version": 1, "kraft.version": 1}


def test_a_long_name_of_software_is_cut() -> None:
    facts = RequestFacts()
    context: Any = SimpleNamespace(api_version=3, listener="PLAINTEXT", ports=ports(), facts=facts)
    request = ApiVersionsRequest(client_software_name="a" * 30_000, client_software_version="1" * 30_000)
    assert not at_once(api_versions.handle(context, request)).error_code
    assert facts.software == ("a" * SOFTWARE_MAX_CHARACTERS, "1" * SOFTWARE_MAX_CHARACTERS)


def ranges_on_the_wire(version: int, listener: str) -> list[tuple[int, int, int]]:
    frame: Any = at_once(
        codec.encoded_response(answer(version, listener), ApiKey.API_VERSIONS, version, 7, no_pause)
    )
    _, decoded = codec.decode_response(ApiKey.API_VERSIONS, version, bytes(frame)[4:])
    return [(each.api_key, each.min_version, each.max_version) for each in decoded.api_keys]


def test_two_answers_of_a_version_share_their_ranges() -> None:
    assert answer(3).api_keys is answer(3).api_keys
    assert answer(3).api_keys is not answer(0).api_keys


def test_versions_and_listeners_do_not_mix() -> None:
    expected = {
        listener: [
            (each.api_key, each.min_version, each.max_version) for each in answer(3, listener).api_keys
        ]
        for listener in SERVED
    }
    assert [key for key, *_ in expected["PLAINTEXT"]] == [ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.METADATA]
    for _ in range(2):
        for version in (0, 3, 4):
            for listener in SERVED:
                assert ranges_on_the_wire(version, listener) == expected[listener]


def test_a_forwarded_api_has_only_the_versions_of_the_controller_too() -> None:
    older = {ApiKey.FETCH: (4, 12), ApiKey.CREATE_TOPICS: (0, 5), ApiKey.DELETE_TOPICS: (6, 9)}
    listed = answer(3, "EXTERNAL", older).api_keys
    assert [(each.api_key, each.min_version, each.max_version) for each in listed] == [
        (ApiKey.FETCH, 4, 18),
        (ApiKey.CREATE_TOPICS, 2, 5),
        (ApiKey.DELETE_TOPICS, 6, 6),
    ]
    assert answer(3, "EXTERNAL", older).api_keys is listed
    assert len(answer(3, "EXTERNAL").api_keys) == 4, "without a known controller nothing is left out"
