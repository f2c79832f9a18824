"""The record and its form as a Lease."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from podsched.lib.ids import Term
from podsched.term.election.record import (
    LeaderElectionRecord,
    LockKeys,
    decode_lease,
    encode_lease,
    whole_seconds,
)
from podsched.v1 import objects_pb2 as v1

KEYS = LockKeys("kube-system", "kube-scheduler")
text = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=20)
times = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))


@given(
    st.builds(
        LeaderElectionRecord,
        holder_identity=text,
        lease_duration_seconds=st.integers(0, 2**31 - 1),
        acquire_time=st.none() | times,
        renew_time=st.none() | times,
        leader_transitions=st.integers(0, 2**31 - 1),
        strategy=text,
        preferred_holder=text,
        address=text,
        liveness_ttl=st.integers(0, 3600),
    )
)
def test_a_record_survives_being_stored(record: LeaderElectionRecord) -> None:
    """Through the bytes of a Lease and back."""
    stored = encode_lease(record, KEYS, None, term=Term(7)).SerializeToString()
    assert decode_lease(v1.Lease.FromString(stored)) == record


def test_the_metadata_of_a_replaced_lease_is_kept_except_its_resource_version() -> None:
    """uid, labels and foreign annotations belong to the object."""
    base = v1.Lease()
    base.metadata.uid = "u"
    base.metadata.resource_version = "5"
    base.metadata.annotations["theirs"] = "1"
    base.metadata.annotations["podsched.io/term"] = "4"
    lease = encode_lease(LeaderElectionRecord(), KEYS, base)
    assert lease.metadata.uid == "u"
    assert lease.metadata.resource_version == ""
    assert dict(lease.metadata.annotations) == {"theirs": "1"}


def test_a_lease_of_another_writer_is_read_without_a_promise_of_liveness() -> None:
    """As kube-scheduler writes it, or as a careless hand has edited it."""
    lease = v1.Lease()
    lease.spec.holder_identity = "x"
    assert decode_lease(lease) == LeaderElectionRecord(holder_identity="x")
    lease.metadata.annotations["podsched.io/liveness-ttl-seconds"] = "-1e"
    assert decode_lease(lease).liveness_ttl == 0


def test_lease_durations_are_rounded_up_to_whole_seconds() -> None:
    """client-go would cut 1.5 s to 1 s, and half a second to an expired lease."""
    assert [whole_seconds(d) for d in (0.2, 1.0, 1.5, 15.0)] == [1, 1, 2, 15]
