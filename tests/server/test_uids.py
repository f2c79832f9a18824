"""Uids of new objects."""

from __future__ import annotations

import uuid

from podsched.server.uids import random_uid


def test_a_uid_is_a_random_uuid_as_the_standard_library_writes_them() -> None:
    uids = {random_uid() for _ in range(1000)}
    assert len(uids) == 1000
    for uid in uids:
        read = uuid.UUID(uid)
        assert (str(read), read.version, read.variant) == (uid, 4, uuid.RFC_4122)
