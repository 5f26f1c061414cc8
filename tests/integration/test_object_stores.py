"""The object connectors on S3: a small server of moto. Its library and s3fs are optional."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from kcli.connectors.objects.sink_keys import SINK_KEYS
from kcli.connectors.objects.store import PART_BYTES_MIN, Store
from kcli.connectors.objects.store_keys import open_store

pytest.importorskip("s3fs")
moto_server = pytest.importorskip("moto.server")

BUCKET = "lake"
KEYS = {"aws.access.key.id": "user", "aws.secret.access.key": "secret", "s3.region": "us-east-1"}


@pytest.fixture
def address() -> Iterator[str]:
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.stop()


def store(address: str) -> Store:
    config = {
        "s3.bucket.name": BUCKET,
        "store.url": address,
        "format.class": "json",
        "flush.size": "1",
    } | KEYS
    opened = open_store(SINK_KEYS.parse(config))
    files: Any = opened._files
    if not files.exists(BUCKET):
        files.call_s3("create_bucket", Bucket=BUCKET)
    return opened


def uploads(opened: Store) -> list[object]:
    """The multipart uploads that are not complete."""
    files: Any = opened._files
    return list(files.call_s3("list_multipart_uploads", Bucket=BUCKET).get("Uploads", []))


def test_an_object_of_s3_appears_at_its_end_as_a_whole(address: str) -> None:
    opened = store(address)
    small = opened.upload("topics/small.json", PART_BYTES_MIN, {})
    small.write(b"{}\n")
    assert opened.names("topics/**") == []
    small.finish()
    content = os.urandom(PART_BYTES_MIN) * 2 + b"end"
    large = opened.upload("topics/large.bin", PART_BYTES_MIN, {"ServerSideEncryption": "AES256"})
    for begin in range(0, len(content), 2**20):
        large.write(content[begin : begin + 2**20])
    assert len(uploads(opened)) == 1
    assert opened.names("topics/**") == ["topics/small.json"]
    large.finish()
    assert opened.names("topics/**") == ["topics/large.bin", "topics/small.json"]
    with opened.open("topics/large.bin") as file:
        assert file.read() == content


def test_an_upload_that_is_aborted_leaves_nothing(address: str) -> None:
    opened = store(address)
    aborted = opened.upload("topics/large.bin", PART_BYTES_MIN, {})
    aborted.write(os.urandom(2 * PART_BYTES_MIN))
    assert len(uploads(opened)) == 1
    aborted.abort()
    aborted.write(b"the end of an encoder")
    del aborted
    assert (uploads(opened), opened.names("topics/**")) == ([], [])


def test_an_error_of_s3_is_an_error_of_the_system(address: str) -> None:
    opened = store(address)
    lost = opened.upload("topics/a.json", PART_BYTES_MIN, {})
    lost._path = "no-such-bucket/a.json"  # type: ignore[attr-defined]
    lost.write(b"{}\n")
    with pytest.raises(OSError):
        lost.finish()
