import urllib.request
from http.client import BadStatusLine, InvalidURL, RemoteDisconnected
from io import BytesIO

import pytest

from podsched.cli.debug import MIB, Archive, Process, add_process, process_of
from podsched.serve.client.channels import ClientOptions

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


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (BadStatusLine("\x00\x00\x12\x04"), "no valid HTTP answer"),
        (RemoteDisconnected("Remote end closed connection"), "Remote end closed connection"),
        (InvalidURL("nonnumeric port: 'x'"), "nonnumeric port: 'x'"),
    ],
)
async def test_a_process_that_cannot_be_read_is_reported_and_the_rest_is_packed(
    monkeypatch: pytest.MonkeyPatch, error: Exception, why: str
) -> None:
    def answer(url: str, **_: object) -> BytesIO:
        if url.startswith("http://127.0.0.1:7443/"):
            raise error
        return BytesIO(b"fine")

    monkeypatch.setattr(urllib.request, "urlopen", answer)
    archive = Archive(MIB)
    await add_process(archive, Process("named-0", "http://127.0.0.1:7443"), ClientOptions())
    assert not archive.reached
    await add_process(archive, Process("named-1", "http://127.0.0.1:81"), ClientOptions())
    assert archive.missing == [f"named-0: http://127.0.0.1:7443: {why}"]
    assert archive.texts["processes/named-1/metrics.txt"] == b"fine"
    assert archive.reached
