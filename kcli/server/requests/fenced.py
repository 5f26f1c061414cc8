"""Replaces PRODUCER_FENCED by INVALID_PRODUCER_EPOCH for old clients, which do not know PRODUCER_FENCED (KIP-588)."""

from __future__ import annotations

from kcli.errors import ErrorCode


def fenced_code(api_version: int, known_from: int, code: ErrorCode) -> ErrorCode:
    """The code for the client. `known_from` is the first version of the API whose clients know PRODUCER_FENCED."""
    if code is ErrorCode.PRODUCER_FENCED and api_version < known_from:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
