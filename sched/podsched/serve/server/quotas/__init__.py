"""ResourceQuotas: each create is charged to them, and their usage is recounted afterwards.

``charging`` creates objects and charges them in one transaction, so that no create exceeds a quota,
even with several servers; ``growth`` charges claims that grow; ``recount`` corrects the usage when
objects are deleted, and indexes the quotas by namespace.
"""
