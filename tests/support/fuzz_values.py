"""Unexpected values: texts, numbers, quantities and selectors at the edges."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

INTEGERS = (
    0,
    1,
    -1,
    2,
    7,
    100,
    1000,
    2**31 - 1,
    -(2**31),
    253402300800,
    2**53,
    2**63 - 1,
    -(2**63),
)
DOUBLES = (0.0, -1.5, 1e308, float("nan"), float("inf"), float("-inf"), 5e-324)
TEXTS = (
    "", "a", "A", "0", "-1", "9" * 20, "9" * 5000, "1e400", "9" * 40 + "!", "NaN", "true", "null",
    "x" * 63, "x" * 64, "x" * 254, "y" * 70_000, "a/b", "a/b/c", "/", "..", ".", "../../etc/passwd",
    "%00", "%s%n", "\x00", "\x1b]0;title\x07\x1b[31m", "line\nbreak\r\n", "\u202eabc", "\u2028",
    "\U0001f600" * 50, "\uffff", "\ufeff", "\u0663", "ﬁ", "İ", "a b", " ", "'\"`", "{}", "[]",
    "*",
    "=", "127.0.0.1:99999999", "http://user:password@host/", "2026-01-01T00:00:00Z",
    "10000-01-01T00:00:00Z", "${jndi:x}", "\\", "\\ud800", ",", "a,b",
)  # fmt: skip
QUANTITIES = (
    "0", "1", "-1", "100m", "1.5Gi", "1e3", "1e9999", "1e-9999", "9" * 127, "9" * 5000, "Ki",
    ".", "+.5n", "1E", "8Ei", "9223372036854775807", "9223372036854775808", "1" + "0" * 40,
    "0x10", "1 Gi",
)  # fmt: skip
SELECTORS = (
    "", "app=web", "app==web,zone", "!app", "app in (web,db)", "app notin ()", "app in (", ",",
    "a=", "=a", "app>5", "app<9999999999999999999999", "a" * 5000 + "=b", "(" * 3000,
    "a," * 3000, "metadata.name=plain", "spec.nodeName!=", "status.phase=Running",
    "metadata.labels=a", "metadata.creationTimestamp=1", "spec.nodeName.x=1", "a.b.c",
    "metadata.name=a\\", "\\,=\\,",
)  # fmt: skip
WORDS = (
    "NoSchedule", "NoExecute", "PreferNoSchedule", "DoNotSchedule", "ScheduleAnyway", "Always",
    "Never", "Honor", "Ignore", "Running", "Failed", "Succeeded", "Pending", "Bound",
    "Available", "Ready", "True", "False", "Unknown", "TCP", "SCTP", "WaitForFirstConsumer",
    "Immediate", "AlwaysAllow", "ReadWriteOnce", "ReadWriteOncePod", "100%", "50%", "-5%",
    "1000000000000%", "10", "zone", "kubernetes.io/hostname", "default-scheduler",
    "PodScheduled", "DisruptionTarget",
)  # fmt: skip


def odd_text(rng: random.Random) -> str:
    """An unexpected text."""
    return rng.choice(rng.choice((TEXTS, QUANTITIES, SELECTORS, WORDS)))


def odd_value(rng: random.Random) -> Any:
    """An unexpected value of JSON."""
    return rng.choice(
        (odd_text(rng), rng.choice(INTEGERS), rng.choice(DOUBLES), None, True, [], {})
    )


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a JSON value: the dict or list, and the key or index."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        items = part.items() if isinstance(part, dict) else enumerate(part)
        for key, item in items:
            yield part, key
            if isinstance(item, (dict, list)):
                waiting.append(item)
