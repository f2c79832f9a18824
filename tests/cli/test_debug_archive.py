import json
import time
from pathlib import Path

import pytest

from podsched.cli.debug import Archive, add_this_machine, without_secrets
from support.processor_time import exceeds


@pytest.mark.parametrize(
    "text",
    [
        'password: "hunter2"',
        "apiKey=hunter2, x",
        "X-Api-Key: hunter2",
        '{"clientSecret": "hunter2"}',
        "authorization: hunter2",
        "https://user:hunter2@host/",
        "-----BEGIN EC PRIVATE KEY-----\nhunter2\n-----END EC PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nhunter2 and no end",
    ],
)
def test_what_looks_like_a_secret_is_masked(text: str) -> None:
    assert "hunter2" not in without_secrets(text)
    assert "***" in without_secrets(text)


@pytest.mark.parametrize("part", ["a", "token", "-eyJaaaaaaaaaaa", "token ", '"token": ', "://a"])
def test_a_long_text_is_masked_in_time(part: str) -> None:
    """Anyone may write it into an object or a log. It took minutes."""
    text = part * (20_000 // len(part))
    began = time.thread_time()
    without_secrets(text)
    assert not exceeds(time.thread_time() - began, 0.5)


def test_json_stays_json() -> None:
    text = without_secrets('{"apiToken": "a \\"b", "x": {"password": "c"}, "n": 1}')
    assert json.loads(text) == {"apiToken": "***", "x": {"password": "***"}, "n": 1}


@pytest.mark.parametrize("text", ["pod=default/web node=n1", 'x_total{code="200"} 5.0'])
def test_what_is_no_secret_stays(text: str) -> None:
    assert without_secrets(text) == text


def test_all_texts_together_are_bounded_and_what_was_cut_is_reported(tmp_path: Path) -> None:
    archive = Archive(10)
    archive.add("first", "12345678")
    archive.add("log", "abcdefgh", keep_end=True)
    archive.add("late", "xyz")
    archive.write(tmp_path / "a.tar.gz")
    assert list(archive.texts) == ["first", "log", "late"]
    assert archive.missing == [
        "log: cut to 2 of 8 bytes (--max-size)",
        "late: cut to 0 of 3 bytes (--max-size)",
    ]


def test_a_file_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    path.write_text("mine")
    with pytest.raises(FileExistsError):
        Archive(10).write(path)
    assert path.read_text() == "mine"


def test_the_headers_of_traces_are_masked_whatever_their_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-honeycomb-team=hunter2")
    archive = Archive(1 << 20)
    add_this_machine(archive)
    assert "hunter2" not in archive.texts["versions.json"].decode()
