"""Selectors are found by a label that they require."""

from __future__ import annotations

from podsched.api.selectors import parse_selector
from podsched.term.controllers.selector_index import SelectorIndex


def index(**selectors: str) -> SelectorIndex[str]:
    made: SelectorIndex[str] = SelectorIndex()
    for key, text in selectors.items():
        made.put(key, parse_selector(text), text)
    return made


def test_selectors_that_need_another_label_are_left_out() -> None:
    found = index(web="app=web", db="app=db", any="tier", set="app in (web, x)")
    assert set(found.asking_for({"app": "web"})) == {"web", "any", "set"}
    assert set(found.asking_for({})) == {"any", "set"}
    assert set(found.asking_for({"app": "web"}, {"app": "db"})) == {"web", "db", "any", "set"}


def test_a_selector_that_is_replaced_or_removed_is_not_found() -> None:
    found = index(a="app=web")
    found.put("a", parse_selector("app=db"), "new")
    assert not found.asking_for({"app": "web"})
    assert found.asking_for({"app": "db"}) == {"a": "new"}
    found.remove("a")
    found.remove("a")
    assert not found.items
    assert not found.asking_for({"app": "db"})
