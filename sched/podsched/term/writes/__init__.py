"""The writes of a term: bindings, evictions, patches and events, each through an outbox.

``bind_queue`` and ``status_writer`` report outcomes later or not at all; ``gathering`` decides when
bindings are sent. ``shared_calls`` is for writes whose results a task awaits (evictions, patches of
objects), ``event_recorder`` for events, which may be lost. ``object_turns`` lets one task at a time
write an object, and ``pod_group_conditions`` writes those of PodGroups in batches
(``group_conditions``). ``extender_binding`` waits for a binding that an extender writes.

All writes but events carry the term's fence. If the fence is lost, the outbox finds that in the
results, and the task that makes the call raises ``FenceLost``, which ends the term.
"""
