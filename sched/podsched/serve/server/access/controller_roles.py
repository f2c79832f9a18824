"""The roles of kube-controller-manager's controllers, for ``--use-service-account-credentials``.

Each controller then has the ServiceAccount of its name in ``kube-system``. Source:
plugin/pkg/auth/authorizer/rbac/bootstrappolicy/controller_policy.go of Kubernetes v1.36, without
the kinds that are not served here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

MANAGER: Final = "system:kube-controller-manager"
_PREFIX: Final = "system:controller:"
#: What each of them may do beside the rules below, except those that report nothing.
_EVENTS: Final = (("create", "patch", "update"), ("",), ("events",))
_SILENT: Final = (
    "clusterrole-aggregation-controller",
    "legacy-service-account-token-cleaner",
    "namespace-controller",
    "pod-garbage-collector",
)
#: A role without its prefix, and its rules: verbs, API group, resources.
_TABLE: Final = """
attachdetach-controller
    get list watch | core | nodes
    list watch | core | persistentvolumeclaims persistentvolumes pods
    patch update | core | nodes/status
    create delete get list watch | storage.k8s.io | volumeattachments
    get list watch | storage.k8s.io | csidrivers csinodes
certificate-controller
    create | authorization.k8s.io | subjectaccessreviews
    delete get list watch | certificates.k8s.io | certificatesigningrequests
    update | certificates.k8s.io | certificatesigningrequests/approval
    update | certificates.k8s.io | certificatesigningrequests/status
clusterrole-aggregation-controller
    escalate get list patch update watch | rbac.authorization.k8s.io | clusterroles
cronjob-controller
    delete list watch | core | pods
    create delete get list patch update watch | batch | jobs
    get list update watch | batch | cronjobs
    update | batch | cronjobs/finalizers cronjobs/status
daemon-set-controller
    create | core | pods/binding
    create delete list patch watch | core | pods
    list watch | core | nodes
    create delete get list patch update watch | apps | controllerrevisions
    get list watch | apps | daemonsets
    update | apps | daemonsets/finalizers daemonsets/status
deployment-controller
    get list update watch | core | pods
    create delete get list patch update watch | apps | replicasets
    get list update watch | apps | deployments
    update | apps | deployments/finalizers deployments/status
device-taint-eviction-controller
    delete get list watch | core | pods
    patch update | core | pods/status
    get list watch | resource.k8s.io | deviceclasses resourceclaims resourceslices
disruption-controller
    get list watch | core | replicationcontrollers
    patch update | core | pods/status
    get | apps | deployments/scale replicasets/scale statefulsets/scale
    get | core | replicationcontrollers/scale
    get list watch | apps | deployments replicasets statefulsets
    get list watch | policy | poddisruptionbudgets
    update | policy | poddisruptionbudgets/status
endpoint-controller
    create | core | endpoints/restricted
    create delete get list update watch | core | endpoints
    get list watch | core | pods services
endpointslice-controller
    get list watch | core | nodes pods services
    update | core | services/finalizers
    create | discovery.k8s.io | endpointslices/restricted
    create delete get list update watch | discovery.k8s.io | endpointslices
endpointslicemirroring-controller
    get list watch | core | endpoints services
    update | core | endpoints/finalizers services/finalizers
    create | discovery.k8s.io | endpointslices/restricted
    create delete get list update watch | discovery.k8s.io | endpointslices
ephemeral-volume-controller
    create get list watch | core | persistentvolumeclaims
    get list watch | core | pods
    update | core | pods/finalizers
expand-controller
    get list patch update watch | core | persistentvolumes
    get list watch | core | persistentvolumeclaims
    patch update | core | persistentvolumeclaims/status
generic-garbage-collector
    delete get list patch update watch | * | *
horizontal-pod-autoscaler
    list watch | core | pods
    get update | apps | deployments/scale replicasets/scale statefulsets/scale
    get update | core | replicationcontrollers/scale
    get list watch | autoscaling | horizontalpodautoscalers
    update | autoscaling | horizontalpodautoscalers/status
    list watch | metrics.k8s.io | pods
job-controller
    create delete list patch watch | core | pods
    get list patch update watch | batch | jobs
    update | batch | jobs/finalizers jobs/status
