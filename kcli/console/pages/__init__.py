"""The pages: one module for each area, with its routes and its calls of the admin client."""

from __future__ import annotations

from collections.abc import Sequence

from kcli.console.pages import (
    acls,
    balance,
    brokers,
    connector_configs,
    connectors,
    elections,
    group_actions,
    groups,
    messages,
    overview,
    quotas,
    schemas,
    spark_jobs,
    topic_consumers,
    topics,
    traces,
    transactions,
    users,
)
from kcli.console.routes import Route

PAGES: tuple[Sequence[Route], ...] = (
    # One line for each module, in alphabetical order.
    acls.ROUTES,
    balance.ROUTES,
    brokers.ROUTES,
    connector_configs.ROUTES,
    connectors.ROUTES,
    elections.ROUTES,
    group_actions.ROUTES,
    groups.ROUTES,
    messages.ROUTES,
    overview.ROUTES,
    quotas.ROUTES,
    schemas.ROUTES,
    spark_jobs.ROUTES,
    topic_consumers.ROUTES,
    topics.ROUTES,
    traces.ROUTES,
    transactions.ROUTES,
    users.ROUTES,
)
