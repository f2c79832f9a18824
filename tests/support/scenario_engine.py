"""Step and assertion engine for dynamic scheduler scenarios.

Knows nothing about any particular scheduler or API server: it expands the
helpers of a scenario into Kubernetes-style manifests, hands them to a Backend,
and judges assertions on the objects the Backend returns.  See README.md.
"""

import copy
import re
import time

import yaml


class BackendError(Exception):
    """The system under test refused a request (validation, admission, conflict)."""


class ScenarioFailure(Exception):
    pass


class ScenarioFormatError(Exception):
    pass


class Backend:
    """What another system has to provide to run the scenarios.

    Objects are plain dicts shaped like the Kubernetes API objects.
    `ns` is ignored for cluster-scoped kinds.
    """

    name = "abstract"
    #: words a scenario may list under `needs`
    capabilities = frozenset()

    def start(self):
        raise NotImplementedError

    def stop(self):
        raise NotImplementedError

    def reset(self):
        """Remove everything a scenario created."""
        raise NotImplementedError

    def restart_scheduler(self, config):
        """(Re)start the scheduler with a KubeSchedulerConfiguration dict, or None for defaults."""
        raise NotImplementedError

    def apply(self, manifest):
        """Create (or update) one object; raise BackendError if refused."""
        raise NotImplementedError

    def delete(self, kind, ns, name, grace=None):
        raise NotImplementedError

    def patch(self, kind, ns, name, patch):
        """JSON merge patch; a top-level `status` is written as a node agent or controller would."""
        raise NotImplementedError

    def get(self, kind, ns, name):
        """The object, or None."""
        raise NotImplementedError

    def list(self, kind):
        """All objects of the kind in all namespaces."""
        raise NotImplementedError

    def events(self):
        """[{kind, namespace, name, reason, message, type}]"""
        raise NotImplementedError

    def binding_log(self):
        """['namespace/name', ...] of pods in the order in which they were bound."""
        raise NotImplementedError

    def silence(self, node, on=True):
        """Stop (or resume) the node's agent: no heartbeat, no pod start, no pod removal."""
        raise NotImplementedError


# --------------------------------------------------------------------------- helpers

_SUFFIX = {
    "n": 1e-9,
    "u": 1e-6,
    "m": 1e-3,
    "": 1,
    "k": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}


def quantity(q):
    m = re.fullmatch(r"([0-9.]+)([a-zA-Z]*)", str(q))
    return float(m.group(1)) * _SUFFIX[m.group(2)]


def deep_merge(a, b):
    """b over a; dicts merge, everything else replaces."""
    if not (isinstance(a, dict) and isinstance(b, dict)):
        return copy.deepcopy(b)
    out = copy.deepcopy(a)
    for k, v in b.items():
        out[k] = deep_merge(out[k], v) if k in out else copy.deepcopy(v)
    return out


def as_list(x):
    return x if isinstance(x, list) else [x]


def _known(d, allowed, what):
    bad = set(d) - set(allowed)
    if bad:
        raise ScenarioFormatError(f"unknown key(s) {sorted(bad)} in {what}")


def _expand(spec):
    """names | prefix+count, with an optional cycle of overrides -> list of (name, spec)."""
    spec = dict(spec)
    cycle = spec.pop("cycle", None) or [{}]
    if "names" in spec:
        names = as_list(spec.pop("names"))
    else:
        prefix, count, start = spec.pop("prefix"), spec.pop("count"), spec.pop("from", 0)
        names = [f"{prefix}{i}" for i in range(start, start + count)]
    return [(n, deep_merge(spec, cycle[i % len(cycle)])) for i, n in enumerate(names)]


