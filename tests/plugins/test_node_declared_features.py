"""NodeDeclaredFeatures: what the pod needs and the node declares."""

from __future__ import annotations

from podsched.framework.events import ActionType, QueueingHint, Resource
from podsched.plugins import node_declared_features
from podsched.plugins.node_declared_features import NodeDeclaredFeatures
from support.engine_world import node, pod
from support.plugin_world import cluster, filtered, hinted, rejections

QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.SKIP


def test_a_pod_that_restarts_all_containers_needs_a_node_that_can() -> None:
    rules = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}]
    spec = {"containers": [{"name": "c", "image": "i", "restartPolicyRules": rules}]}
    able, unable = node("able"), node("unable")
    able.status.declared_features.append(node_declared_features.RESTART_ALL_CONTAINERS)
    state = cluster(able, unable)
    plugin = NodeDeclaredFeatures()
    assert rejections(plugin, pod("p", spec), state) == {"unable": (node_declared_features.REASON,)}
    assert filtered(plugin, pod("p"), state) == {}
    event = (Resource.NODE, ActionType.UPDATE_NODE_DECLARED_FEATURE)
    assert hinted(plugin, pod("p", spec), event, unable, able) is QUEUE
    assert hinted(plugin, pod("p", spec), event, able, able) is SKIP


def test_a_user_namespace_in_the_network_of_the_node_needs_a_node_that_can() -> None:
    able, unable = node("able"), node("unable")
    able.status.declared_features.append(node_declared_features.USER_NAMESPACES_HOST_NETWORK)
    state, plugin = cluster(able, unable), NodeDeclaredFeatures()
    reasons = (node_declared_features.REASON,)
    own_users = pod("p", {"hostNetwork": True, "hostUsers": False})
    assert rejections(plugin, own_users, state) == {"unable": reasons}
    for spec in ({"hostNetwork": True}, {"hostNetwork": True, "hostUsers": True}):
        assert filtered(plugin, pod("p", spec), state) == {}
    assert filtered(plugin, pod("p", {"hostUsers": False}), state) == {}
