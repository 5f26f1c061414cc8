"""Texts of exceptions in the form of Java's stack traces."""

from __future__ import annotations

from kcli.config.definition import ConfigError
from kcli.connect.tasks.traces import java_class, java_trace
from kcli.errors import TopicExistsException
from kcli.formats.connect.errors import ConnectException, DataException


def test_a_trace_has_the_classes_and_messages_of_java_and_the_frames_of_python() -> None:
    def inner() -> None:
        raise DataException("bad value")

    try:
        try:
            inner()
        except DataException as error:
            raise ConnectException("Tolerance exceeded") from error
    except ConnectException as error:
        lines = java_trace(error).split("\n")
    assert lines[0] == "org.apache.kafka.connect.errors.ConnectException: Tolerance exceeded"
    assert lines[2] == "Caused by: org.apache.kafka.connect.errors.DataException: bad value"
    assert lines[3].startswith("\tat ")
    assert ".inner(test_connect_traces.py:" in lines[3], "the innermost frame comes first"
    assert lines[-1] == ""


def test_classes_of_java_and_of_python() -> None:
    assert java_class(TopicExistsException()) == "org.apache.kafka.common.errors.TopicExistsException"
    assert java_class(ConfigError("x")) == "org.apache.kafka.common.config.ConfigException"
    assert java_class(ValueError()) == "ValueError"
    assert java_trace(ValueError()) == "ValueError\n"


def test_a_circle_of_causes_ends() -> None:
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    assert java_trace(first) == "ValueError: a\nCaused by: ValueError: b\n"
