"""The predicates and priorities of Policy files, by name: a part of ``podsched.registry``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from podsched.framework.plugin import PluginFactory
from podsched.legacy.all_predicates import AlwaysCheckAllPredicates, GeneralPredicates
from podsched.legacy.balanced_resource_allocation import BalancedResourceAllocation
from podsched.legacy.equal import EqualPriority
from podsched.legacy.even_pods_spread import EvenPodsSpreadPriority
from podsched.legacy.image_locality import ImageLocalityPriority
from podsched.legacy.inter_pod_affinity import InterPodAffinityPriority
from podsched.legacy.least_requested import LeastRequestedPriority
from podsched.legacy.max_volume_count import (
    MaxAzureDiskVolumeCount,
    MaxCinderVolumeCount,
    MaxEBSVolumeCount,
    MaxGCEPDVolumeCount,
)
from podsched.legacy.most_requested import MostRequestedPriority
from podsched.legacy.no_disk_conflict import NoDiskConflict
from podsched.legacy.no_execute_taints import PodToleratesNodeNoExecuteTaints
from podsched.legacy.node_affinity import NodeAffinityPriority
from podsched.legacy.node_conditions import (
    CheckNodeCondition,
    CheckNodeDiskPressure,
    CheckNodeMemoryPressure,
    CheckNodePIDPressure,
)
from podsched.legacy.node_label import NodeLabelPriority
from podsched.legacy.node_label_presence import CheckNodeLabelPresence
from podsched.legacy.node_prefer_avoid_pods import NodePreferAvoidPodsPriority
from podsched.legacy.requested_to_capacity_ratio import RequestedToCapacityRatioPriority
from podsched.legacy.resource_limits import ResourceLimitsPriority
from podsched.legacy.selector_spread import (
    SelectorSpreadPriority,
    ServiceSpreadingPriority,
)
from podsched.legacy.service_affinity import CheckServiceAffinity
from podsched.legacy.service_anti_affinity import ServiceAntiAffinity
from podsched.legacy.taint_toleration import TaintTolerationPriority

#: name -> factory(args, handle); the predicates in the order in which they were evaluated.
LEGACY: Final[Mapping[str, PluginFactory]] = {
    "CheckNodeCondition": CheckNodeCondition,
    "GeneralPredicates": GeneralPredicates,
    "NoDiskConflict": NoDiskConflict,
    "PodToleratesNodeNoExecuteTaints": PodToleratesNodeNoExecuteTaints,
    "CheckNodeLabelPresence": CheckNodeLabelPresence,
    "CheckServiceAffinity": CheckServiceAffinity,
    "MaxEBSVolumeCount": MaxEBSVolumeCount,
    "MaxGCEPDVolumeCount": MaxGCEPDVolumeCount,
    "MaxAzureDiskVolumeCount": MaxAzureDiskVolumeCount,
    "MaxCinderVolumeCount": MaxCinderVolumeCount,
    "CheckNodeMemoryPressure": CheckNodeMemoryPressure,
    "CheckNodePIDPressure": CheckNodePIDPressure,
    "CheckNodeDiskPressure": CheckNodeDiskPressure,
    "AlwaysCheckAllPredicates": AlwaysCheckAllPredicates,
    "SelectorSpreadPriority": SelectorSpreadPriority,
    "ServiceSpreadingPriority": ServiceSpreadingPriority,
    "ServiceAntiAffinity": ServiceAntiAffinity,
    "InterPodAffinityPriority": InterPodAffinityPriority,
    "LeastRequestedPriority": LeastRequestedPriority,
    "MostRequestedPriority": MostRequestedPriority,
    "BalancedResourceAllocation": BalancedResourceAllocation,
    "RequestedToCapacityRatioPriority": RequestedToCapacityRatioPriority,
    "NodePreferAvoidPodsPriority": NodePreferAvoidPodsPriority,
    "NodeAffinityPriority": NodeAffinityPriority,
    "TaintTolerationPriority": TaintTolerationPriority,
    "ImageLocalityPriority": ImageLocalityPriority,
    "NodeLabelPriority": NodeLabelPriority,
    "EqualPriority": EqualPriority,
    "ResourceLimitsPriority": ResourceLimitsPriority,
    "EvenPodsSpreadPriority": EvenPodsSpreadPriority,
}
