import pytest

from podsched.api import trace_context

ONE, OTHER = (f"00-{digit * 32}-{digit * 16}-01" for digit in "ab")


@pytest.mark.parametrize("context", ["", ONE, trace_context.joined([ONE, OTHER])])
def test_metadata_carry_the_contexts_of_a_call(context: str) -> None:
    assert trace_context.of_metadata(trace_context.to_metadata(context)) == context


def test_others_see_one_traceparent_alone() -> None:
    metadata = trace_context.to_metadata(trace_context.joined([ONE, "", OTHER, ONE]))
    assert [value for key, value in metadata if key == "traceparent"] == [ONE]


def test_a_call_about_many_traced_pods_carries_a_bounded_number_of_contexts() -> None:
    many = trace_context.joined(f"00-{n:032x}-{n:016x}-01" for n in range(1, 1000))
    assert len(trace_context.contexts(many)) == trace_context.MOST_CONTEXTS
    assert len(str(trace_context.to_metadata(many))) < 4096


def test_a_pod_keeps_its_context_and_when_it_was_admitted() -> None:
    annotations: dict[str, str] = {}
    trace_context.annotate(annotations, ONE, 1_700_000_000_123_456_789)
    assert trace_context.context_of(annotations) == ONE
    assert trace_context.admitted_at(annotations) == 1_700_000_000_123_456_789


def test_a_context_that_the_manifest_has_stays() -> None:
    annotations = {trace_context.TRACEPARENT_ANNOTATION: OTHER}
    trace_context.annotate(annotations, ONE, 1)
    assert trace_context.context_of(annotations) == OTHER
    assert trace_context.admitted_at(annotations) == 0


@pytest.mark.parametrize("state", ["podsched=tx", "other=t5", "podsched=t" + "9" * 40, "\0"])
def test_a_time_that_cannot_be_read_counts_as_none(state: str) -> None:
    annotations = {trace_context.TRACESTATE_ANNOTATION: state}
    assert trace_context.admitted_at(annotations) == 0


def test_the_trace_of_a_context_is_its_second_part() -> None:
    assert trace_context.trace_id(trace_context.joined([ONE, OTHER])) == "a" * 32
    assert trace_context.trace_id("nonsense") == ""
