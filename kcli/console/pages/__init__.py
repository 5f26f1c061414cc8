"""The pages: one module for each area, with its routes and its calls of the admin client."""

from __future__ import annotations

from collections.abc import Sequence

from kcli.console.pages import balance, brokers, group_actions, groups, topics
from kcli.console.routes import Route

PAGES: tuple[Sequence[Route], ...] = (
    # One line for each module, in alphabetical order.
    balance.ROUTES,
    brokers.ROUTES,
    group_actions.ROUTES,
    groups.ROUTES,
    topics.ROUTES,
)
