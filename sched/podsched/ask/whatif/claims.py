"""Change the claims of a world's pods as controllers and plugins would.

on                       changes
a new pod                ResourceClaims are made from its templates, and claims of its ephemeral
                         volumes
a decision for a node    the patches of its PreBind plugins are written
a failed decision        the patches of PostFilter are written, or volumes of the pod's claims are
                         provisioned, and the pod is tried again
the removal of a pod     ``ask.explain.changes.claim_release``
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from typing import Final

from podsched.api.device_claims import claim_names, claim_of_template, is_for_group
from podsched.api.ephemeral_volumes import ephemeral_claim, ephemeral_volumes
from podsched.api.kinds import kind_of
from podsched.api.manifest import apply_merge_patch
from podsched.api.objects import AnyObject, Node, PersistentVolumeClaim, Pod, ResourceClaim
from podsched.api.storage_classes import default_class, names_class
from podsched.cache.objects import ClusterState
from podsched.cache.trial import Trial
from podsched.decide.runtime.plugin_calls import guarded
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.framework.plugin import CycleState, ObjectPatch
from podsched.framework.pods import PodInfo
from podsched.framework.status import SUCCESS, Status
from podsched.serve.agent.volume_index import BIND_COMPLETED
from podsched.serve.agent.volumes import (
    PROVISIONER,
    SELECTED_NODE,
    provisioned,
    topology_at,
    topology_keys,
)
from podsched.term.cycle.pre_bind import PRE_BIND_WORDING
from podsched.term.writes.bind_queue import Assignment

_CLAIM: Final = "ResourceClaim"
_TEMPLATE: Final = "ResourceClaimTemplate"
_VOLUME_CLAIM: Final = "PersistentVolumeClaim"


def with_claims(objects: Iterable[AnyObject]) -> Sequence[AnyObject]:
    """Return the objects of a cluster with the missing claims of its pods without a node."""
    cluster, found = ClusterState(), list(objects)
    for item in found:
        if not isinstance(item, Pod | Node):
            cluster.put(kind_of(item).name, item)
    for pod in [item for item in found if isinstance(item, Pod) and not item.spec.node_name]:
        made: list[AnyObject] = [*make_claims(pod, cluster), *make_volume_claims(pod, cluster)]
        for claim in made:
            cluster.put(kind_of(claim).name, claim)
        found += made
    return found


def make_claims(pod: Pod, cluster: ClusterState) -> list[ResourceClaim]:
    """Return the missing claims of a pod whose templates exist, and name them in its status.

    A claim that the pod's PodGroup declares, too, is made once for the group.
    """
    namespace, group_name = pod.metadata.namespace, pod.spec.scheduling_group.pod_group_name
    group = cluster.get("PodGroup", namespace, group_name) if group_name else None

    def find(name: str) -> ResourceClaim | None:
        return cluster.get(_CLAIM, namespace, name)

    made: list[ResourceClaim] = []
    names: dict[str, str] = {}
    for ref, name in list(claim_names(pod)):
        if not ref.resource_claim_template_name or (name and find(name) is not None):
            continue
        template = cluster.get(_TEMPLATE, namespace, ref.resource_claim_template_name)
        if template is None:
            continue
        if group is not None and is_for_group(ref, group):
            claim = claim_of_template(group, ref, template, lambda name: False)
        else:
            claim = claim_of_template(pod, ref, template, lambda name: find(name) is not None)
        names[ref.name] = claim.metadata.name
        if find(claim.metadata.name) is None:
            claim.metadata.uid = f"uid-{claim.metadata.name}-of-{pod.metadata.uid}"
            made.append(claim)
    kept = [of for of in pod.status.resource_claim_statuses if of.name not in names]
    del pod.status.resource_claim_statuses[:]
    pod.status.resource_claim_statuses.extend(kept)
    for ref_name, name in names.items():
        pod.status.resource_claim_statuses.add(name=ref_name, resource_claim_name=name)
    return made


def make_volume_claims(pod: Pod, cluster: ClusterState) -> list[PersistentVolumeClaim]:
    """Return the missing claims of a pod's ephemeral volumes."""
    made = []
    for volume in ephemeral_volumes(pod):
        claim = ephemeral_claim(pod, volume)
        meta = claim.metadata
        if cluster.get(_VOLUME_CLAIM, meta.namespace, meta.name) is not None:
            continue
        meta.uid = f"uid-{meta.name}-of-{pod.metadata.uid}"
        if not names_class(claim):
            default = default_class(cluster.list("StorageClass"))
            if default:
                claim.spec.storage_class_name = default
        made.append(claim)
    return made


