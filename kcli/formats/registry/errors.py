"""The errors of a registry's client."""

from __future__ import annotations

from kcli.errors import KcliError

NOT_FOUND = 404
SUBJECT_NOT_FOUND, VERSION_NOT_FOUND, SCHEMA_NOT_FOUND = 40401, 40402, 40403


class RegistryError(KcliError):
    """A registry could not do what a client has requested. The message is one line for the user, without logins."""


class RegistrySilent(RegistryError):
    """None of the URLs answers. The request may succeed later."""


class RegistryRefused(RegistryError):
    """The registry answered with an error. `str()` is the text of the registry."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        """The `error_code` of the answer, or the status if the answer has none."""
