"""Format the message that says why no node fits (kube-scheduler's ``FitError.Error``, v1.36)."""

from __future__ import annotations

from collections.abc import Mapping

#: When there is no node at all.
NO_NODES_AVAILABLE = "no nodes available to schedule pods"


def fit_error_message(
    num_all_nodes: int,
    reasons: Mapping[str, int],
    pre_filter_message: str = "",
    post_filter_message: str = "",
) -> str:
    """Return ``0/N nodes are available: ...``, each reason with its number of nodes.

    The parts are sorted as texts. ``pre_filter_message`` stands in the place of the reasons.
    """
    text = f"0/{num_all_nodes} nodes are available:"
    if pre_filter_message:
        text += f" {pre_filter_message}."
    elif reasons:
        # As in kube-scheduler, "10 ..." comes before "2 ...".
        counted = sorted(f"{count} {reason}" for reason, count in reasons.items())
        text += f" {', '.join(counted)}."
    if post_filter_message:
        text += f" {post_filter_message}"
    return text