def node_manifests(spec):
    for name, s in _expand(spec):
        _known(
            s,
            {"cpu", "memory", "pods", "extra", "labels", "taints", "unschedulable", "annotations"},
            "nodes",
        )
        res = {
            "cpu": str(s.get("cpu", 4)),
            "memory": s.get("memory", "32Gi"),
            "pods": str(s.get("pods", 110)),
            "ephemeral-storage": "100Gi",
        }
        res.update({k: str(v) for k, v in s.get("extra", {}).items()})
        labels = {"kubernetes.io/hostname": name}
        labels.update({k: str(v) for k, v in s.get("labels", {}).items()})
        spec_ = {}
        if s.get("taints"):
            spec_["taints"] = s["taints"]
        if s.get("unschedulable"):
            spec_["unschedulable"] = True
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": spec_,
            "status": {"capacity": dict(res), "allocatable": dict(res)},
        }


def pod_manifests(spec):
    for name, s in _expand(spec):
        _known(
            s,
            {
                "ns",
                "cpu",
                "memory",
                "extra",
                "labels",
                "class",
                "grace",
                "node",
                "selector",
                "ports",
                "scheduler",
                "gates",
                "claims",
                "tolerations",
                "affinity",
                "spread",
                "spec",
                "annotations",
            },
            "pods",
        )
        req = {}
        if "cpu" in s:
            req["cpu"] = str(s["cpu"])
        if "memory" in s:
            req["memory"] = str(s["memory"])
        extra = {k: str(v) for k, v in s.get("extra", {}).items()}
        req.update(extra)
        c = {"name": "c", "image": "registry.invalid/pause", "resources": {}}
        if req:
            c["resources"]["requests"] = req
        if extra:
            c["resources"]["limits"] = dict(extra)
        if "ports" in s:
            c["ports"] = [
                p if isinstance(p, dict) else {"containerPort": p, "hostPort": p}
                for p in s["ports"]
            ]
        ps = {
            "containers": [c],
            "terminationGracePeriodSeconds": s.get("grace", 0),
            "automountServiceAccountToken": False,
        }
        for key, field in (
            ("class", "priorityClassName"),
            ("node", "nodeName"),
            ("selector", "nodeSelector"),
            ("scheduler", "schedulerName"),
            ("tolerations", "tolerations"),
            ("affinity", "affinity"),
            ("spread", "topologySpreadConstraints"),
        ):
            if key in s:
                ps[field] = copy.deepcopy(s[key])
        if "gates" in s:
            ps["schedulingGates"] = [{"name": g} for g in s["gates"]]
        if "claims" in s:
            ps["volumes"] = [
                {"name": f"v{i}", "persistentVolumeClaim": {"claimName": n}}
                for i, n in enumerate(s["claims"])
            ]
        ps = deep_merge(ps, s.get("spec", {}))
        md = {
            "name": name,
            "namespace": s.get("ns", "default"),
            "labels": {k: str(v) for k, v in s.get("labels", {}).items()},
        }
        if "annotations" in s:
            md["annotations"] = s["annotations"]
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": md, "spec": ps}


def class_manifests(spec):
    for name, v in spec.items():
        m = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
        }
        m.update(v if isinstance(v, dict) else {"value": v})
        yield m


# --------------------------------------------------------------------------- object views


def node_of(pod):
    return pod.get("spec", {}).get("nodeName") or ""


def finished(pod):
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def condition(obj, ctype):
    for c in obj.get("status", {}).get("conditions") or []:
        if c.get("type") == ctype:
            return c
    return None


def pod_requests(pod):
    def reqs(c):
        r = c.get("resources") or {}
        out = {k: quantity(v) for k, v in (r.get("limits") or {}).items()}
        out.update({k: quantity(v) for k, v in (r.get("requests") or {}).items()})
        return out

    def add(a, b):
        return {k: a.get(k, 0) + b.get(k, 0) for k in set(a) | set(b)}

    main, side, peak = {}, {}, {}
    for c in pod["spec"].get("containers") or []:
        main = add(main, reqs(c))
    for c in pod["spec"].get("initContainers") or []:
        r = reqs(c)
        if c.get("restartPolicy") == "Always":
            side = add(side, r)
            r = side
        else:
            r = add(side, r)
        peak = {k: max(peak.get(k, 0), r.get(k, 0)) for k in set(peak) | set(r)}
    total = add(main, side)
    total = {k: max(total.get(k, 0), peak.get(k, 0)) for k in set(total) | set(peak)}
    total = add(total, {k: quantity(v) for k, v in (pod["spec"].get("overhead") or {}).items()})
    return total


