import pytest

from podsched.telemetry.health import HealthChecks, Probe


def checks(etcd: str = "", informer: str = "") -> HealthChecks:
    result = HealthChecks()
    result.add("etcd", lambda: etcd)
    result.add("informer-sync", lambda: informer, [Probe.READYZ])
    return result


def test_a_healthy_process_answers_ok() -> None:
    answer = checks().answer(Probe.READYZ)
    assert (answer.ok, answer.text) == (True, "ok")


def test_verbose_answers_name_every_check_as_kubernetes_does() -> None:
    answer = checks().answer(Probe.READYZ, verbose=True)
    assert answer.ok
    assert answer.text == ("[+]ping ok\n[+]etcd ok\n[+]informer-sync ok\nreadyz check passed\n")


def test_a_failing_check_fails_its_probes_and_says_why() -> None:
    failing = checks(informer="waiting for\nthe first list")
    assert failing.answer(Probe.LIVEZ).ok
    answer = failing.answer(Probe.READYZ)
    assert not answer.ok
    assert answer.text == (
        "[+]ping ok\n[+]etcd ok\n"
        "[-]informer-sync failed: waiting for the first list\n"
        "readyz check failed\n"
    )


def test_one_failing_check_is_enough_wherever_it_stands() -> None:
    assert not checks(etcd="down").answer(Probe.READYZ).ok


def test_an_excluded_check_does_not_count() -> None:
    answer = checks(etcd="down").answer(
        Probe.LIVEZ, verbose=True, exclude=["etcd", "nothing", "neither"]
    )
    assert answer.ok
    assert answer.text == (
        "[+]ping ok\n[+]etcd excluded: ok\n"
        'warn: some health checks cannot be excluded: no matches for "neither","nothing"\n'
        "livez check passed\n"
    )


def test_one_check_can_be_asked_alone() -> None:
    some = checks(etcd="down")
    ping, etcd = some.answer_one(Probe.LIVEZ, "ping"), some.answer_one(Probe.LIVEZ, "etcd")
    assert ping is not None
    assert ping.text == "ok"
    assert etcd is not None
    assert not etcd.ok
    assert "down" in etcd.text
    assert some.answer_one(Probe.LIVEZ, "informer-sync") is None


def test_a_check_that_breaks_is_a_failure_not_a_crash() -> None:
    broken = HealthChecks()
    broken.add("boom", lambda: str(1 / 0))
    answer = broken.answer(Probe.HEALTHZ)
    assert not answer.ok
    assert "[-]boom failed: ZeroDivisionError" in answer.text


def test_a_name_is_taken_once() -> None:
    with pytest.raises(ValueError, match="ping"):
        HealthChecks().add("ping", lambda: "")


def test_each_run_of_a_check_is_told_with_its_probe_and_result() -> None:
    ran: list[tuple[str, str, bool]] = []
    some = checks(informer="slow")
    some.ran = lambda *run: ran.append(run)
    some.answer(Probe.READYZ, exclude=["etcd"])
    some.answer_one(Probe.LIVEZ, "etcd")
    assert ran == [
        ("ping", "readyz", True),
        ("informer-sync", "readyz", False),
        ("etcd", "livez", True),
    ]
