import pytest

from podsched.cli.debug import process_of

SERVERS = ["127.0.0.1:7443"]


@pytest.mark.parametrize(
    ("line", "url"),
    [
        ("python -m podsched apiserver --listen=127.0.0.1:7443 --health-listen=127.0.0.1:81",
         "http://127.0.0.1:81"),
        ("/x/sched scheduler --server a:1,127.0.0.1:7443 --tls-cert c --health-listen 0.0.0.0:8",
         "https://0.0.0.0:8"),
        ("/x/sched agent --server=127.0.0.1:7443", ""),
        ("/x/sched agent --server=127.0.0.1:7443 --health-listen=127.0.0.1:0", ""),
    ],
)  # fmt: skip
def test_a_process_of_the_cluster_is_known_by_its_command_line(line: str, url: str) -> None:
    process = process_of(line.split(), 7, SERVERS)
    assert process is not None
    assert process.url == url
    assert process.name.endswith("-7")


@pytest.mark.parametrize(
    "line",
    [
        "/x/sched agent --server=127.0.0.1:9999",
        "/x/sched get pods --server=127.0.0.1:7443",
        "vi scheduler --server=127.0.0.1:7443",
        "",
    ],
)
def test_other_processes_are_not(line: str) -> None:
    assert process_of(line.split(), 7, SERVERS) is None
