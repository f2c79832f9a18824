"""Who did what: a line for each call, as Kubernetes' audit log has it.

``policy`` says (pure) which calls are written and with what, ``events`` makes an event of a call,
and ``log`` writes them in a thread of its own.
"""
