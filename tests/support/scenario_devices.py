"""Assertions about device claims (resource.k8s.io/v1), added to the engine of the scenarios.

`register`, before scenarios are loaded, adds the assertions `claim`, `claims` and `devices_differ`,
and an invariant that is checked at every poll: no device is given to two claims, except with admin
access or as a share.
"""

from __future__ import annotations

from support.scenario_engine import ASSERTIONS, INVARIANTS, _known, as_list, quantity, split_ref


def claims_of_pod(snap, ref):
    """The pod's claims by their name in the pod, and the one for extended resources; None of those
    that do not exist."""
    pod = snap.pod(ref)
    if pod is None:
        return None
    ns = pod["metadata"].get("namespace", "default")
    status = pod.get("status") or {}
    made = {
        s["name"]: s.get("resourceClaimName") for s in status.get("resourceClaimStatuses") or []
    }
    out = {}
    for c in pod["spec"].get("resourceClaims") or []:
        name = c.get("resourceClaimName") or made.get(c["name"])
        out[c["name"]] = snap.get("ResourceClaim", ns, name) if name else None
    ext = (status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName")
    if ext:
        out["<extended-resources>"] = snap.get("ResourceClaim", ns, ext)
    return out


def find(snap, v):
    """({label: claim or None}, '') or (None, why not)"""
    if "of" in v:
        cs = claims_of_pod(snap, v["of"])
        if cs is None:
            return None, f"pod {v['of']} does not exist"
        if "ref" in v:
            cs = {v["ref"]: cs.get(v["ref"])}
        if not cs:
            return None, f"pod {v['of']} has no claims"
        return {f"{v['of']}:{k}": c for k, c in cs.items()}, ""
    out = {}
    for ref in as_list(v["name"]):
        ns, name = split_ref(ref)
        out[ref] = snap.get("ResourceClaim", ns, name)
    return out, ""


def results(claim):
    return (((claim.get("status") or {}).get("allocation") or {}).get("devices") or {}).get(
        "results"
    ) or []


def device_names(claim):
    return [r["device"] for r in results(claim)]


def node_names(claim):
    """Nodes named by the allocation's node selector; None when it does not name nodes."""
    sel = ((claim.get("status") or {}).get("allocation") or {}).get("nodeSelector")
    for t in (sel or {}).get("nodeSelectorTerms") or []:
        for f in t.get("matchFields") or []:
            if f.get("key") == "metadata.name":
                return f.get("values") or []
    return None


KEYS = {
    "name",
    "of",
    "ref",
    "exists",
    "allocated",
    "devices",
    "devices_in",
    "count",
    "requests",
    "pools",
    "reserved",
    "node",
    "owner",
    "finalizer",
    "annotations",
    "labels",
    "same",
    "differ",
    "shared",
    "consumed",
    "terminating",
}


def a_claim(snap, v, ctx):
    """What must hold of claims: those of `name`, or those of the pod `of`, or its claim `ref`.

    exists, allocated (bool), devices (names, any order), devices_in (all among these), count,
    requests (of the results, in order), pools, reserved (exactly these pods), node (allocation is
    for this node; '' any node), owner (pod), finalizer (bool), terminating (bool), annotations,
    labels, shared (bool: results carry a shareID), consumed ({capacity: quantity} of the first
    result), same, differ (attribute of the devices equal, pairwise different, as published in the
    slices).
    """
    _known(v, KEYS, "claim")
    cs, why = find(snap, v)
    if cs is None:
        return why
    for label, c in cs.items():
        if v.get("exists") is False:
            if c is not None:
                return f"claim {label} exists"
            continue
        if c is None:
            return f"claim {label} does not exist"
        st, md = c.get("status") or {}, c["metadata"]
        res, names = results(c), device_names(c)
        if "allocated" in v and bool(st.get("allocation")) != v["allocated"]:
            return f"claim {label} is {'' if st.get('allocation') else 'not '}allocated ({names})"
        if "devices" in v and sorted(names) != sorted(as_list(v["devices"])):
            return f"claim {label} has the devices {names}, expected {v['devices']}"
        if "devices_in" in v and (not names or set(names) - set(v["devices_in"])):
            return f"claim {label} has the devices {names}, expected some of {v['devices_in']}"
        if "count" in v and len(names) != v["count"]:
            return f"claim {label} has {len(names)} devices, expected {v['count']}"
        if "requests" in v and [r["request"] for r in res] != as_list(v["requests"]):
            got = [r["request"] for r in res]
            return f"claim {label}: results are for {got}, expected {v['requests']}"
        if "pools" in v and [r["pool"] for r in res] != as_list(v["pools"]):
            return f"claim {label}: pools {[r['pool'] for r in res]}, expected {v['pools']}"
        if "reserved" in v:
            got = sorted(r["name"] for r in st.get("reservedFor") or [])
            if got != sorted(as_list(v["reserved"])):
                return f"claim {label} is reserved for {got}, expected {v['reserved']}"
        if "node" in v:
            n = node_names(c)
            if (v["node"] == "" and n is not None) or (v["node"] and n != [v["node"]]):
                return f"claim {label} is for the nodes {n}, expected {v['node']!r}"
        if "owner" in v:
            got = [o["name"] for o in md.get("ownerReferences") or []]
            if got != as_list(v["owner"]):
                return f"claim {label} is owned by {got}, expected {v['owner']}"
        if (
            "finalizer" in v
            and ("resource.kubernetes.io/delete-protection" in (md.get("finalizers") or []))
            != v["finalizer"]
        ):
            return f"claim {label} has the finalizers {md.get('finalizers')}"
        if "terminating" in v and bool(md.get("deletionTimestamp")) != v["terminating"]:
            return f"claim {label}: deletionTimestamp is {md.get('deletionTimestamp')}"
        for what in ("annotations", "labels"):
            for k, x in v.get(what, {}).items():
                if (md.get(what) or {}).get(k) != x:
                    return f"claim {label}: {what} are {md.get(what)}, expected {k}={x}"
        if "shared" in v and (not res or any(bool(r.get("shareID")) != v["shared"] for r in res)):
            return f"claim {label}: shareIDs are {[r.get('shareID') for r in res]}"
        if "consumed" in v:
            got = {
                k: quantity(q) for k, q in ((res or [{}])[0].get("consumedCapacity") or {}).items()
            }
            if got != {k: quantity(q) for k, q in v["consumed"].items()}:
                return f"claim {label} consumes {got}, expected {v['consumed']}"
        for what in ("same", "differ"):
            if what in v:
                vals = [str(attribute(snap, r, v[what])) for r in res]
                if not vals or len(set(vals)) != (1 if what == "same" else len(vals)):
                    return f"claim {label}: {v[what]} of {names} is {vals}"
    return ""


def attribute(snap, r, name):
    for s in snap.list("ResourceSlice"):
        sp = s["spec"]
        if sp["driver"] == r["driver"] and sp["pool"]["name"] == r["pool"]:
            for d in sp.get("devices") or []:
                if d["name"] == r["device"]:
                    at = d.get("attributes") or {}
                    return at.get(name, at.get(name.split("/")[-1]))
    return None


def a_claims(snap, v, ctx):
    """Number of claims: {ns, prefix, total, allocated, reserved}"""
    _known(v, {"ns", "prefix", "total", "allocated", "reserved"}, "claims")
    cs = [
        c
        for c in snap.list("ResourceClaim")
        if v.get("ns") in (None, c["metadata"]["namespace"])
        and c["metadata"]["name"].startswith(v.get("prefix", ""))
    ]
    got = {
        "total": len(cs),
        "allocated": sum(bool((c.get("status") or {}).get("allocation")) for c in cs),
        "reserved": sum(bool((c.get("status") or {}).get("reservedFor")) for c in cs),
    }
    for k, n in got.items():
        if k in v and v[k] != n:
            return f"claims: {k} is {n}, expected {v[k]} ({got})"
    return ""


def a_devices_differ(snap, v, ctx):
    """[claim or {of: pod, ref}, ...]: no device is in two of them, and each has one."""
    seen = {}
    for x in v:
        cs, why = find(snap, x if isinstance(x, dict) else {"name": x})
        if cs is None:
            return why
        for label, c in cs.items():
            if c is None or not results(c):
                return f"claim {label} has no devices"
            for r in results(c):
                k = (r["driver"], r["pool"], r["device"])
                if k in seen:
                    return f"device {'/'.join(k)} is in {seen[k]} and in {label}"
                seen[k] = label
    return ""


def doubly_used(snap):
    seen = {}
    for c in snap.list("ResourceClaim"):
        md = c["metadata"]
        me = f"{md['namespace']}/{md['name']}"
        for r in results(c):
            if r.get("adminAccess") or r.get("shareID"):
                continue
            k = (r["driver"], r["pool"], r["device"])
            if seen.setdefault(k, me) != me:
                return f"device {'/'.join(k)} is allocated to {seen[k]} and to {me}"
    return ""


def register():
    """Add the assertions and the invariant to the engine."""
    ASSERTIONS.update(claim=a_claim, claims=a_claims, devices_differ=a_devices_differ)
    INVARIANTS[:] = [doubly_used]
