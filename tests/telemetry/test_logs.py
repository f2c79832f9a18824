from typing import Any

import pytest

from podsched.telemetry.logs import MOST_OF_A_TEXT, mask_secrets, parse_modules


@pytest.mark.parametrize("text", ["queue", "=4", "queue=high", "queue=-1"])
def test_a_malformed_level_of_a_component_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not COMPONENT=LEVEL"):
        parse_modules(text)


@pytest.mark.parametrize(
    ("event", "masked"),
    [
        ({"token": "abc"}, {"token": "***"}),
        ({"etcd_password": "abc"}, {"etcd_password": "***"}),
        ({"Authorization": "abc"}, {"Authorization": "***"}),
        ({"keyData": b"abc"}, {"keyData": "***"}),
        ({"a": {"b": [{"apiKey": "x", "c": 1}]}}, {"a": {"b": [{"apiKey": "***", "c": 1}]}}),
        ({"event": "sent Bearer abc.def"}, {"event": "sent Bearer ***"}),
        ({"url": "http://u:pw@host/x"}, {"url": "http://u:***@host/x"}),
        ({"error": "bad password=abc, x"}, {"error": "bad password=***, x"}),
        (
            {"error": """got {"apiKey": "a b", 'token':'c"d'}"""},
            {"error": """got {"apiKey": "***", 'token':'***'}"""},
        ),
        ({"error": 'cut {"token": "a b'}, {"error": 'cut {"token": "***"'}),
        ({"error": 'no token "web": not found'}, {"error": 'no token "web": not found'}),
        ({"tokens": 3, "pod": "a/b"}, {"tokens": 3, "pod": "a/b"}),
    ],
)
def test_secrets_are_masked(event: dict[str, Any], masked: dict[str, Any]) -> None:
    assert mask_secrets(None, "info", event) == masked


def test_a_long_text_is_cut_and_its_secrets_are_masked_before() -> None:
    text = "x" * (MOST_OF_A_TEXT - 20) + "http://user:password@host" + "x" * 1000
    cut = mask_secrets(None, "info", {"error": text})["error"]
    assert len(cut) == MOST_OF_A_TEXT
    assert "pass" not in cut
    assert cut.endswith(" ...")
