"""Dialogs of the console's pages in a real browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rigs.console_axe import judge

if TYPE_CHECKING:
    from playwright.sync_api import Page


def act(page: Page, verb: str, *, judges: bool = True) -> str:
    """Looks at the preview of the open dialog, and then acts. Returns the command of the preview.

    `judges` is for axe, which needs a second. Dialogs of one form need it once.
    """
    dialog = page.get_by_role("dialog")
    look = dialog.get_by_role("button", name="Preview")
    if look.count() and look.is_enabled():  # without fields, the preview is shown at once
        look.click()
    command = dialog.locator(".command pre").inner_text()
    if judges:
        judge(page)
    dialog.get_by_role("button", name=verb, exact=True).click()
    dialog.wait_for(state="detached")
    return command
