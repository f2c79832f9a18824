"""What ``sched up`` and ``sched demo`` refuse before they start anything."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from podsched.app.local_cluster import LocalCluster
from podsched.app.local_specs import LocalClusterOptions
from podsched.app.supervisor import ProcessFailed
from podsched.cli.local import data_directory, ready_text, starting_text, what_next
from podsched.lib.run_directory import files_of_running
from support.commands import Commands

IN_USE = "another process listens there: stop it, or choose another port"


def test_an_address_that_is_taken_is_one_line(sched: Commands, taken: str) -> None:
    done = sched("up", "--api", taken)
    assert done.code == 1
    [line] = done.errors
    assert line == f"error: --api {taken}: cannot listen: {IN_USE}"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["up", "--api", "nowhere"], 2),
        (["up", "--replicas", "0"], 2),
        (["up", "--evaluator", "gpu"], 2),
        (["up", "--api", "127.0.0.1:0", "--config", "nowhere.yaml"], 2),
        (["up", "--api", "0.0.0.0:0"], 2),
        (["up", "--api", "127.0.0.1:0", "--node-cpu", "4x"], 2),
        (["demo", "--kills", "9"], 2),
        (["bench", "Nothing"], 2),
        (["bench", "SchedulingBasic", "--create-mode", "all"], 2),
    ],
)
def test_what_is_not_understood_is_one_line(
    sched: Commands, arguments: list[str], code: int
) -> None:
    done = sched(*arguments)
    assert (done.code, done.out, len(done.errors)) == (code, "", 1)


@pytest.mark.parametrize(
    ("option", "value"),
    [("--node-memory", "4gb"), ("--node-devices", "gpus"), ("--controllers", "jobs")],
)
def test_an_invalid_value_is_reported_with_its_option(
    sched: Commands, option: str, value: str
) -> None:
    [line] = sched("up", "--api", "127.0.0.1:0", option, value).errors
    assert line.startswith(f"error: {option}: ")
    assert f'"{value}"' in line


def test_a_data_directory_that_is_a_file_is_named_with_the_reason(
    sched: Commands, tmp_path: Path
) -> None:
    file = tmp_path / "data"
    file.touch()
    done = sched("up", "--api", "127.0.0.1:0", "--evaluator", "local", "--data-dir", str(file))
    assert done.code == 2
    [line] = done.errors
    assert line == (
        f"error: --data-dir {file}: Not a directory: give a directory that you may write to"
    )


def test_a_configuration_with_mistakes_keeps_it_from_starting(
    sched: Commands, tmp_path: Path
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("parallelism: 0\ncolour: red")
    done = sched("up", "--api", "127.0.0.1:0", "--config", str(file))
    assert done.code == 2
    assert len(done.errors) == 3


def test_claims_of_pod_groups_are_an_option_of_its_api_servers(
    sched: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[tuple[str, ...]] = []

    class Cluster(LocalCluster):
        async def start(self) -> None:
            started.append(self.specs.options.api_arguments)
            raise ProcessFailed("not in this test")

    monkeypatch.setattr("podsched.cli.local.LocalCluster", Cluster)
    for options in ([], ["--pod-group-claims"]):
        assert sched("up", "--api", "127.0.0.1:0", *options).code == 1
    assert started == [(), ("--pod-group-claims",)]


@pytest.mark.integration
async def test_what_the_environment_says_of_other_clusters_is_not_for_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SCHED_TLS_CA", "SCHED_TLS_CERT", "SCHED_TLS_KEY", "SCHED_ETCD_USERNAME"):
        monkeypatch.setenv(name, "elsewhere")
    options = LocalClusterOptions(tmp_path, replicas=1, nodes=1, evaluator="local", fsync=False)
    cluster = LocalCluster(options)
    await cluster.start()
    try:
        assert [process.restarts for process in cluster.processes] == [0, 0, 0]
    finally:
        await cluster.stop()


@pytest.mark.parametrize(
    ("server", "first"),
    [
        ("127.0.0.1:7443", []),
        ("127.0.0.1:7555", ["  export SCHED_SERVER=127.0.0.1:7555"]),
    ],
)
def test_a_cluster_that_is_ready_says_where_it_is_and_what_to_try(
    server: str, first: list[str]
) -> None:
    cluster = LocalCluster(LocalClusterOptions(Path("/data"), nodes=1))
    cluster.specs.api_addresses = [server]
    cluster.specs.kubeconfig = Path("/data/kubeconfig")
    cluster.specs.page = "http://127.0.0.1:7480/"
    text = ready_text(cluster)
    assert text.splitlines() == [
        "podsched is ready",
        f"  API      {server}",
        "  running  3 scheduler replicas, 1 hollow node",
        "  logs     /data/logs",
        "  page     http://127.0.0.1:7480/",
        "  kubectl  export KUBECONFIG=/data/kubeconfig",
        "In another terminal:",
        *first,
        "  sched status                 # the leader and the standbys",
        "  sched apply -f FILE          # your pods, as Kubernetes manifests",
        "  sched get pods -o wide -w    # where they are placed, as it happens",
    ]


def test_a_cluster_with_hollow_nodes_says_first_that_nothing_is_run() -> None:
    assert "nothing runs" in starting_text(LocalClusterOptions(Path("/data"), nodes=1))
    assert "hollow" not in starting_text(LocalClusterOptions(Path("/data"), nodes=0))


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of programs of a virtual environment, from which ``sched`` was called."""
    for name in ("sched", "activate"):
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setattr("sys.argv", [str(tmp_path / "sched"), "demo"])
    return tmp_path


def test_where_sched_is_not_on_path_one_is_told_its_path(
    environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin")
    assert what_next() == (
        f"Next, a cluster that stays: {environment}/sched up --nodes 5\n"
        f"                        or: source {environment}/activate; sched up --nodes 5"
    )
    assert f"  {environment}/sched status  " in ready_text(
        LocalCluster(LocalClusterOptions(Path()))
    )


def test_what_to_type_next_fits_into_80_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "activate").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [".venv/bin/sched", "demo"])
    monkeypatch.setenv("PATH", "/usr/bin")
    lines = what_next().splitlines()
    assert "activate" in lines[-1] and max(map(len, lines)) <= 80


def test_where_sched_is_on_path_its_name_is_enough(
    environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(environment))
    assert what_next() == "Next, a cluster that stays: sched up --nodes 5"


def test_a_cluster_with_a_data_directory_is_found_as_others_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    kept = tmp_path / "kept"
    kept.mkdir()
    for wanted in (kept, None):
        with data_directory(wanted) as directory:
            for name in ("etcd-endpoint", "kubeconfig"):
                (directory / name).write_text(name)
                (found,) = files_of_running("up", name)
                assert found.read_text() == name
        assert files_of_running("up", "etcd-endpoint") == []
    assert (kept / "etcd-endpoint").exists()
