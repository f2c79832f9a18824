"""The page of a run."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from podsched.lab.chaos.outcome import judge
from podsched.lab.chaos.report import page
from support.chaos_history import Story, good_story


class Reader(HTMLParser):
    """The addresses that a page refers to, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data: str) -> None:
        self.text += data


def read(story: Story) -> Reader:
    reader = Reader()
    reader.feed(page(judge(story.history)))
    return reader


def test_the_page_needs_nothing_but_itself() -> None:
    assert read(good_story()).addresses == []
    assert not re.search(r"url\(|@import|<script", page(judge(good_story().history)))


def test_a_good_run_says_so_and_lists_its_faults() -> None:
    text = read(good_story()).text
    assert "All promises were kept." in text
    assert "kill-leader" in text
    assert "seed 7: 1 fault of 1 kind" in text


def test_a_violation_is_shown_with_the_history_around_it() -> None:
    story = Story()
    story.pod("<web>")
    story.gone("<web>")
    text = read(story).text
    assert "1 violation of promises." in text
    assert "pods/default/<web> is gone since revision 102" in text
    assert "c create pods/default/<web> -> ok" in text
