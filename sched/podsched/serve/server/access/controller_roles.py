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
#: A role without its prefix, and its rules: verbs, API group, resources.
_TABLE: Final = """
attachdetach-controller
    create patch update | core | events
    get list watch | core | nodes
    list watch | core | persistentvolumeclaims persistentvolumes pods
    patch update | core | nodes/status
    create delete get list watch | storage.k8s.io | volumeattachments
    get list watch | storage.k8s.io | csidrivers csinodes

certificate-controller
    create patch update | core | events
    create | authorization.k8s.io | subjectaccessreviews
    delete get list watch | certificates.k8s.io | certificatesigningrequests
    update | certificates.k8s.io | certificatesigningrequests/approval
    update | certificates.k8s.io | certificatesigningrequests/status

clusterrole-aggregation-controller
    escalate get list patch update watch | rbac.authorization.k8s.io | clusterroles

cronjob-controller
    create patch update | core | events
    delete list watch | core | pods
    create delete get list patch update watch | batch | jobs
    get list update watch | batch | cronjobs
    update | batch | cronjobs/finalizers cronjobs/status

daemon-set-controller
    create | core | pods/binding
    create delete list patch watch | core | pods
    create patch update | core | events
    list watch | core | nodes
    create delete get list patch update watch | apps | controllerrevisions
    get list watch | apps | daemonsets
    update | apps | daemonsets/finalizers daemonsets/status

deployment-controller
    create patch update | core | events
    get list update watch | core | pods
    create delete get list patch update watch | apps | replicasets
    get list update watch | apps | deployments
    update | apps | deployments/finalizers deployments/status

device-taint-eviction-controller
    create patch update | core | events
    delete get list watch | core | pods
    patch update | core | pods/status
    get list watch | resource.k8s.io | deviceclasses resourceclaims resourceslices

disruption-controller
    create patch update | core | events
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
    create patch update | core | events
    get list watch | core | pods services

endpointslice-controller
    create patch update | core | events
    get list watch | core | nodes pods services
    update | core | services/finalizers
    create | discovery.k8s.io | endpointslices/restricted
    create delete get list update watch | discovery.k8s.io | endpointslices

endpointslicemirroring-controller
    create patch update | core | events
    get list watch | core | endpoints services
    update | core | endpoints/finalizers services/finalizers
    create | discovery.k8s.io | endpointslices/restricted
    create delete get list update watch | discovery.k8s.io | endpointslices

ephemeral-volume-controller
    create get list watch | core | persistentvolumeclaims
    create patch update | core | events
    get list watch | core | pods
    update | core | pods/finalizers

expand-controller
    create patch update | core | events
    get list patch update watch | core | persistentvolumes
    get list watch | core | persistentvolumeclaims
    patch update | core | persistentvolumeclaims/status

generic-garbage-collector
    create patch update | core | events
    delete get list patch update watch | * | *

horizontal-pod-autoscaler
    create patch update | core | events
    list watch | core | pods
    get update | apps | deployments/scale replicasets/scale statefulsets/scale
    get update | core | replicationcontrollers/scale
    get list watch | autoscaling | horizontalpodautoscalers
    update | autoscaling | horizontalpodautoscalers/status
    list watch | metrics.k8s.io | pods

job-controller
    create delete list patch watch | core | pods
    create patch update | core | events
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
    create patch update | core | events
    delete get list patch update watch | core | nodes
    delete get list watch | core | pods
    patch update | core | nodes/status pods/status

persistent-volume-binder
    create delete get list update watch | core | persistentvolumes
    create delete get list watch | core | pods
    create patch update | core | events
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
    create patch update | core | events
    get list update watch | core | persistentvolumes

pvc-protection-controller
    create patch update | core | events
    get list update watch | core | persistentvolumeclaims
    get list watch | core | pods
    update | core | persistentvolumeclaims/status

replicaset-controller
    create delete list patch watch | core | pods
    create patch update | core | events
    get list update watch | apps | replicasets
    update | apps | replicasets/finalizers replicasets/status

replication-controller
    create delete list patch watch | core | pods
    create patch update | core | events
    get list update watch | core | replicationcontrollers
    update | core | replicationcontrollers/finalizers replicationcontrollers/status

resource-claim-controller
    create patch update | core | events
    get list watch | core | pods
    patch update | core | pods/status
    update | core | pods/finalizers
    create delete get list watch | resource.k8s.io | resourceclaims
    patch update | resource.k8s.io | resourceclaims resourceclaims/binding resourceclaims/status

resourcequota-controller
    create patch update | core | events
    update | core | resourcequotas/status
    list watch | * | *

root-ca-cert-publisher
    create patch update | core | events
    create update | core | configmaps

route-controller
    create patch update | core | events
    list watch | core | nodes
    patch | core | nodes/status

selinux-warning-controller
    create patch update | core | events
    get list watch | core | persistentvolumeclaims persistentvolumes pods
    get list watch | storage.k8s.io | csidrivers

service-account-controller
    create | core | serviceaccounts
    create patch update | core | events

service-ca-cert-publisher
    create patch update | core | events
    create update | core | configmaps

service-cidrs-controller
    create patch update | core | events

service-controller
    create patch update | core | events
    get list watch | core | services
    list watch | core | nodes
    patch update | core | services/status

statefulset-controller
    create delete get patch update | core | pods
    create get list watch | core | persistentvolumeclaims
    create patch update | core | events
    delete update | core | persistentvolumeclaims
    list watch | core | pods
    update | core | pods/finalizers
    create delete get list patch update watch | apps | controllerrevisions
    get list watch | apps | statefulsets
    update | apps | statefulsets/finalizers statefulsets/status

ttl-after-finished-controller
    create patch update | core | events
    delete get list watch | batch | jobs

ttl-controller
    create patch update | core | events
    list patch update watch | core | nodes

validatingadmissionpolicy-status-controller
    create patch update | core | events

volumeattributesclass-protection-controller
    create patch update | core | events
    get list watch | core | persistentvolumeclaims persistentvolumes

system:kube-controller-manager
    create | core | secrets serviceaccounts serviceaccounts/token
    create patch update | core | events
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
    for block in _TABLE.strip().split("\n\n"):
        name, *lines = block.splitlines()
        rules = []
        for line in lines:
            verbs, group, resources = line.split("|")
            groups = ("",) if group.strip() == "core" else (group.strip(),)
            rules.append((tuple(verbs.split()), groups, tuple(resources.split())))
        if name == MANAGER:
            yield MANAGER, "", tuple(rules)
        else:
            yield f"{_PREFIX}{name}", name, tuple(rules)
