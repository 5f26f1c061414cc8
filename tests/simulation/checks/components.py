"""Finds the strongly connected components of a directed graph. A component of two or more nodes contains a cycle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def cyclic_components(nodes: Iterable[int], after: Mapping[int, Iterable[int]]) -> list[list[int]]:
    """Returns the strongly connected components of more than one node (by Kosaraju's algorithm)."""
    finished = _finishing_order(nodes, after)
    before: dict[int, set[int]] = {}
    for node, others in after.items():
        for other in others:
            before.setdefault(other, set()).add(node)
    groups, taken = [], set[int]()
    for node in reversed(finished):
        group, stack = [], [node]
        while stack:
            at = stack.pop()
            if at not in taken:
                taken.add(at)
                group.append(at)
                stack += sorted(before.get(at, ()))
        if len(group) > 1:
            groups.append(group)
    return groups


def _finishing_order(nodes: Iterable[int], after: Mapping[int, Iterable[int]]) -> list[int]:
    finished: list[int] = []
    entered = set[int]()
    for root in nodes:
        if root in entered:
            continue
        entered.add(root)
        stack = [(root, iter(sorted(after.get(root, ()))))]
        while stack:
            node, others = stack[-1]
            following = next((other for other in others if other not in entered), None)
            if following is None:
                finished.append(node)
                stack.pop()
            else:
                entered.add(following)
                stack.append((following, iter(sorted(after.get(following, ())))))
    return finished