class Snapshot:
    """Objects as of one poll; each kind is listed at most once."""

    def __init__(self, backend):
        self.b, self._lists, self._ix, self._events = backend, {}, {}, None

    def list(self, kind):
        if kind not in self._lists:
            self._lists[kind] = self.b.list(kind)
            self._ix[kind] = {
                (o["metadata"].get("namespace", ""), o["metadata"]["name"]): o
                for o in self._lists[kind]
            }
        return self._lists[kind]

    def get(self, kind, ns, name):
        self.list(kind)
        ix = self._ix[kind]
        return ix.get((ns, name)) or ix.get(("", name))

    def pod(self, ref):
        ns, name = split_ref(ref)
        return self.get("Pod", ns, name)

    def events(self):
        if self._events is None:
            self._events = self.b.events()
        return self._events


def split_ref(ref):
    return tuple(ref.split("/", 1)) if "/" in ref else ("default", ref)


def select_pods(snap, a):
    out = []
    for p in snap.list("Pod"):
        if "prefix" in a and not p["metadata"]["name"].startswith(a["prefix"]):
            continue
        if "ns" in a and p["metadata"].get("namespace") != a["ns"]:
            continue
        labels = p["metadata"].get("labels") or {}
        if any(labels.get(k) != str(v) for k, v in a.get("labels", {}).items()):
            continue
        if "names" in a and p["metadata"]["name"] not in a["names"]:
            continue
        if "class" in a and p["spec"].get("priorityClassName") != a["class"]:
            continue
        out.append(p)
    return out


def _refs(v):
    """'a' | ['a','b'] | {pod: 'a' or [...]}"""
    if isinstance(v, dict):
        v = v["pod"]
    return as_list(v)


# --------------------------------------------------------------------------- assertions
# Each returns '' when true, else a sentence saying why not.

SELECT = {"prefix", "ns", "labels", "names", "class"}


def a_bound(snap, v, ctx):
    if isinstance(v, dict):
        _known(v, {"pod", "node", "not_node"}, "bound")
    for ref in _refs(v):
        p = snap.pod(ref)
        if p is None:
            return f"pod {ref} does not exist"
        n = node_of(p)
        if not n:
            c = condition(p, "PodScheduled") or {}
            return f"pod {ref} is not bound ({c.get('reason')}: {c.get('message')})"
        if isinstance(v, dict) and "node" in v and n not in as_list(v["node"]):
            return f"pod {ref} is bound to {n}, expected {v['node']}"
        if isinstance(v, dict) and n in as_list(v.get("not_node", [])):
            return f"pod {ref} is bound to {n}, which was excluded"
    return ""


def a_pending(snap, v, ctx):
    for ref in _refs(v):
        p = snap.pod(ref)
        if p is None:
            return f"pod {ref} does not exist"
        if node_of(p):
            return f"pod {ref} is bound to {node_of(p)}"
    return ""


def a_reason(snap, v, ctx):
    _known(v, {"pod", "reason", "contains"}, "reason")
    for ref in as_list(v["pod"]):
        p = snap.pod(ref)
        if p is None:
            return f"pod {ref} does not exist"
        c = condition(p, "PodScheduled")
        if v.get("reason") is None and "reason" in v:
            if c:
                return f"pod {ref} has a PodScheduled condition: {c}"
            continue
        if c is None:
            return f"pod {ref} has no PodScheduled condition"
        if c.get("status") == "True":
            return f"pod {ref}: PodScheduled is True"
        if "reason" in v and c.get("reason") != v["reason"]:
            return f"pod {ref}: reason {c.get('reason')!r}, expected {v['reason']!r}"
        for t in as_list(v.get("contains", [])) if ctx.messages else []:
            if t.lower() not in (c.get("message") or "").lower():
                return f"pod {ref}: message {c.get('message')!r} lacks {t!r}"
    return ""


