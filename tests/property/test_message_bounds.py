"""The bounds walk over messages of every API and version: it ends at the end, and refuses impossible counts."""

from __future__ import annotations

import random
import struct

import pytest

from kcli.errors import ProtocolError
from kcli.protocol.messages import metadata
from kcli.protocol.wire import bounds, codec, schema
from kcli.protocol.wire.api import API, ApiKey
from rigs.odd_messages import odd


@pytest.mark.parametrize("key", list(API), ids=lambda key: key.name)
def test_the_walk_over_a_message_ends_where_the_message_ends(key: ApiKey) -> None:
    chance = random.Random(int(key))
    spec = API[key]
    for kind in schema.KINDS:
        for version in {spec.min_version, spec.max_version, *schema.versions(spec)}:
            cls = schema.payload_class(spec, version, kind)
            hint = codec.message_class(key, kind)
            for _ in range(8):
                try:
                    body = codec._encode(odd(hint, chance), spec, version, kind)
                except (TypeError, ValueError, OverflowError, AttributeError, struct.error, KeyError):
                    continue  # this version cannot say that
                try:
                    assert bounds.walk_of(cls)(body, 0) == len(body)
                except ProtocolError as error:
                    assert "null is not allowed" in str(error), "kio writes some nulls that it should not"


def test_a_count_of_two_billion_does_not_end_the_process() -> None:
    head = codec.encode_request(metadata.MetadataRequest(topics=()), ApiKey.METADATA, 1, 1, None)[4:-4]
    with pytest.raises(ProtocolError, match="array of 2147483647 elements"):
        codec.decode_request(ApiKey.METADATA, 1, head + b"\x7f\xff\xff\xff", len(head))
