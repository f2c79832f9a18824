"""The page of a whole cluster: over HTTP everywhere, in a real browser where there is one."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.request import Request, urlopen

import pytest

from podsched import Client, from_manifest
from podsched.app.local_cluster import LocalCluster
from podsched.app.local_specs import LocalClusterOptions
from podsched.app.supervisor import ManagedProcess
from support.browser import CHROMIUM, browser
from support.eventually import PATIENCE, eventually_blocking

pytestmark = pytest.mark.integration

needs_chromium = pytest.mark.skipif(
    not CHROMIUM, reason="no chromium on PATH; on Debian: apt install chromium"
)


@dataclass
class Pages:
    """A cluster; the pages of its API server and of its scheduler."""

    cluster: LocalCluster
    scheduler: str

    @property
    def api_server(self) -> str:
        return self.cluster.specs.page

    def read(self, path: str, page: str = "") -> Any:
        with urlopen((page or self.api_server) + path, timeout=PATIENCE) as response:
            return json.loads(response.read())

    def act(self, path: str) -> Any:
        headers = {"X-Podsched-Page": "1"}
        asked = Request(self.api_server + path, method="POST", headers=headers)
        with urlopen(asked, timeout=PATIENCE) as response:
            return json.loads(response.read())

    def leads(self, page: str = "") -> bool:
        """Whether the page's server knows the replica as the leader, and so can ask it."""
        replicas = self.read("api/state", page)["leadership"]["replicas"]
        return [replica[1] for replica in replicas] == ["leading"]


def pod(name: str, cpu: str) -> Any:
    container = {
        "name": "c",
        "image": "web:1",
        "resources": {"requests": {"cpu": cpu}},
        "env": [{"name": "PASSWORD", "value": "hunter2"}],
    }
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [container]},
    }
    return from_manifest(manifest).message


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    """etcd, an API server and a scheduler with pages, three hollow nodes, and two pods."""
    options = LocalClusterOptions(
        tmp_path_factory.mktemp("page"),
        replicas=1,
        nodes=3,
        evaluator="local",
        fsync=False,
        web_address="127.0.0.1:0",
        scheduler_arguments=("--web-listen=127.0.0.1:0",),
    )
    with asyncio.Runner() as runner:
        cluster = LocalCluster(options)
        runner.run(cluster.start())
        try:
            with Client(cluster.server) as client:
                client.create(pod("web", "1"))
                client.create(pod("large", "64"))
            pages = Pages(cluster, _page_in_log(cluster.schedulers[0]))
            eventually_blocking("the leader answers questions", pages.leads)
            yield pages
        finally:
            runner.run(cluster.stop())


def _page_in_log(process: ManagedProcess) -> str:
    """The address that a process says its page is at."""
    words = process.log_path.read_text().split()
    return next(word.partition("=")[2] for word in words if word.startswith("address=http"))


def test_both_pages_show_who_leads_where_pods_are_and_why_they_wait(pages: Pages) -> None:
    for page in (pages.api_server, pages.scheduler):

        def shown(page: str = page) -> Any:
            state = pages.read("api/state", page)
            totals = state["totals"]
            done = (totals["bound"], totals["pending"]) == (1, 1) and state["terms"]
            told = pages.leads(page) and state["terms"][-1][1]
            return state if done and told and state["groups"][0][1] == "Unschedulable" else None

        state = eventually_blocking("one pod waits", shown)
        assert state["totals"]["nodes"] == 3
        assert state["groups"] == [[1, "Unschedulable", "Insufficient cpu"]]
        (replica,) = state["leadership"]["replicas"]
        assert state["leadership"]["leader"] == replica[0]
        assert state["terms"][-1][:2] == [replica[0], replica[2]]
        assert state["process"]["acts"] == (page == pages.api_server)
        found = pages.read("api/explain/default/large", page)
        rejecting = [step["plugin"] for step in found["funnel"] if step.get("rejected")]
        assert rejecting == ["NodeResourcesFit"]
        assert "hunter2" not in json.dumps([state, found, pages.read("api/pod/default/web", page)])