def _find_event(snap, v, ctx):
    kind, (ns, name) = v.get("kind", "Pod"), split_ref(v["name"])
    for e in snap.events():
        if (
            e["kind"] == kind
            and e["name"] == name
            and (kind == "Node" or e["namespace"] == ns)
            and v.get("reason") in (None, e["reason"])
            and (
                not ctx.messages
                or (v.get("contains") or "").lower() in (e.get("message") or "").lower()
            )
        ):
            return e
    return None


def a_event(snap, v, ctx):
    _known(v, {"kind", "name", "reason", "contains"}, "event")
    if _find_event(snap, v, ctx):
        return ""
    seen = sorted({e["reason"] for e in snap.events() if e["name"] == split_ref(v["name"])[1]})
    return f"no event {v}; seen for that name: {seen}"


def a_no_event(snap, v, ctx):
    _known(v, {"kind", "name", "reason", "contains"}, "no_event")
    e = _find_event(snap, v, ctx)
    return f"unexpected event {e['reason']}: {e['message']}" if e else ""


def a_nominated(snap, v, ctx):
    _known(v, {"pod", "node"}, "nominated")
    for ref in as_list(v["pod"]):
        p = snap.pod(ref)
        if p is None:
            return f"pod {ref} does not exist"
        n = p.get("status", {}).get("nominatedNodeName") or ""
        want = v.get("node")
        if want is None:
            if not n:
                return f"pod {ref} is not nominated"
        elif n not in as_list(want):
            return f"pod {ref} is nominated to {n!r}, expected {want!r}"
    return ""


def _objs(v):
    """'pod' | ['pod', ...] | {kind, name, ns}"""
    if isinstance(v, dict):
        _known(v, {"kind", "name", "ns"}, "object reference")
        return [(v.get("kind", "Pod"), v.get("ns", "default"), n) for n in as_list(v["name"])]
    return [("Pod", *split_ref(r)) for r in as_list(v)]


def a_gone(snap, v, ctx):
    for kind, ns, name in _objs(v):
        if snap.get(kind, ns, name) is not None:
            return f"{kind} {name} still exists"
    return ""


def a_exists(snap, v, ctx):
    for kind, ns, name in _objs(v):
        if snap.get(kind, ns, name) is None:
            return f"{kind} {name} does not exist"
    return ""


def a_terminating(snap, v, ctx):
    for kind, ns, name in _objs(v):
        o = snap.get(kind, ns, name)
        if o is None:
            return f"{kind} {name} does not exist"
        if not o["metadata"].get("deletionTimestamp"):
            return f"{kind} {name} is not terminating"
    return ""


def a_not_terminating(snap, v, ctx):
    for kind, ns, name in _objs(v):
        o = snap.get(kind, ns, name)
        if o is None:
            return f"{kind} {name} does not exist"
        if o["metadata"].get("deletionTimestamp"):
            return f"{kind} {name} is terminating"
    return ""


def a_condition(snap, v, ctx):
    _known(v, {"kind", "name", "ns", "type", "status", "reason", "contains"}, "condition")
    for name in as_list(v["name"]):
        o = snap.get(v.get("kind", "Pod"), v.get("ns", "default"), name)
        if o is None:
            return f"{v.get('kind', 'Pod')} {name} does not exist"
        c = condition(o, v["type"])
        if c is None:
            return f"{name} has no condition {v['type']}"
        for k in ("status", "reason"):
            if k in v and c.get(k) != v[k]:
                return f"{name}: {v['type']}.{k} is {c.get(k)!r}, expected {v[k]!r}"
        if (
            ctx.messages
            and "contains" in v
            and v["contains"].lower() not in (c.get("message") or "").lower()
        ):
            return f"{name}: {v['type']} message {c.get('message')!r} lacks {v['contains']!r}"
    return ""


def a_taint(snap, v, ctx):
    _known(v, {"node", "key", "effect", "absent"}, "taint")
    for name in as_list(v["node"]):
        n = snap.get("Node", "", name)
        if n is None:
            return f"node {name} does not exist"
        found = any(
            t["key"] == v["key"] and v.get("effect") in (None, t["effect"])
            for t in n.get("spec", {}).get("taints") or []
        )
        if found == bool(v.get("absent")):
            return f"node {name}: taint {v['key']}:{v.get('effect', '*')} " + (
                "present" if found else "absent"
            )
    return ""


