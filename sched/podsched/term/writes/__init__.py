"""What a term writes, through one kind of outbox each: bindings, evictions, patches, events.

``bind_queue`` and ``status_writer`` send what is submitted, ``shared_calls`` what somebody waits
for (evictions, patches of objects), ``event_recorder`` what may be lost. All but events carry the
term's fence. A lost fence is raised as ``FenceLost`` where a call is made, and ends the term.
"""
