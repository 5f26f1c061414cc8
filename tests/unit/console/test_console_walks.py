"""A person can do nothing on the console that no browser test does: every route, page and button is walked."""

from __future__ import annotations

from pathlib import Path

from rigs.console_walk import Walk, all_steps, buttons, declared, places, routes

BROWSER_TESTS = Path(__file__).resolve().parents[2] / "browser"


def test_every_route_page_and_button_has_a_browser_test() -> None:
    assert all_steps() - declared(BROWSER_TESTS).keys() == set()


def test_no_browser_test_declares_a_step_that_does_not_exist() -> None:
    assert declared(BROWSER_TESTS).keys() - all_steps() == set()


def test_the_steps_are_read_from_the_code() -> None:
    assert {"POST /topics/*/delete", "GET /topics/*/messages/tail"} <= set(routes())
    assert {"page overview", "page topics/*/configs", "page trace/*"} <= set(places())
    assert {"button Add ACLs", "button Edit *", "button New topic"} <= set(buttons())


def test_an_action_is_walked_only_with_its_preview() -> None:
    walk = Walk()
    url = "http://h/kafka/api/clusters/main/topics/a%2Fb/delete"
    walk.asked("POST", url, '{"preview": true}')
    assert walk.missing(["POST /topics/*/delete"]) == ["POST /topics/*/delete"]
    walk.asked("POST", url, "{}")
    assert walk.missing(["POST /topics/*/delete", "POST /topics"]) == ["POST /topics"]


def test_pages_and_buttons_are_compared_whole() -> None:
    walk = Walk()
    walk.went("http://h/#/main/topics/orders?sort=a")
    walk.pressed(" Remove the ACL of a\nb on c ")
    assert walk.missing(["page topics/*", "button Remove the ACL of * on *"]) == []
    assert walk.missing(["page topics", "page topics/*/*", "button Remove"]) != []
