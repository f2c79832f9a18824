"""What a term writes: bindings, evictions, statuses and events, in batches."""