def _live_bound(snap, v):
    return [p for p in select_pods(snap, v) if node_of(p) and not finished(p)]


def a_pods_per_node(snap, v, ctx):
    _known(v, SELECT | {"max", "min", "nodes", "exactly"}, "pods_per_node")
    names = (
        as_list(v["nodes"]) if "nodes" in v else [n["metadata"]["name"] for n in snap.list("Node")]
    )
    counts = dict.fromkeys(names, 0)
    for p in _live_bound(snap, v):
        if node_of(p) in counts:
            counts[node_of(p)] += 1
    for n, c in sorted(counts.items()):
        if c > v.get("max", 1 << 30) or c < v.get("min", 0) or c != v.get("exactly", c):
            return f"node {n} has {c} matching pods; all: {counts}"
    return ""


def a_per_topology(snap, v, ctx):
    _known(v, SELECT | {"key", "skew", "counts", "domains"}, "per_topology")
    dom, counts = {}, {}
    for n in snap.list("Node"):
        d = (n["metadata"].get("labels") or {}).get(v["key"])
        if d is not None and ("domains" not in v or d in v["domains"]):
            dom[n["metadata"]["name"]] = d
            counts.setdefault(d, 0)
    for p in _live_bound(snap, v):
        if node_of(p) in dom:
            counts[dom[node_of(p)]] += 1
    if "skew" in v and counts and max(counts.values()) - min(counts.values()) > v["skew"]:
        return f"skew over {v['key']} exceeds {v['skew']}: {counts}"
    if "counts" in v and counts != {str(k): n for k, n in v["counts"].items()}:
        return f"counts over {v['key']} are {counts}, expected {v['counts']}"
    return ""


def a_order(snap, v, ctx):
    log = ctx.backend.binding_log()
    want = ["/".join(split_ref(r)) for r in v]
    missing = [w for w in want if w not in log]
    if missing:
        return f"not bound so far: {missing}"
    if sorted(want, key=log.index) != want:
        return f"bound in the order {sorted(want, key=log.index)}, expected {want}"
    return ""


def a_count(snap, v, ctx):
    _known(
        v,
        SELECT
        | {"bound", "pending", "total", "nominated", "terminating", "min_bound", "max_bound"},
        "count",
    )
    pods = select_pods(snap, v)
    got = {
        "total": len(pods),
        "bound": sum(bool(node_of(p)) and not finished(p) for p in pods),
        "pending": sum(not node_of(p) for p in pods),
        "nominated": sum(bool(p.get("status", {}).get("nominatedNodeName")) for p in pods),
        "terminating": sum(bool(p["metadata"].get("deletionTimestamp")) for p in pods),
    }
    for k in got:
        if k in v and got[k] != v[k]:
            return f"{k} is {got[k]}, expected {v[k]} ({got})"
    if not v.get("min_bound", 0) <= got["bound"] <= v.get("max_bound", 1 << 30):
        limits = f"{v.get('min_bound', 0)}..{v.get('max_bound', 'any')}"
        return f"bound is {got['bound']}, expected {limits}"
    return ""


def a_same_node(snap, v, ctx):
    nodes = {r: node_of(snap.pod(r) or {}) for r in v}
    if "" in nodes.values() or len(set(nodes.values())) != 1:
        return f"not on one node: {nodes}"
    return ""


def a_different_nodes(snap, v, ctx):
    nodes = {r: node_of(snap.pod(r) or {}) for r in v}
    if "" in nodes.values() or len(set(nodes.values())) != len(nodes):
        return f"not on different nodes: {nodes}"
    return ""


