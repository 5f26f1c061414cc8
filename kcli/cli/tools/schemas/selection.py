"""The options that select subjects."""

from __future__ import annotations

from dataclasses import dataclass

from kcli.cli.syntax.options import CommandError, option
from kcli.cli.tools.schemas.connection import RegistryOptions
from kcli.formats.registry.catalog import Selection


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionOptions(RegistryOptions):
    prefix: str = option("Only subjects whose names begin so.", metavar="prefix", default="")
    context: str | None = option(
        "Only subjects of this context, such as .team. The default context is a dot.", metavar="context"
    )


def selection_of(options: SelectionOptions) -> Selection:
    """Raises CommandError."""
    context = options.context
    if context is not None and (":" in context or not context.startswith(".")):
        raise CommandError(f"--context {context}: expected a name such as .team, or a dot")
    return Selection(options.prefix, context)
