"""One more toleration: the narrowest that makes the pod fit.

Tolerations get wider in steps, and are derived from the existing taints:

    1  key, value and effect         key=dedicated, value=db, effect=NoSchedule
    2  key and effect; key and value
    3  key
    4  effect                        every taint of the effect
    5  every taint

The first step with a sufficient toleration wins, and within the step the one with most nodes. A
cordoned node counts as having the taint of its cordon.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import deepcopy
from typing import Final

import numpy as np

from podsched.api.tolerations import HARD_EFFECTS, NO_SCHEDULE, TAINT_UNSCHEDULABLE, tolerates
from podsched.ask.explain.changes.question import (
    MOST_TRIES,
    Kind,
    Question,
    Rejections,
    honours_taints,
)
from podsched.framework.plugin import Remedy
from podsched.v1 import objects_pb2 as v1
from podsched.v1.scheduling_pb2 import Change

_CORDON: Final = v1.Taint(key=TAINT_UNSCHEDULABLE, effect=NO_SCHEDULE)

Taints = frozenset[tuple[str, str, str]]


def add_toleration(question: Question) -> Change | None:
    """Return the narrowest toleration with which the pod fits; None if none is enough."""
    rejections = question.rejections
    if rejections is None:
        return None
    # Then a toleration may help on nodes that no taint rejects, too: more domains are counted.
    honoured = honours_taints(question.pod)
    untolerated = _untolerated(question, rejections, everywhere=honoured)
    tries = 0
    for step, tolerations in enumerate(_by_width({t for taints in untolerated for t in taints})):
        found: list[Change] = []
        for toleration in _worth_trying(tolerations, untolerated, everywhere=honoured):
            if tries == MOST_TRIES:
                break
            tries += 1
            change = _tried(question, toleration, step)
            if change is not None:
                found.append(change)
                if not honoured:
                    break
        if found:
            best = max(found, key=lambda change: change.nodes)
            best.smaller_possible = tries >= MOST_TRIES
            return best
    return None


def _untolerated(
    question: Question, rejections: Rejections, *, everywhere: bool
) -> dict[Taints, int]:
    """Return the sets of untolerated taints on rejected nodes, and the number of nodes of each.

    Unless ``everywhere``, only nodes that taints alone reject count.
    """
    nodes, tolerations = question.cluster.columns, question.pod.cls.spec.tolerations
    alone = rejections.by_none_but(question.with_remedy(Remedy.TAINTS))
    rows = rejections.rows if everywhere else rejections.rows[alone]
    found: dict[Taints, int] = {}
    kinds, counts = np.unique(
        np.stack([nodes.taint_set[rows], nodes.unschedulable[rows].astype(np.int32)]),
        axis=1,
        return_counts=True,
    )
    for (taint_set, cordoned), count in zip(kinds.T.tolist(), counts.tolist(), strict=True):
        taints = [t for t in nodes.taints(taint_set) if t.effect in HARD_EFFECTS]
        taints += [_CORDON] if cordoned else []
        untolerated = frozenset(
            (taint.key, taint.value, taint.effect)
            for taint in taints
            if not any(tolerates(toleration, taint) for toleration in tolerations)
        )
        found[untolerated] = found.get(untolerated, 0) + count
    return found


def _by_width(taints: Iterable[tuple[str, str, str]]) -> Iterator[list[v1.Toleration]]:
    known = sorted(taints)
    exact, partly, keys, effects = {}, {}, {}, {}
    for key, value, effect in known:
        exact[key, value, effect] = v1.Toleration(
            key=key, operator="Equal", value=value, effect=effect
        )
        partly[key, "", effect] = v1.Toleration(key=key, operator="Exists", effect=effect)
        partly[key, value, ""] = v1.Toleration(key=key, operator="Equal", value=value)
        keys[key] = v1.Toleration(key=key, operator="Exists")
        effects[effect] = v1.Toleration(operator="Exists", effect=effect)
    yield from ([*some.values()] for some in (exact, partly, keys, effects))
    if known:
        yield [v1.Toleration(operator="Exists")]


def _worth_trying(
    tolerations: Iterable[v1.Toleration], untolerated: dict[Taints, int], *, everywhere: bool
) -> Iterable[v1.Toleration]:
    """Leave out tolerations that are not enough on any node; the best come first."""
    if everywhere:
        return tolerations

    def opened_by(toleration: v1.Toleration) -> int:
        return sum(
            count
            for taints, count in untolerated.items()
            if all(tolerates(toleration, v1.Taint(key=k, value=v, effect=e)) for k, v, e in taints)
        )

    counted = [(opened_by(toleration), toleration) for toleration in tolerations]
    useful = [(count, toleration) for count, toleration in counted if count]
    useful.sort(key=lambda pair: -pair[0])
    return [toleration for _, toleration in useful]


def _tried(question: Question, toleration: v1.Toleration, step: int) -> Change | None:
    pod = deepcopy(question.pod.pod)
    pod.spec.tolerations.append(toleration)
    return question.pod_change(Kind.TOLERATION, _described(toleration), step + 1.0, pod)


def _described(toleration: v1.Toleration) -> str:
    if not toleration.key:
        of_effect = f" with effect {toleration.effect}" if toleration.effect else ""
        return f"let it tolerate every taint{of_effect}"
    wanted = toleration.key
    if toleration.operator == "Equal" and toleration.value:
        wanted += f"={toleration.value}"
    if toleration.effect:
        wanted += f":{toleration.effect}"
    return f"let it tolerate the taint {wanted}"
