"""Save and restore the part of a scheduling state that the cluster's objects do not contain.

Decisions depend on it: among equal nodes the lowest row wins, and rows follow from the order in
which nodes came and went; among equal victims the first on the node is chosen. With a checkpoint
and the objects as of a revision, a decision can be repeated exactly elsewhere. It is plain data:

=============================  ==============================================================
``revision``, ``beyond``       everything up to the revision, and so many changes after it
``number``, ``begun_after``    of the last decision; of the last one before this state was built
``seed``, ``draws``            of the random numbers; ``rotation``: where the next search begins
``rows``, ``free``             nodes by row ("" for none); free rows, the next one last
``pods``                       by node, uids in the order in which they were placed there
``assumed``                    by uid, the nodes of pods whose bindings are not confirmed
``nominated``                  [uid, node] in their order
``evicting``                   [profile, plugin, preemptors, victims] of evictions under way, uids
=============================  ==============================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from podsched.api.objects import AnyObject, Node, Pod, object_key
from podsched.cache.pod_states import Stage
from podsched.framework.plugin import Victims
from podsched.framework.pods import PodInfo
from podsched.framework.preemption import EvictionListener
from podsched.serve.client.informer import Event, EventType
from podsched.term.cycle.preemption import Preemption
from podsched.term.state import SchedulingState


def checkpoint_of(
    state: SchedulingState,
    *,
    rotation: int,
    number: int,
    preemptions: Sequence[Preemption] = (),
) -> dict[str, Any]:
    """Return a state's checkpoint.

    ``number``: the last recorded decision's number; ``preemptions``: those under way.
    """
    columns, nominator = state.cache.columns, state.cache.nominator
    placed = {name: list(columns.pods(row)) for row, name in enumerate(columns.names)}
    return {
        "revision": state.revision,
        "beyond": state.beyond,
        "number": number,
        "seed": state.chance.seed,
        "draws": state.chance.draws,
        "rotation": rotation,
        "rows": list(columns.names),
        "free": list(columns.node_table.free_rows),
        "pods": {name: uids for name, uids in placed.items() if uids},
        "assumed": {
            uid: held.info.node_name
            for uid, held in state.cache.held.items()
            if held.stage is Stage.ASSUMED
        },
        "nominated": [[p.uid, node] for node in nominator.nodes() for p in nominator.pods(node)],
        "evicting": [
            [
                preemption.scheduler_name,
                preemption.plugin,
                [pod.uid for pod in preemption.pods],
                [victim.uid for victim in preemption.victims.pods],
            ]
            for preemption in preemptions
        ],
    }


def restore(
    state: SchedulingState, checkpoint: Mapping[str, Any], objects: Sequence[AnyObject]
) -> list[Preemption]:
    """Restore a checkpoint into an empty state, and return the preemptions under way.

    The plugins are notified of these preemptions. ``objects``: all objects as of the checkpoint's
    revision. Raises KeyError or ValueError if they do not match the checkpoint.
    """
    nodes = {item.metadata.name: item for item in objects if isinstance(item, Node)}
    pods = {item.metadata.uid: item for item in objects if isinstance(item, Pod)}
    for item in objects:
        if not isinstance(item, Node | Pod):
            _add(state, item)
    _add_nodes(state, checkpoint["rows"], checkpoint["free"], nodes)
    assumed: Mapping[str, str] = checkpoint["assumed"]
    for uids in checkpoint["pods"].values():
        for uid in uids:
            # A pod that was deleted while it is being bound has its place until that has ended.
            if uid in pods or uid not in assumed:
                _add_pod(state, pods.pop(uid), assumed.get(uid, ""))
    for uid, pod in pods.items():
        _add_pod(state, pod, assumed.get(uid, ""))
    infos = {info.uid: info for info in state.cache.cluster.pods.values()}
    for uid in infos:
        state.cache.nominator.delete(uid)
    for uid, node_name in checkpoint["nominated"]:
        state.cache.nominate(infos[uid], node_name)
    state.chance.go_to(checkpoint["draws"])
    state.revision, state.beyond = checkpoint["revision"], checkpoint["beyond"]
    begun = (_begun(state, infos, *each) for each in checkpoint.get("evicting", ()))
    return [preemption for preemption in begun if preemption is not None]


def _add(state: SchedulingState, item: AnyObject) -> None:
    kind = type(item).__name__
    state.apply(Event(EventType.ADDED, kind, object_key(item), None, item), 0.0)


def _add_nodes(
    state: SchedulingState, rows: Sequence[str], free: Sequence[int], nodes: Mapping[str, Node]
) -> None:
    """Give each node its row: occupy all rows, then free the unused ones in the right order."""
    columns = state.cache.columns
    columns.reserve(len(rows))
    placeholders = {}
    for number in range(len(rows)):
        placeholder = Node()
        placeholder.metadata.name = f"placeholder-{number}"
        placeholders[columns.add_node(placeholder)] = placeholder.metadata.name
    taken = [row for row, name in enumerate(rows) if name]
    for row in (*free, *reversed(taken)):
        columns.remove_node(placeholders[row])
    for row in taken:
        _add(state, nodes[rows[row]])


def _add_pod(state: SchedulingState, pod: Pod, assumed_on: str) -> None:
    _add(state, pod)
    info = state.cache.cluster.pods.get(object_key(pod))
    if assumed_on and info is not None and not info.node_name:
        state.cache.assume(info, assumed_on)


def _begun(
    state: SchedulingState,
    infos: Mapping[str, PodInfo],
    profile: str,
    plugin: str,
    preemptors: Sequence[str] | str,
    victims: Sequence[str],
) -> Preemption | None:
    """Tell a plugin of evictions under way, without the pods that are gone by now.

    ``preemptors`` is one uid in checkpoints written before there were groups.
    """
    listener = state.profiles[profile].plugins.get(plugin)
    uids = [preemptors] if isinstance(preemptors, str) else preemptors
    pods = tuple(infos[uid] for uid in uids if uid in infos)
    if not pods or not isinstance(listener, EvictionListener):
        return None
    left = Victims(tuple(infos[uid] for uid in victims if uid in infos))
    listener.evictions_started(pods, left)
    return Preemption(pods, "", left, plugin, listener)
