"""Finds the cause in an error message, and finds errors that would occur again in each attempt.

Spark runs a failed task up to four times, because most errors are temporary, such as a lost executor or an unavailable
broker. Other errors occur again in each attempt, such as a record that does not parse. `TaskFailures` finds these
errors after the first attempt.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kcli.model.java_text import trim

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark.sql import SparkSession

RAISED = "[USER_RAISED_EXCEPTION] "
"""The text that marks an error that a query has raised with raise_error. `sifted` raises such an error for a record
that does not parse."""

PERMANENT_PYTHON = (
    "ValueError",
    "DataLossError",
    "CorruptRecordError",
    "FormatError",
    "UnknownTopicOrPartitionException",  # the client has looked for the topic several times
    "InvalidTopicException",
    "RecordTooLargeException",
    "TopicAuthorizationException",
    "ClusterAuthorizationException",
    "TransactionalIdAuthorizationException",
)
"""Exceptions of kcli's source and sink that are caused by the data or the options."""

PERMANENT_SPARK = re.compile(
    r"org\.apache\.spark\.Spark(Arithmetic|NumberFormat|DateTime|ArrayIndexOutOfBounds)Exception: "
)
"""Exceptions of Spark that a value causes in a query, such as a division by zero."""

JAVA_CLASS = re.compile(r"^(?:Caused by)?(?:: )?(?:(?:\w+\.){2,}[\w$]+(?:: |$))?", re.ASCII)
"""The class of an exception at the start of a line of Java, with the marks that Java and py4j put in front of it."""

FAILURES_READ = 20
"""The most failed tasks of a stage whose errors are read."""


def reason(error: Exception) -> str:
    """Returns the line of an exception's message that names the cause. In the traceback of a Python worker, this is the
    last line."""
    return cause(str(error)) or type(error).__name__


def cause(text: str) -> str:
    """Returns the line of an error message that names the cause. The result is empty if the message is empty."""
    lines = [trim(line) for line in text.splitlines() if trim(line)]
    raised = [line.partition(RAISED)[2] for line in lines if RAISED in line]
    if raised:
        return raised[0].partition(" SQLSTATE: ")[0]
    said = _python_line(lines) or _java_line(lines)
    if said.startswith(("kcli.", "ValueError")):  # messages of kcli are clear without the class name
        said = said.partition(": ")[2]
    return said.replace("set failOnDataLoss to false", "use --ignore-data-loss")


def _java_line(lines: list[str]) -> str:
    """Returns the message of an exception of Spark or Java, with the message of its first cause, without class names.

    The text that py4j adds in front of an exception is left out.
    """
    said = next((line for line in lines if not line.startswith("An error occurred while calling ")), "")
    said = JAVA_CLASS.sub("", said)
    causes = [JAVA_CLASS.sub("", line) for line in lines if line.startswith("Caused by: ")]
    return f"{said} ({causes[-1]})" if causes and causes[-1] not in said else said


def is_permanent(text: str) -> bool:
    """Whether the data or the options caused the error of a task. Then each further attempt would fail too."""
    if RAISED in text or PERMANENT_SPARK.search(text):
        return True
    said = _python_line([trim(line) for line in text.splitlines()]) or ""
    return said.split(":")[0].rpartition(".")[2] in PERMANENT_PYTHON


def _python_line(lines: list[str]) -> str | None:
    """Returns the last line that names a Python exception and is not about Spark itself."""
    blamed = [line for line in lines if line.split(":")[0].endswith(("Error", "Exception")) and ": " in line]
    spark = ("org.apache.spark", "py4j", "pyspark.", "Caused by")
    return next((line for line in reversed(blamed) if not line.startswith(spark)), None)


class TaskFailures:
    """Reads the errors of failed tasks. Ignores stages that began before this object was made, because tasks of the
    previous batch may still fail in the same session."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._older = {stage.stageId() for stage in self._active_stages()}

    def permanent(self) -> str | None:
        """Returns the cause of the first error that would occur again in each attempt, or None."""
        from py4j.protocol import Py4JError

        try:
            return next((cause(text) for text in self._texts() if is_permanent(text)), None)
        except Py4JError:  # the JVM has ended, and the query itself reports this
            return None

    def _texts(self) -> Iterator[str]:
        """Yields the error messages of failed tasks."""
        store = self._spark.sparkContext._jsc.sc().statusStore()
        for stage in self._active_stages():
            if not stage.numFailedTasks() or stage.stageId() in self._older:
                continue
            api = self._spark._jvm.org.apache.spark.status.api.v1
            failed = self._spark._jvm.java.util.List.of(api.TaskStatus.FAILED)
            tasks = store.taskList(
                stage.stageId(), stage.attemptId(), 0, FAILURES_READ, api.TaskSorting.ID, failed
            )
            for message in [tasks.apply(nth).errorMessage() for nth in range(tasks.size())]:
                if message.isDefined():
                    yield message.get()

    def _active_stages(self) -> list[JavaObject]:
        """Returns the stages with running or waiting tasks, as objects of Spark's JVM."""
        stages = self._spark.sparkContext._jsc.sc().statusStore().activeStages()
        return [stages.apply(nth) for nth in range(stages.size())]