def a_field(snap, v, ctx):
    """Value at a path of an object; `same_as_node_of` compares with the node of a pod."""
    _known(
        v, {"kind", "name", "ns", "path", "equals", "one_of", "absent", "same_as_node_of"}, "field"
    )
    for name in as_list(v["name"]):
        o = snap.get(v.get("kind", "Pod"), v.get("ns", "default"), name)
        if o is None:
            return f"{v.get('kind', 'Pod')} {name} does not exist"
        cur = o
        for part in as_list(v["path"]) if isinstance(v["path"], list) else v["path"].split("."):
            if isinstance(cur, list):
                cur = cur[int(part)] if int(part) < len(cur) else None
            else:
                cur = (cur or {}).get(part)
        if v.get("absent"):
            if cur not in (None, "", [], {}):
                return f"{name}: {v['path']} is {cur!r}, expected none"
        elif "equals" in v and cur != v["equals"]:
            return f"{name}: {v['path']} is {cur!r}, expected {v['equals']!r}"
        elif "one_of" in v and cur not in v["one_of"]:
            return f"{name}: {v['path']} is {cur!r}, expected one of {v['one_of']!r}"
        elif "same_as_node_of" in v:
            n = node_of(snap.pod(v["same_as_node_of"]) or {})
            if not n or cur != n:
                return f"{name}: {v['path']} is {cur!r}, pod {v['same_as_node_of']} is on {n!r}"
    return ""


def a_one_of(snap, v, ctx):
    """At least one of several groups of assertions holds."""
    why = []
    for group in v:
        bad = [w for w in (check(snap, a, ctx) for a in group) if w]
        if not bad:
            return ""
        why.append(bad[0])
    return "none of the alternatives holds: " + " | ".join(why)


ASSERTIONS = {k[2:]: f for k, f in list(globals().items()) if k.startswith("a_") and callable(f)}


def check(snap, a, ctx):
    if len(a) != 1:
        raise ScenarioFormatError(f"an assertion has exactly one key: {a}")
    ((name, v),) = a.items()
    if name not in ASSERTIONS:
        raise ScenarioFormatError(f"unknown assertion {name!r}")
    return ASSERTIONS[name](snap, v, ctx)


#: Functions of a snapshot that return "" or what is broken, asked at every poll of every `expect`.
INVARIANTS = []


def overcommitted(snap):
    """'' unless some node carries more than it can."""
    used = {}
    for p in snap.list("Pod"):
        if node_of(p) and not finished(p):
            u = used.setdefault(node_of(p), {})
            for k, q in pod_requests(p).items():
                u[k] = u.get(k, 0) + q
            u["pods"] = u.get("pods", 0) + 1
    for n in snap.list("Node"):
        alloc = n.get("status", {}).get("allocatable") or {}
        for k, q in used.get(n["metadata"]["name"], {}).items():
            if q > quantity(alloc.get(k, "0")) + 1e-9:
                return (
                    f"node {n['metadata']['name']} is over capacity: {k} {q:g} > {alloc.get(k, 0)}"
                )
    return ""


# --------------------------------------------------------------------------- scenario runner

KEYS = {"id", "topic", "promise", "comment", "needs", "scheduler_config", "overcommit", "steps"}
VERBS = {
    "apply",
    "nodes",
    "pods",
    "classes",
    "delete",
    "patch",
    "wait",
    "silence",
    "resume",
    "restart",
    "expect",
}
SIDE = {"rejected"}


def load(paths):
    out, seen = [], set()
    for path in paths:
        with open(path) as f:
            docs = [d for doc in yaml.safe_load_all(f) if doc is not None for d in as_list(doc)]
            for doc in docs:
                _known(doc, KEYS, f"scenario in {path}")
                for k in ("id", "topic", "promise", "steps"):
                    if k not in doc:
                        raise ScenarioFormatError(f"{path}: {doc.get('id')}: {k} is missing")
                if doc["id"] in seen:
                    raise ScenarioFormatError(f"{path}: duplicate id {doc['id']}")
                seen.add(doc["id"])
                for s in doc["steps"]:
                    verbs = set(s) - SIDE
                    if len(verbs) != 1 or not verbs <= VERBS:
                        raise ScenarioFormatError(f"{doc['id']}: a step has exactly one verb: {s}")
                    if "expect" in s:
                        _known(s["expect"], {"within", "hold", "that"}, f"{doc['id']}: expect")
                        for a in s["expect"]["that"]:
                            if len(a) != 1 or not set(a) <= set(ASSERTIONS):
                                raise ScenarioFormatError(f"{doc['id']}: bad assertion {a}")
                out.append(doc)
    return out