def test_the_leaders_work_is_sampled_from_its_lease(pages: Pages) -> None:
    def sampled() -> Any:
        samples = pages.read("api/state")["samples"]
        return next((sample for sample in samples if len(sample) > 1 and sample[5] == 1), None)

    assert eventually_blocking("a sample", sampled)[3:7] == [0, 0, 1, 0], "one pod is unschedulable"


def test_a_page_acts_through_the_api_server(pages: Pages) -> None:
    node = pages.read("api/state")["nodes"][0][1]
    assert pages.act(f"api/do/cordon/{node}")["spec"]["unschedulable"] is True
    eventually_blocking("cordoned", lambda: pages.read(f"api/node/{node}")["state"] & 2)
    pages.act(f"api/do/uncordon/{node}")
    eventually_blocking("ready", lambda: not pages.read(f"api/node/{node}")["state"] & 2)


@needs_chromium
async def test_the_page_in_a_browser(pages: Pages) -> None:
    async with browser() as tab:
        await tab.look(1440, 900)
        await tab.open(pages.api_server)
        await tab.until("document.getElementById('link')?.dataset.state === 'live'")
        await tab.until("document.getElementById('tiles').textContent.includes('scheduler-0')")
        # A pod that waits, and why.
        click = "[...document.querySelectorAll('#pending-list button')][0].click()"
        await tab.until("document.querySelectorAll('#pending-list button').length === 1")
        await tab.run(click)
        await tab.until("Boolean(document.querySelector('#detail .narrowing.last'))")
        told = await tab.run("document.getElementById('detail').textContent")
        assert "NodeResourcesFit" in told and "None fits" in told
        # A node, by the keyboard alone.
        await tab.run("document.getElementById('heat').focus()")
        for key in ("ArrowRight", "Enter"):
            await tab.key(key)
        await tab.until("document.getElementById('detail-title').textContent.startsWith('node ')")
        assert "cpu" in await tab.run("document.getElementById('spoken').textContent")
        await tab.key("Escape")
        # The same as a table, and what is live.
        await tab.run("document.getElementById('as-table').click()")
        await tab.until("document.querySelectorAll('#table tbody tr').length === 3")
        with Client(pages.cluster.server) as client:
            client.create(pod(f"later-in-a-deployment-{os.getpid()}-{time.time_ns()}", "100m"))
        await tab.until("document.getElementById('log-list').textContent.includes('later-')")
        # Pods by name, and what is said of the nodes.
        await tab.run("document.getElementById('find-pod').value = 'lar'")
        await tab.run("document.getElementById('find-pod').dispatchEvent(new Event('input'))")
        listed = "[...document.querySelectorAll('#pod-list tbody th')].map((th) => th.textContent)"
        await tab.until(f"{listed}.join() === 'default/large'")
        hollow = await tab.run("document.getElementById('hollow').textContent")
        assert hollow == "all hollow: nothing runs on them"
        for width, dark in ((390, False), (390, True), (1440, True)):
            await tab.look(width, 844, dark=dark)
            await tab.until(f"document.documentElement.scrollWidth <= {width}")
            names = "[...document.querySelectorAll('#log-list tbody th button')]"
            assert await tab.run(f"{names}.every((name) => name.scrollWidth <= name.clientWidth)")
            assert (await tab.screenshot())[:4] == b"\x89PNG"
        assert int(await tab.run("document.getElementById('cost').dataset.bytes")) < 5_000
        assert tab.problems == []


def clicked(text: str) -> str:
    """A script that clicks a button of the details."""
    found = f".find((button) => button.textContent === '{text}').click()"
    return f"[...document.querySelectorAll('#detail button')]{found}"


