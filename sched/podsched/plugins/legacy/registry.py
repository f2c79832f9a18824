"""The predicates and priorities of Policy files, by name: a part of ``plugins.registry``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from podsched.framework.plugin import PluginFactory
from podsched.plugins.legacy.all_predicates import AlwaysCheckAllPredicates, GeneralPredicates
from podsched.plugins.legacy.balanced_resource_allocation import BalancedResourceAllocation
from podsched.plugins.legacy.equal import EqualPriority
from podsched.plugins.legacy.even_pods_spread import EvenPodsSpreadPriority
from podsched.plugins.legacy.image_locality import ImageLocalityPriority
from podsched.plugins.legacy.inter_pod_affinity import InterPodAffinityPriority
from podsched.plugins.legacy.least_requested import LeastRequestedPriority
from podsched.plugins.legacy.max_volume_count import (
    MaxAzureDiskVolumeCount,
    MaxCinderVolumeCount,
    MaxEBSVolumeCount,
    MaxGCEPDVolumeCount,
)
from podsched.plugins.legacy.most_requested import MostRequestedPriority
from podsched.plugins.legacy.no_disk_conflict import NoDiskConflict
from podsched.plugins.legacy.no_execute_taints import PodToleratesNodeNoExecuteTaints
from podsched.plugins.legacy.node_affinity import NodeAffinityPriority
from podsched.plugins.legacy.node_conditions import (
    CheckNodeCondition,
    CheckNodeDiskPressure,
    CheckNodeMemoryPressure,
    CheckNodePIDPressure,
)
from podsched.plugins.legacy.node_label import NodeLabelPriority
from podsched.plugins.legacy.node_label_presence import CheckNodeLabelPresence
from podsched.plugins.legacy.node_prefer_avoid_pods import NodePreferAvoidPodsPriority
from podsched.plugins.legacy.requested_to_capacity_ratio import RequestedToCapacityRatioPriority
from podsched.plugins.legacy.resource_limits import ResourceLimitsPriority
from podsched.plugins.legacy.selector_spread import (
    SelectorSpreadPriority,
    ServiceSpreadingPriority,
)
from podsched.plugins.legacy.service_affinity import CheckServiceAffinity
from podsched.plugins.legacy.service_anti_affinity import ServiceAntiAffinity
from podsched.plugins.legacy.taint_toleration import TaintTolerationPriority

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
