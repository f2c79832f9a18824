"""``sched queues``: show cohorts, ClusterQueues and LocalQueues as a tree, with their usage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from podsched.api.quantity import MAX_INT64, QuantityError
from podsched.ask.queues.counting import admission_of
from podsched.ask.queues.tree import Tree, queue_trees
from podsched.cli.cluster_source import ClusterSource, admit
from podsched.cli.config import read_config
from podsched.cli.errors import fail_on
from podsched.cli.flags import takes_flags
from podsched.cli.formats import dump
from podsched.cli.output import say
from podsched.cli.printers import wrapped
from podsched.config.flags import flag
from podsched.framework.plugin import PluginError
from podsched.lib.groups import lists_by_key
from podsched.registry import factories
from podsched.telemetry.log_output import configure_logging

#: Max width of a name with its branches; longer ones are cut.
_LONGEST_NAME: Final = 30
#: Levels that are indented, by three characters each; deeper ones have their number instead.
_INDENTED: Final = 4


@dataclass(frozen=True, slots=True)
class _Flags(ClusterSource):
    filename: list[str] | None = flag(None, "FILE|DIR|-", names="--filename -f")
    """Manifests of the cluster, such as kubectl get -o yaml prints; repeatable."""
    config: Path | None = flag(None, "FILE")
    """KubeSchedulerConfiguration file; it maps devices of claims to resources with quota."""
    output: Literal["table", "json", "yaml"] = flag("table", names="--output -o")
    """Output format."""


@takes_flags
def queues(given: _Flags) -> None:
    """Show cohorts, ClusterQueues and LocalQueues with their usage as a tree.

    Usage is that of the pods with a node, as the scheduler counts it. The quota of a cohort is its
    own plus what its children lend. The share is the borrowed part in thousandths of what can be
    lent, divided by the weight. Below the fourth level, the level's number replaces the indent.
    WAITING and ADMITTED count PodGroups, and pods without one.

    The cluster is given by --live (the default), --kubeconfig or -f. Nothing is changed.
    """
    configure_logging("text", "warning")
    objects = replace(given, files=given.filename or ()).or_live().objects()
    admit(objects, [])
    config = read_config(given.config)
    with fail_on(QuantityError, PluginError):
        trees = queue_trees(admission_of(objects, config, factories()))
    if given.output != "table":
        print(dump({"queues": trees}, given.output))
    elif trees:
        say(*table(trees))
        if starts := promised_starts(trees):
            say("", *starts)
    else:
        say("No queues found.", error=True)


def table(trees: Sequence[Tree]) -> list[str]:
    """Return a line for each node of the trees, followed by those of its children."""
    rows = [["QUEUE", "SHARE", "WAITING", "ADMITTED", "USED/QUOTA"]]
    rows += [row for tree in trees for row in _rows(tree)]
    return wrapped(rows)


def _rows(tree: Tree) -> Iterator[list[str]]:
    """Yield the rows of a tree."""
    # Of each tree, the branches drawn before its name, and before its children's names.
    stack = [(tree, "", "")]
    while stack:
        node, before, below = stack.pop()
        name = f"{node['name']}/" if node["kind"] == "Cohort" else node["name"]
        yield [
            _cropped(f"{_branch(before)}{name}"),
            _share(node),
            str(node["waiting"]),
            str(node["admitted"]),
            _quotas(node),
        ]
        children = node["children"]
        ends = [(f"{below}├─ ", f"{below}│  ")] * (len(children) - 1)
        ends.append((f"{below}└─ ", f"{below}   "))
        stack += reversed([(child, *end) for child, end in zip(children, ends, strict=False)])


def promised_starts(trees: Sequence[Tree]) -> list[str]:
    """Return the promised starts of all queues as lines, the first start first."""
    left, rows = list(trees), []
    while left:
        tree = left.pop()
        left += tree["children"]
        for one in tree.get("reserved", ()):
            rows.append([one["unit"], tree["name"], one["start"], ",".join(one["nodes"])])
    rows.sort(key=lambda row: (row[2], row[0]))
    return wrapped([["RESERVED", "QUEUE", "STARTS BY", "NODES"], *rows]) if rows else []


def _branch(drawn: str) -> str:
    """Return the branch before a name, with its level in place of a deep indent."""
    level = len(drawn) // len("├─ ")
    return drawn if level <= _INDENTED else f"{level}: {drawn[-3:]}"


def _cropped(text: str) -> str:
    return text if len(text) <= _LONGEST_NAME else text[: _LONGEST_NAME - 1] + "…"


def _share(tree: Tree) -> str:
    share = tree.get("share")
    if share is None:
        return ""
    return "max" if share == MAX_INT64 else str(share)


def _quotas(tree: Tree) -> str:
    """Return the used, total and borrowed quota of each flavor and resource as text."""
    by_flavor = lists_by_key((one["flavor"], _quota(one)) for one in tree["quotas"])
    parts = [f"{flavor}: {', '.join(texts)}" for flavor, texts in by_flavor.items()]
    problem = [f"({tree['problem']})"] if tree["problem"] else []
    return "; ".join([*problem, *parts]) or "-"


def _quota(one: dict[str, Any]) -> str:
    quota = f"/{one['quota']}" if "quota" in one else ""
    borrowed = one.get("borrowed", "0")
    more = f" ({borrowed} borrowed)" if borrowed != "0" else ""
    return f"{one['resource']} {one['used']}{quota}{more}"
