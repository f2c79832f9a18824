"""Deletes objects that nothing stands for any more, in batches."""

from __future__ import annotations

from collections.abc import Sequence

from podsched.serve.client import errors
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.errors import NotFound, PreconditionFailed
from podsched.serve.client.outbox import Outbox
from podsched.v1 import api_pb2 as v1


def deletions(client: ApiClient) -> Outbox[v1.DeleteRequest]:
    """Return an outbox of deletions; objects that are gone or have changed are left alone."""

    async def send(requests: Sequence[v1.DeleteRequest]) -> Sequence[v1.BatchResult]:
        results = await client.delete_many(requests)
        for failed in map(errors.of_result, results):
            # After another write its event brings the new state. Other errors are the outbox's: it
            # sends the batch again, in which those that were deleted are not found.
            if failed is not None and not isinstance(failed, NotFound | PreconditionFailed):
                raise failed
        return results

    return Outbox(send)
