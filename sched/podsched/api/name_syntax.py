"""The patterns of names and labels, and what is said of those that do not match.

They stand outside of ``validation``, because device selectors read them, which that package checks.
"""

from __future__ import annotations

LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
SUBDOMAIN = rf"{LABEL}(\.{LABEL})*"
LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
VALUE = f"({QUALIFIED})?"


def regex_error(what: str, pattern: str, *examples: str) -> str:
    """Return the message on a text that does not match a pattern, with examples that do."""
    quoted = ",  or ".join(f"'{example}'" for example in examples)
    return f"{what} (e.g. {quoted}, regex used for validation is '{pattern}')"


_ALPHANUMERIC = "must start and end with an alphanumeric character"
LABEL_ERROR = regex_error(
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    + _ALPHANUMERIC,
    *(LABEL, "my-name", "123-abc"),
)
SUBDOMAIN_ERROR = regex_error(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    f"'.', and {_ALPHANUMERIC}",
    *(SUBDOMAIN, "example.com"),
)
LABEL_1035_ERROR = regex_error(
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character",
    *(LABEL_1035, "my-name", "abc-123"),
)
_NAME = f"must consist of alphanumeric characters, '-', '_' or '.', and {_ALPHANUMERIC}"
_EXAMPLES = ("MyName", "my.name", "123-abc")
NAME_PART_ERROR = regex_error(f"name part {_NAME}", QUALIFIED, *_EXAMPLES)
KEY_ERROR = (
    regex_error(f"a valid label key {_NAME}", QUALIFIED, *_EXAMPLES)
    + " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
)
VALUE_ERROR = regex_error(
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    f"'.', and {_ALPHANUMERIC}",
    *(VALUE, "MyValue", "my_value", "12345"),
)
