from dataclasses import asdict

import pytest

from podsched.config.errors import ConfigError
from podsched.config.leader_election import LeaderElectionSettings


def test_the_defaults_are_client_gos() -> None:
    assert asdict(LeaderElectionSettings()) == {
        "leader_elect": True,
        "lease_duration": 15.0,
        "renew_deadline": 10.0,
        "retry_period": 2.0,
        "jitter_factor": 1.2,
        "release_on_cancel": True,
        "resource_lock": "leases",
        "resource_name": "kube-scheduler",
        "resource_namespace": "kube-system",
    }
    assert LeaderElectionSettings().lock == "kube-system/kube-scheduler"


def test_all_mistakes_are_reported_at_once_with_their_paths() -> None:
    with pytest.raises(ConfigError) as caught:
        LeaderElectionSettings(
            lease_duration=5,
            renew_deadline=10,
            retry_period=0,
            resource_lock="endpoints",
            resource_name="",
        )
    assert [str(error) for error in caught.value.errors] == [
        'leaderElection.retryPeriod: Invalid value: "0s": must be greater than zero',
        'leaderElection.leaseDuration: Invalid value: "5s": '
        "must be greater than renewDeadline (10s)",
        'leaderElection.resourceLock: Invalid value: "endpoints": '
        'resourceLock value must be "leases"',
        "leaderElection.resourceName: Required value",
    ]


@pytest.mark.parametrize(
    ("lease", "renew", "retry", "path"),
    [
        (10.0, 10.0, 2.0, "leaderElection.leaseDuration"),
        (15.0, 2.4, 2.0, "leaderElection.renewDeadline"),
        (15.0, 2.0, 2.0, "leaderElection.renewDeadline"),
    ],
)
def test_each_duration_must_leave_room_for_the_next(
    lease: float, renew: float, retry: float, path: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        LeaderElectionSettings(lease_duration=lease, renew_deadline=renew, retry_period=retry)
    assert [error.path for error in caught.value.errors] == [path]


def test_a_lease_must_last_the_whole_seconds_that_its_record_can_hold() -> None:
    with pytest.raises(ConfigError, match="must be at least 1s"):
        LeaderElectionSettings(lease_duration=3e-9, renew_deadline=2e-9, retry_period=1e-9)
    with pytest.raises(ConfigError, match="must be at most 596523h14m7s"):
        LeaderElectionSettings(lease_duration=2.0**31)


@pytest.mark.parametrize("name", ["a/b", "../x", "A", "a b", "a" * 254, "a\n"])
def test_the_lock_is_named_as_an_object_is(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        LeaderElectionSettings(resource_name=name, resource_namespace=name)
    assert {error.path for error in caught.value.errors} == {
        "leaderElection.resourceName",
        "leaderElection.resourceNamespace",
    }


def test_durations_just_wide_enough_are_accepted() -> None:
    LeaderElectionSettings(lease_duration=2.42, renew_deadline=2.41, retry_period=2.0)


def test_a_scheduler_that_is_to_be_alone_holds_the_lock_all_the_same() -> None:
    with pytest.raises(ConfigError, match="leaseDuration"):
        LeaderElectionSettings(leader_elect=False, lease_duration=0)
