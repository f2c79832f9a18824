import io
import json
import logging
from typing import Any

import pytest

from podsched.telemetry.log_output import configure_logging
from podsched.telemetry.logs import get_logger, parse_modules


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_json_logs_are_one_object_a_line_with_the_fields_as_given() -> None:
    stream = io.StringIO()
    configure_logging("json", stream=stream)
    get_logger("scheduler").info("Bound the pod", pod="default/a", node="n1")
    (line,) = lines(stream)
    assert line.pop("time").endswith("Z")
    assert line == {
        "message": "Bound the pod",
        "level": "info",
        "component": "scheduler",
        "pod": "default/a",
        "node": "n1",
    }


def test_libraries_log_in_the_same_form() -> None:
    stream = io.StringIO()
    configure_logging("json", stream=stream)
    logging.getLogger("grpc._channel").warning("lost %s", "it")
    (line,) = lines(stream)
    assert (line["component"], line["message"], line["level"]) == (
        "grpc._channel",
        "lost it",
        "warning",
    )


def test_text_logs_are_readable_and_without_colours_off_a_terminal() -> None:
    stream = io.StringIO()
    configure_logging("text", stream=stream)
    get_logger("scheduler").warning("Lost the lease", term=7)
    assert "[warning  ] Lost the lease" in stream.getvalue()
    assert "term=7" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()


def test_what_is_below_the_level_is_not_written() -> None:
    stream = io.StringIO()
    configure_logging("json", level="warning", stream=stream)
    get_logger("scheduler").info("quiet")
    logging.getLogger("some.library").info("quiet")
    assert stream.getvalue() == ""


def test_components_have_levels_of_their_own() -> None:
    stream = io.StringIO()
    modules = parse_modules("queue=4,bind*=2")
    configure_logging("json", level="warning", stream=stream, modules=modules)
    for component in ("queue", "binder", "scheduler"):
        get_logger(component).debug("debug")
        get_logger(component).info("info")
        get_logger(component).exception("exception")
    assert [(line["component"], line["message"]) for line in lines(stream)] == [
        ("queue", "debug"),
        ("queue", "info"),
        ("queue", "exception"),
        ("binder", "info"),
        ("binder", "exception"),
        ("scheduler", "exception"),
    ]


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(ValueError, match="debug, info"):
        configure_logging(level="loud")


def test_secrets_in_tracebacks_are_masked_too() -> None:
    stream = io.StringIO()
    configure_logging("text", stream=stream)
    try:
        raise ValueError("password=hunter2")
    except ValueError:
        get_logger("x").exception("failed")
        logging.getLogger("y").exception("failed")
    assert "ValueError" in stream.getvalue()
    assert "hunter2" not in stream.getvalue()


@pytest.mark.parametrize("format_", ["text", "json"])
def test_control_characters_of_stored_data_do_not_reach_the_log(format_: Any) -> None:
    """Neither a terminal's escape sequences nor a newline that begins a line of its own."""
    stream = io.StringIO()
    configure_logging(format_, stream=stream)
    get_logger("scheduler").info("Bound", pod="a\x1b[2J\x9b1m\nforged", nested={"a": "\x85"})
    logging.getLogger("library").warning("an \x1b[1mevent\r of %s", "a\nlibrary")
    text = stream.getvalue()
    assert len(text.splitlines()) == 2
    assert not any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 for c in text if c != "\n")