def carry_out_pre_bind(
    runtime: ProfileRuntime, assignment: Assignment, cluster: ClusterState, changes: Trial
) -> Status:
    """Write the PreBind plugins' patches; return the first status that is not a success.

    The patches of a plugin that then waits for another process, such as a driver or a volume
    controller, are not written, and what Reserve has assumed stays. Raises PluginFailure.
    """
    state, pod, node = assignment.state, assignment.pod, assignment.node_name
    for named in runtime.pre_bind:
        pre_flight = named.plugin.pre_bind_pre_flight
        status = guarded(named.name, PRE_BIND_WORDING, pre_flight, state, pod, node)
        if status.skipped:
            continue
        if status.ok:
            call = named.plugin.pre_bind
            plan = guarded(named.name, PRE_BIND_WORDING, call, state, pod, node, cluster)
            plan = guarded(named.name, PRE_BIND_WORDING, plan.made)
            status = plan.status
        if not status.ok:
            return status.by(named.name)
        if not plan.patches:
            continue
        with changes.inner() as trial:
            for item in plan.creates:
                item.metadata.uid = item.metadata.uid or f"uid-of-{item.metadata.name}"
                trial.put(kind_of(item).name, item)
            if plan.created is not None:
                guarded(named.name, PRE_BIND_WORDING, plan.created)
            _patch(plan.patches, cluster, trial)
            wait = plan.wait
            if wait is None or guarded(named.name, PRE_BIND_WORDING, wait, cluster).ok:
                trial.commit()
    return SUCCESS


def write_patches(state: CycleState, cluster: ClusterState, changes: Trial) -> bool:
    """Write the patches and deletions that PostFilter put into the state; return whether any."""
    _patch(state.patches, cluster, changes)
    for deletion in state.deletions:
        changes.delete(deletion.kind, deletion.namespace, deletion.name)
    return bool(state.patches or state.deletions)


def _patch(patches: Iterable[ObjectPatch], cluster: ClusterState, changes: Trial) -> None:
    """Apply patches to existing objects; patches of pods' status are skipped: nothing reads it."""
    for patch in patches:
        found = cluster.get(patch.kind, patch.namespace, patch.name)
        if found is not None and patch.kind != "Pod":
            changes.put(patch.kind, apply_merge_patch(found, dict(patch.merge_patch)).message)


def provision(pod: PodInfo, cluster: ClusterState, changes: Trial) -> bool:
    """Provision the volumes of a pod's claims that have a selected node; return whether any.

    Until then, other pods with these claims have to go to that node, as in kube-scheduler. None is
    provisioned if the node's CSINode does not name the driver: its topology is then not known.
    """
    names = {volume.persistent_volume_claim.claim_name for volume in pod.pod.spec.volumes}
    done = False
    for name in sorted(names - {""}):
        claim = cluster.assumed(_VOLUME_CLAIM).get(pod.namespace, name)
        if claim is None or claim.spec.volume_name:
            continue
        selected = claim.metadata.annotations.get(SELECTED_NODE, "")
        node = cluster.get("Node", "", selected)
        found = cluster.get("StorageClass", "", claim.spec.storage_class_name)
        if node is None or found is None:
            continue
        keys = topology_keys(cluster.get("CSINode", "", selected), found.provisioner)
        if keys is None and found.provisioner != PROVISIONER:
            continue
        # A driver without topology reaches its volumes from everywhere.
        terms = topology_at(node, found, keys or ()) if keys or keys is None else []
        volume = provisioned(claim, found, terms or [])
        bound = deepcopy(claim)
        bound.spec.volume_name = volume.metadata.name
        bound.metadata.annotations[BIND_COMPLETED] = "yes"
        changes.put("PersistentVolume", volume)
        changes.put(_VOLUME_CLAIM, bound)
        done = True
    return done
