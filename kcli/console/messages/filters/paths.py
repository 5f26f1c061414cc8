"""The paths of filters, such as `value.order.items[*].sku`: which values of a record a path selects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from kcli.console.messages.filters.errors import TooMuchWork
from kcli.console.messages.filters.subjects import MAX_ELEMENTS, Part, Subject, Tree


class Root(StrEnum):
    """The subjects of paths."""

    KEY = "key"
    VALUE = "value"
    HEADERS = "headers"
    OFFSET = "offset"
    PARTITION = "partition"
    TIMESTAMP = "timestamp"


ROOTS_WITH_STEPS = frozenset({Root.KEY, Root.VALUE, Root.HEADERS})


class Every:
    """The step `[*]`."""


Step = str | int | Every


@dataclass(frozen=True, slots=True)
class Path:
    """A subject and the steps into it. For headers, the first step is the name of the header."""

    root: Root
    steps: tuple[Step, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether the path is a whole key, value or header, so that it has a text."""
        return len(self.steps) == (1 if self.root is Root.HEADERS else 0)

    def parts(self, subject: Subject) -> list[Part]:
        """The keys, values or headers in which the path begins."""
        match self.root:
            case Root.KEY:
                return [subject.key]
            case Root.VALUE:
                return [subject.value]
            case Root.HEADERS:
                name = self.steps[0]
                assert isinstance(name, str)
                return subject.header(name)
            case _:
                return []

    def texts(self, subject: Subject) -> Sequence[Tree]:
        """The texts of a whole key, value or header. A missing header has the text null."""
        return [part.text(subject.work) for part in self.parts(subject)] or (None,)

    def values(self, subject: Subject) -> Sequence[Tree]:
        """The values of the record that the path selects."""
        match self.root:
            case Root.OFFSET:
                return (subject.record.offset,)
            case Root.PARTITION:
                return (subject.record.partition,)
            case Root.TIMESTAMP:
                return (subject.record.timestamp_ms,)
            case Root.HEADERS:
                steps = self.steps[1:]
            case _:
                steps = self.steps
        trees = [part.tree(subject.work) for part in self.parts(subject)] or [None]
        for step in steps:
            trees = _followed(trees, step, subject)
        return trees

    def sizes(self, subject: Subject) -> Sequence[Tree]:
        """The sizes of a whole key, value or header, in bytes."""
        return [part.size_bytes for part in self.parts(subject)] or (None,)


def _followed(trees: list[Tree], step: Step, subject: Subject) -> list[Tree]:
    subject.work.spend(len(trees))
    if not isinstance(step, Every):
        return [_at(tree, step) for tree in trees]
    inner: list[Tree] = []
    for tree in trees:
        inner += _elements(tree)
        if len(inner) > MAX_ELEMENTS:
            raise TooMuchWork(f"[*] selects more than {MAX_ELEMENTS} elements")
    return inner


def _elements(tree: Tree) -> list[Tree]:
    if isinstance(tree, list):
        return tree
    return list(tree.values()) if isinstance(tree, dict) else []


def _at(tree: Tree, step: str | int) -> Tree:
    """The field or element of a tree, or None if the tree does not have it."""
    if isinstance(step, str):
        return tree.get(step) if isinstance(tree, dict) else None
    if isinstance(tree, list) and -len(tree) <= step < len(tree):
        return tree[step]
    return None
