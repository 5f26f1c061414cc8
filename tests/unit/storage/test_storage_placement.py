"""Placement: the log directory of a new log."""

from __future__ import annotations

import uuid

import pytest

from kcli.errors import KafkaStorageException
from kcli.metadata.image import UNASSIGNED_DIRECTORY
from kcli.model.topic_names import CLUSTER_METADATA_TOPIC
from kcli.model.topic_partition import TopicPartition
from kcli.storage.directory import LogDirectory
from kcli.storage.files import HandlePool
from kcli.storage.store.placement import MAX_PREFERRED, Placement
from kcli.storage.store.store import run_inline
from simulation.runtime.disk import SimDisk

KEY = TopicPartition("t", 0)


def placement() -> Placement:
    """Two directories, /a with two logs and /b with one. The metadata log is in /m."""
    pool = HandlePool(SimDisk())
    every = [
        LogDirectory(path, pool, background=run_inline, monotonic=lambda: 0.0) for path in ("/a", "/b", "/m")
    ]
    for directory, logs in zip(every, (2, 1, 0), strict=True):
        directory.id, directory.open_logs = uuid.UUID(int=ord(directory.path[1])), logs
    return Placement(every, ["/a", "/b"], "/m")


def test_a_log_gets_the_directory_with_the_fewest_logs() -> None:
    assert placement().directory_for(KEY, None).path == "/b"
    assert placement().directory_for(KEY, UNASSIGNED_DIRECTORY).path == "/b"


def test_the_metadata_log_has_its_own_directory() -> None:
    assert placement().directory_for(TopicPartition(CLUSTER_METADATA_TOPIC, 0), None).path == "/m"


def test_the_assigned_directory_takes_precedence_over_the_preferred_one() -> None:
    places = placement()
    places.prefer("t", 0, "/a")
    assert places.directory_for(KEY, uuid.UUID(int=ord("b"))).path == "/b"
    assert places.directory_for(KEY, None).path == "/a"
    assert places.directory_for(KEY, None).path == "/b", "a preference counts for one log"


def test_the_preference_of_a_deleted_log_is_forgotten() -> None:
    places = placement()
    places.prefer("t", 0, "/a")
    places.forget(KEY)
    assert places.directory_for(KEY, None).path == "/b"


def test_preferences_are_limited() -> None:
    places = placement()
    for partition in range(MAX_PREFERRED + 1):
        places.prefer("t", partition, "/a")
    assert places.directory_for(TopicPartition("t", MAX_PREFERRED - 1), None).path == "/a"
    assert places.directory_for(TopicPartition("t", MAX_PREFERRED), None).path == "/b"


def test_an_assigned_directory_that_is_offline_is_not_replaced() -> None:
    places = placement()
    places.every[0].failed(OSError("broken"))
    with pytest.raises(KafkaStorageException, match="offline"):
        places.directory_for(KEY, uuid.UUID(int=ord("a")))
    assert places.directory_for(KEY, None).path == "/b"
    places.every[1].failed(OSError("broken"))
    with pytest.raises(KafkaStorageException, match="No log directory is online"):
        places.directory_for(KEY, None)
