"""Profiles in pprof's format."""

from __future__ import annotations

import gzip

from podsched.telemetry.profiling.profile import Call, ValueType, encode
from podsched.v1.pprof_pb2 import Profile


def test_texts_functions_and_lines_are_numbered_once() -> None:
    f1, f2, g = Call("f", "a.py", 1, 2), Call("f", "a.py", 1, 3), Call("g", "a.py", 9, 9)
    samples = {(f1, g): (1, 10), (f2, g): (2, 20)}
    content = encode([ValueType("samples", "count"), ValueType("x", "count")], samples, began=1.5)
    profile = Profile.FromString(gzip.decompress(content))
    assert list(profile.string_table) == ["", "samples", "count", "x", "f", "a.py", "g"]
    assert [(f.id, f.name, f.filename, f.start_line) for f in profile.function] == [
        (1, 4, 5, 1),
        (2, 6, 5, 9),
    ]
    assert [(at.id, at.line[0].function_id, at.line[0].line) for at in profile.location] == [
        (1, 1, 2),
        (2, 2, 9),
        (3, 1, 3),
    ]
    assert [(list(s.location_id), list(s.value)) for s in profile.sample] == [
        ([1, 2], [1, 10]),
        ([3, 2], [2, 20]),
    ]
    assert (profile.default_sample_type, profile.time_nanos) == (3, 1_500_000_000)
