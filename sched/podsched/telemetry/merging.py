"""Merge the metrics of several processes into one text, in Prometheus' format."""

from __future__ import annotations

from collections.abc import Mapping


def merged(texts: Mapping[str, str], label: str) -> str:
    """Return one text with the samples of all texts, each with a label for the text it is from.

    ``texts``: the output of ``MetricRegistry.render`` by process name, which becomes the value of
    ``label``. A metric's samples stay together, after its HELP and TYPE, as the format demands.
    """
    heads: dict[str, list[str]] = {}
    samples: dict[str, list[str]] = {}
    for name, text in texts.items():
        metric = ""
        for line in text.splitlines():
            if line.startswith("# "):
                _, kind, metric, *_ = line.split(" ", 3)
                known = heads.setdefault(metric, [])
                if not any(other.startswith(f"# {kind} ") for other in known):
                    known.append(line)
            elif line:
                samples.setdefault(metric, []).append(_labelled(line, f'{label}="{name}"'))
    return "".join(
        f"{line}\n" for metric, head in heads.items() for line in (*head, *samples.get(metric, ()))
    )


def _labelled(sample: str, label: str) -> str:
    name, brace, rest = sample.partition("{")
    if brace:
        return f"{name}{{{label}{'' if rest.startswith('}') else ','}{rest}"
    name, _, value = sample.partition(" ")
    return f"{name}{{{label}}} {value}"