@needs_chromium
async def test_a_gang_is_one_line_that_opens_its_members_and_why_it_waits(pages: Pages) -> None:
    group = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 60}}},
    }
    with Client(pages.cluster.server) as client:
        client.create(from_manifest(group).message)
        for number in range(60):
            member = pod(f"train-{number:02}", "1")
            member.spec.scheduling_group.pod_group_name = "train"
            client.create(member)
    async with browser() as tab:
        await tab.look(1440, 900)
        await tab.open(pages.api_server)
        line = (
            "[...document.querySelectorAll('#pending-list tbody tr')]"
            ".filter((row) => row.textContent.includes('train')).map((row) => row.textContent)"
        )
        await tab.until(f"{line}.join().includes('placements are available')")
        (told,) = await tab.run(line)
        assert told.startswith("default/traingang of at least 60, 0 of 60 with a node")
        # Found by its name.
        await tab.run("document.getElementById('find-pod').value = 'trai'")
        await tab.run("document.getElementById('find-pod').dispatchEvent(new Event('input'))")
        listed = "[...document.querySelectorAll('#pod-list tbody th button')]"
        await tab.until(f"{listed}.map((name) => name.textContent).join() === 'default/train'")
        # What it tells when it is opened.
        await tab.run(f"{listed}[0].click()")
        detail = "document.getElementById('detail').textContent"
        await tab.until(f"{detail}.includes('How many members fit')")
        await tab.run(clicked("What would help?"))
        await tab.until(f"{detail}.includes('a minCount of ')")
        text = await tab.run(detail)
        assert "and 10 more" in text and "default/train-49" in text
        assert "default/train-50" not in text
        for page in (pages.api_server, pages.scheduler):
            found = pages.read("api/explain/default/train?kind=PodGroup", page)
            assert found["podGroup"]["domains"][0]["lacks"] > 0
        # A member leads back to its group.
        await tab.run(clicked("default/train-00"))
        await tab.until(f"{detail}.startsWith('pod default/train-00')")
        await tab.run(clicked("default/train"))
        await tab.until(f"{detail}.startsWith('pod group default/train')")
        for width in (390, 1440):
            await tab.look(width, 844, dark=True)
            await tab.until(f"document.documentElement.scrollWidth <= {width}")
        assert tab.problems == []


@needs_chromium
async def test_the_longest_names_stay_inside_the_page(pages: Pages) -> None:
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "s" * 63}}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"{'n' * 63}." * 3 + "n" * 61},
        "status": {"allocatable": {"cpu": "32", "pods": "9", f"example.com/{'r' * 63}": "9"}},
    }
    wide, there = pod("w" * 253, "64"), pod("t" * 253, "1")
    there.spec.node_name = node["metadata"]["name"]
    with Client(pages.cluster.server) as client:
        for manifest in (space, node):
            client.create(from_manifest(manifest).message)
        for each in (wide, there):
            each.metadata.namespace = "s" * 63
            client.create(each)
    async with browser() as tab:
        await tab.open(pages.api_server)
        line = "[...document.querySelectorAll('#pending-list button')]"
        await tab.until(f"{line}.some((name) => name.textContent.includes('www'))")
        await tab.run(f"{line}.find((name) => name.textContent.includes('www')).click()")
        await tab.until("document.querySelectorAll('#detail .part li').length > 0")
        outside = (
            "[...document.querySelectorAll('main *')].filter((one) => !one.closest('svg')"
            " && one.getBoundingClientRect().right > innerWidth).map((one) => one.outerHTML)"
        )
        for width in (390, 1280):
            await tab.look(width, 844)
            await tab.until(f"document.documentElement.scrollWidth <= {width}")
            assert await tab.run(outside) == []
            detail = "document.getElementById('detail')"
            assert await tab.run(f"{detail}.scrollWidth <= {detail}.clientWidth")
        assert await tab.run("document.getElementById('find').clientWidth > 100")
        assert tab.problems == []