class Runner:
    def __init__(self, backend, poll=0.1, messages=True):
        """messages=False: do not compare the wording of messages (`contains`)."""
        self.backend, self.poll, self.messages = backend, poll, messages

    def missing(self, sc):
        return sorted(set(sc.get("needs", [])) - set(self.backend.capabilities))

    def run(self, sc):
        """Raises ScenarioFailure naming the step and the assertion."""
        self.check_capacity = not sc.get("overcommit", False)
        for i, step in enumerate(sc["steps"], 1):
            (verb,) = set(step) - SIDE
            try:
                getattr(self, "do_" + verb)(step[verb], step)
                if "rejected" in step:
                    raise ScenarioFailure(
                        f"accepted, but a refusal containing {step['rejected']!r} was expected"
                    )
            except BackendError as e:
                if "rejected" not in step:
                    raise ScenarioFailure(f"step {i} ({verb}): refused: {e}") from e
                if self.messages and step["rejected"].lower() not in str(e).lower():
                    raise ScenarioFailure(
                        f"step {i} ({verb}): refused with {str(e)!r}, expected {step['rejected']!r}"
                    ) from e
            except ScenarioFailure as e:
                raise ScenarioFailure(f"step {i} ({verb}): {e}") from e

    def do_apply(self, v, step):
        for m in as_list(v):
            self.backend.apply(copy.deepcopy(m))

    def do_nodes(self, v, step):
        for spec in as_list(v):
            for m in node_manifests(spec):
                self.backend.apply(m)

    def do_pods(self, v, step):
        for spec in as_list(v):
            for m in pod_manifests(spec):
                self.backend.apply(m)

    def do_classes(self, v, step):
        for m in class_manifests(v):
            self.backend.apply(m)

    def do_delete(self, v, step):
        for d in as_list(v):
            _known(d, {"kind", "ns", "name", "gracePeriodSeconds"}, "delete")
            for name in as_list(d["name"]):
                self.backend.delete(
                    d.get("kind", "Pod"), d.get("ns", "default"), name, d.get("gracePeriodSeconds")
                )

    def do_patch(self, v, step):
        for d in as_list(v):
            _known(d, {"kind", "ns", "name", "merge"}, "patch")
            for name in as_list(d["name"]):
                self.backend.patch(
                    d.get("kind", "Pod"), d.get("ns", "default"), name, copy.deepcopy(d["merge"])
                )

    def do_wait(self, v, step):
        time.sleep(float(v))

    def do_silence(self, v, step):
        for node in as_list(v):
            self.backend.silence(node, True)

    def do_resume(self, v, step):
        for node in as_list(v):
            self.backend.silence(node, False)

    def do_restart(self, v, step):
        self.backend.restart_scheduler(self.config)

    config = None

    def do_expect(self, v, step):
        within, hold, that = v.get("within", 10), v.get("hold", 0), v["that"]
        t0, since = time.monotonic(), None
        while True:
            snap = Snapshot(self.backend)
            why = ""
            for a in that:
                why = check(snap, a, self)
                if why:
                    why = f"{next(iter(a))}: {why}"
                    break
            broken = [invariant(snap) for invariant in INVARIANTS]
            if self.check_capacity:
                broken.append(overcommitted(snap))
            for what in filter(None, broken):
                raise ScenarioFailure(f"invariant broken: {what}")
            now = time.monotonic()
            if not why:
                since = since or now
                if now - since >= hold:
                    return
            else:
                if since is not None:
                    raise ScenarioFailure(
                        f"{why} (had been true for {now - since:.1f}s of {hold}s)"
                    )
                if now - t0 >= within:
                    raise ScenarioFailure(f"{why} (after {within}s)")
            time.sleep(self.poll)
