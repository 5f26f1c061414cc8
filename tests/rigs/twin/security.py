"""Logins, ACLs, tokens and credentials, on a listener without security."""

from __future__ import annotations

from kcli.protocol.wire.api import ApiKey
from rigs.twin.case import Case, Data

_FILTER: dict[str, Data] = {
    "resource_type_filter": 2,
    "resource_name_filter": "twin-a",
    "pattern_type_filter": 3,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
_ACL: dict[str, Data] = {
    "resource_type": 2,
    "resource_name": "twin-a",
    "resource_pattern_type": 3,
    "principal": "User:u",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
_NO_AUTHORIZER = "No Authorizer is configured on the broker."

SECURITY = (
    Case("a mechanism", ApiKey.SASL_HANDSHAKE, {"mechanism": "PLAIN"}, {"error_code": 34}),
    Case("bytes", ApiKey.SASL_AUTHENTICATE, {"auth_bytes": b"\0u\0p"}, {"error_code": 34}),
    Case("of a topic", ApiKey.DESCRIBE_ACLS, _FILTER, {"error_code": 54}),
    Case("an ACL", ApiKey.CREATE_ACLS, {"creations": [_ACL]}, {"results.error_code": 54}),
    Case("of a topic", ApiKey.DELETE_ACLS, {"filters": [_FILTER]}, {"filter_results.error_code": 54}),
    Case("a token", ApiKey.CREATE_DELEGATION_TOKEN, {"max_lifetime_ms": 1000}),
    Case("a token", ApiKey.RENEW_DELEGATION_TOKEN, {"hmac": b"x"}),
    Case("a token", ApiKey.EXPIRE_DELEGATION_TOKEN, {"hmac": b"x"}),
    Case("all tokens", ApiKey.DESCRIBE_DELEGATION_TOKEN, {"owners": None}),
    Case(
        "an unknown user",
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        {"users": [{"name": "nobody"}]},
        {"error_code": 0, "results.error_code": 91},
    ),
    Case(
        "a user twice",
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        {"users": [{"name": "nobody"}, {"name": "nobody"}]},
        {"results.error_code": 92},
    ),
    Case(
        "a credential that is not there, one with few iterations, one of no mechanism",
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        {
            "deletions": [{"name": "nobody", "mechanism": 1}],
            "upsertions": [
                {"name": "few", "mechanism": 1, "iterations": 10, "salt": b"s", "salted_password": b"p"},
                {"name": "odd", "mechanism": 9, "iterations": 5000, "salt": b"s", "salted_password": b"p"},
            ],
        },
    ),
)
