"""Compatibility checks without a registration."""

from __future__ import annotations

from kcli.formats.registry.contexts import normalized
from kcli.formats.registry.documents import CompatibilityAnswer, RegisterRequest
from kcli.registry.decisions.compatibility import incompatibilities
from kcli.registry.decisions.errors import RegistryError, invalid_schema, version_not_found
from kcli.registry.decisions.matching import candidate_of
from kcli.registry.decisions.records import StoredSchema
from kcli.registry.decisions.rules import Rules
from kcli.registry.decisions.schemas import LATEST


def check_compatibility(
    rules: Rules,
    subject: str,
    request: RegisterRequest,
    version: int | None = None,
    *,
    normalize: bool = False,
    verbose: bool = False,
) -> CompatibilityAnswer:
    """Checks a schema against one version, or against the versions that a registration would compare.

    With `verbose`, the answer has the reasons, and an invalid schema is a reason. Raises RegistryError.
    """
    subject = normalized(subject)
    versions = (
        rules.state.live_versions(subject) if version is None else _one_version(rules, subject, version)
    )
    try:
        reasons = _reasons(rules, subject, request, versions, normalize=normalize)
    except RegistryError as error:
        if not verbose:
            raise
        reasons = (error.message,)
    return CompatibilityAnswer(not reasons, reasons if verbose else None)


def _one_version(rules: Rules, subject: str, version: int) -> list[StoredSchema]:
    """The version, or nothing for the newest version of a subject that has none."""
    schema = rules.state.latest(subject) if version == LATEST else rules.state.version(subject, version)
    if version != LATEST and (schema is None or schema.deleted):
        raise version_not_found(version)
    return [] if schema is None else [schema]


def _reasons(
    rules: Rules, subject: str, request: RegisterRequest, versions: list[StoredSchema], *, normalize: bool
) -> tuple[str, ...]:
    if request.definition.is_blank:
        raise invalid_schema("Empty schema")
    config = rules.config_of(subject)
    is_new = rules.validates_new_schemas(config)
    candidate = candidate_of(rules, subject, request.definition, is_new=is_new, normalize=normalize)
    validates_fields = rules.validates_fields(config)
    return incompatibilities(rules.parser, config, candidate, versions, validates_fields=validates_fields)
