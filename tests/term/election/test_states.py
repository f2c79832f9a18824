from __future__ import annotations

import pytest

from podsched.config.leader_election import LeaderElectionSettings
from podsched.lib.ids import Revision, Term
from podsched.term.election.lock_view import Candidate, LockView, Tenure
from podsched.term.election.record import LeaderElectionRecord
from podsched.term.election.states import Leading, Standby, is_stuck, leads

#: leaseDuration 15 s, renewDeadline 10 s.
VIEW = LockView(candidate=Candidate(identity="me", settings=LeaderElectionSettings()))
TENURE = Tenure(Term(10), LeaderElectionRecord(holder_identity="me"), Revision(10))
LEADING = Leading(view=VIEW, tenure=TENURE, renewed_at=100.0, not_before=100.0)


@pytest.mark.parametrize(("now", "expected"), [(109.9, True), (110.0, False)])
def test_a_holder_leads_until_the_renew_deadline_after_its_last_renewal(
    now: float, expected: bool
) -> None:
    assert leads(LEADING, now) is expected


@pytest.mark.parametrize(("now", "expected"), [(135.0, False), (135.1, True)])
def test_a_loop_hangs_that_believes_to_lead_20_s_after_its_lease_has_ended(
    now: float, expected: bool
) -> None:
    assert is_stuck(LEADING, now) is expected


def test_a_standby_neither_leads_nor_hangs_however_long_it_stands_by() -> None:
    assert not leads(Standby(view=VIEW), 1e9)
    assert not is_stuck(Standby(view=VIEW), 1e9)
