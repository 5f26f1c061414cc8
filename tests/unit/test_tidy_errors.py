"""No module has an error as a constant. Each raise adds the frames that it passes to the traceback of the error, so an
error that is raised again and again would keep the memory of all these requests."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from pathlib import Path

from kcli import errors

KCLI = Path(__file__).resolve().parents[2] / "kcli"


def test_no_module_has_an_error_as_a_constant() -> None:
    assert [name for path in sorted(KCLI.rglob("*.py")) for name in _constant_errors(path)] == []


def _constant_errors(path: Path) -> Iterator[str]:
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and _is_error(value.func.id):
            yield f"{path.relative_to(KCLI)}:{node.lineno} {value.func.id}"


def _is_error(name: str) -> bool:
    kind = getattr(errors, name, None) or getattr(builtins, name, None)
    return isinstance(kind, type) and issubclass(kind, BaseException)
