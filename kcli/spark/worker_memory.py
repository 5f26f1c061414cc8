"""What a Python worker of Spark has imported is taken out of the garbage collector's sight.

Spark's daemon calls `gc.collect()` after every task, in each worker and in those that plan. That walks every object of
every imported module, none of which is garbage: 0.1 CPU-seconds a task, more than many a micro-batch has to do.
"""

from __future__ import annotations

import gc

_is_frozen = False


def freeze_imports() -> None:
    """At the end of a process's first work, when all is imported that it needs; later calls do nothing.

    Frozen objects are still freed when nothing refers to them; only cycles that are garbage by now stay.
    """
    global _is_frozen
    if not _is_frozen:
        _is_frozen = True
        gc.freeze()