legacy-service-account-token-cleaner
    get | core | configmaps
    delete patch | core | secrets
namespace-controller
    delete get list watch | core | namespaces
    update | core | namespaces/finalize namespaces/status
    delete deletecollection get list watch | * | *
node-controller
    delete get list patch update watch | core | nodes
    delete get list watch | core | pods
    patch update | core | nodes/status pods/status
persistent-volume-binder
    create delete get list update watch | core | persistentvolumes
    create delete get list watch | core | pods
    get list update watch | core | persistentvolumeclaims
    list watch | core | nodes
    update | core | persistentvolumeclaims/status persistentvolumes/status
    watch | core | events
    get list watch | storage.k8s.io | storageclasses
pod-garbage-collector
    delete list watch | core | pods
    get list watch | core | nodes
    patch | core | pods/status
pv-protection-controller
    get list update watch | core | persistentvolumes
pvc-protection-controller
    get list update watch | core | persistentvolumeclaims
    get list watch | core | pods
    update | core | persistentvolumeclaims/status
replicaset-controller
    create delete list patch watch | core | pods
    get list update watch | apps | replicasets
    update | apps | replicasets/finalizers replicasets/status
replication-controller
    create delete list patch watch | core | pods
    get list update watch | core | replicationcontrollers
    update | core | replicationcontrollers/finalizers replicationcontrollers/status
resource-claim-controller
    get list watch | core | pods
    patch update | core | pods/status
    update | core | pods/finalizers
    create delete get list watch | resource.k8s.io | resourceclaims
    patch update | resource.k8s.io | resourceclaims resourceclaims/binding resourceclaims/status
resourcequota-controller
    update | core | resourcequotas/status
    list watch | * | *
root-ca-cert-publisher
    create update | core | configmaps
route-controller
    list watch | core | nodes
    patch | core | nodes/status
selinux-warning-controller
    get list watch | core | persistentvolumeclaims persistentvolumes pods
    get list watch | storage.k8s.io | csidrivers
service-account-controller
    create | core | serviceaccounts
service-ca-cert-publisher
    create update | core | configmaps
service-cidrs-controller
service-controller
    get list watch | core | services
    list watch | core | nodes
    patch update | core | services/status
statefulset-controller
    create delete get patch update | core | pods
    create get list watch | core | persistentvolumeclaims
    delete update | core | persistentvolumeclaims
    list watch | core | pods
    update | core | pods/finalizers
    create delete get list patch update watch | apps | controllerrevisions
    get list watch | apps | statefulsets
    update | apps | statefulsets/finalizers statefulsets/status
ttl-after-finished-controller
    delete get list watch | batch | jobs
ttl-controller
    list patch update watch | core | nodes
validatingadmissionpolicy-status-controller
volumeattributesclass-protection-controller
    get list watch | core | persistentvolumeclaims persistentvolumes
system:kube-controller-manager
    create | core | secrets serviceaccounts serviceaccounts/token
    delete | core | secrets
    get | core | configmaps namespaces secrets serviceaccounts
    update | core | secrets serviceaccounts
    list watch | * | *
    create | authentication.k8s.io | tokenreviews
    create | authorization.k8s.io | subjectaccessreviews
    create | coordination.k8s.io | leases
"""

#: Verbs, API groups, resources.
Rule = tuple[Sequence[str], Sequence[str], Sequence[str]]


def controller_roles() -> Iterator[tuple[str, str, tuple[Rule, ...]]]:
    """Yield each ClusterRole, its ServiceAccount ("" for the manager's own), and its rules."""
    rules: dict[str, list[Rule]] = {}
    for line in _TABLE.strip().splitlines():
        if not line.startswith(" "):
            own = rules[line] = [] if line in _SILENT else [_EVENTS]
            continue
        verbs, group, resources = line.split("|")
        groups = ("",) if group.strip() == "core" else (group.strip(),)
        own.append((tuple(verbs.split()), groups, tuple(resources.split())))
    for name, found in rules.items():
        is_manager = name == MANAGER
        yield name if is_manager else _PREFIX + name, "" if is_manager else name, tuple(found)
