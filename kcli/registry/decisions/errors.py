"""The errors that a registry answers, with Confluent's codes and texts."""

from __future__ import annotations

from http import HTTPStatus

from kcli.errors import KcliError

# Confluent's registry sends 40901 since 8.1.2, and 409 before. Clients compare the code with 409, or look only at the
# status of HTTP, so 409 serves both.
INCOMPATIBLE_SCHEMA = 409

_LONG_CODES = 10_000


class RegistryError(KcliError):
    """A request that a registry refuses. `code` is the error code in the body, and `status` the status of HTTP."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    @property
    def status(self) -> HTTPStatus:
        """The first three digits of a code of five digits, or the whole code."""
        return HTTPStatus(self.code if self.code < _LONG_CODES else self.code // 100)


def subject_not_found(subject: str | None) -> RegistryError:
    return RegistryError(40401, f"Subject '{_java(subject)}' not found.")


def version_not_found(version: int) -> RegistryError:
    return RegistryError(40402, f"Version {version} not found.")


def schema_not_found(id_or_guid: int | str | None = None) -> RegistryError:
    return RegistryError(
        40403, "Schema not found" if id_or_guid is None else f"Schema {id_or_guid} not found"
    )


def subject_soft_deleted(subject: str) -> RegistryError:
    return RegistryError(
        40404, f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently"
    )


def subject_not_soft_deleted(subject: str) -> RegistryError:
    return RegistryError(40405, f"Subject '{subject}' was not deleted first before being permanently deleted")


def version_soft_deleted(subject: str, version: int) -> RegistryError:
    place = f"Subject '{subject}' Version {version}"
    return RegistryError(40406, f"{place} was soft deleted.Set permanent=true to delete permanently")


def version_not_soft_deleted(subject: str, version: int) -> RegistryError:
    place = f"Subject '{subject}' Version {version}"
    return RegistryError(40407, f"{place} was not deleted first before being permanently deleted")


def config_not_set(subject: str) -> RegistryError:
    return RegistryError(40408, f"Subject '{subject}' does not have subject-level compatibility configured")


def mode_not_set(subject: str) -> RegistryError:
    return RegistryError(40409, f"Subject '{subject}' does not have subject-level mode configured")


def incompatible_schema(subject: str, reasons: tuple[str, ...]) -> RegistryError:
    place = f'Schema being registered is incompatible with an earlier schema for subject "{subject}"'
    return RegistryError(INCOMPATIBLE_SCHEMA, f"{place}, details: [{', '.join(reasons)}]")


def invalid_schema(message: str) -> RegistryError:
    return RegistryError(42201, message)


def invalid_version(version: str) -> RegistryError:
    allowed = 'Allowed values are between [1, 2^31-1] and the string "latest"'
    return RegistryError(42202, f"The specified version '{version}' is not a valid version id. {allowed}")


def invalid_level() -> RegistryError:
    levels = "none, backward, forward, full, backward_transitive, forward_transitive, and full_transitive"
    return RegistryError(42203, f"Invalid compatibility level. Valid values are {levels}")


def invalid_config(message: str) -> RegistryError:
    """A config with a value that this registry does not have, other than a level."""
    return RegistryError(42203, message)


def invalid_mode() -> RegistryError:
    return RegistryError(42204, "Invalid mode. Valid values are READWRITE, READONLY, IMPORT and FORWARD.")


def forward_not_global() -> RegistryError:
    return RegistryError(42204, "Forward mode only supported on global level")


def not_permitted(message: str) -> RegistryError:
    return RegistryError(42205, message)


def reference_exists(subject: str, version: int) -> RegistryError:
    key = f"{{magic=1,keytype=SCHEMA,subject={subject},version={version}}}"
    return RegistryError(42206, f"One or more references exist to the schema {key}.")


def invalid_subject(subject: str) -> RegistryError:
    return RegistryError(42208, f"The specified subject '{subject}' is not a valid.")


def invalid_rule_set(message: str) -> RegistryError:
    return RegistryError(42210, message)


def context_not_empty(context: str) -> RegistryError:
    return RegistryError(42211, f"The specified context '{context}' is not empty.")


def store_failed(message: str) -> RegistryError:
    return RegistryError(50001, message)


def _java(text: str | None) -> str:
    return "null" if text is None else text
