"""Hides the imports of a Python worker of Spark from the garbage collector.

Spark's daemon calls `gc.collect()` after every task, in each worker and in the processes that plan queries. Each
collection examines every object of every imported module, although these objects are never garbage. So the collections
take 0.1 s of CPU time for each task. Many micro-batches take less time than this.
"""

from __future__ import annotations

import gc

_is_frozen = False


def freeze_imports() -> None:
    """Hides all present objects from the garbage collector. Called after each task of a process. Only the first call
    has an effect.

    A hidden object is still freed when nothing refers to it any more. Only hidden objects that refer to each other in a
    cycle stay in memory.
    """
    global _is_frozen
    if not _is_frozen:
        _is_frozen = True
        gc.freeze()
