"""ResourceQuotas: what a namespace may have, charged with each create and recounted afterwards.

``charging`` creates objects and charges them in one transaction, so that no create is acknowledged
that exceeds a quota, however many servers take them; ``growth`` does so with claims that come to
ask for more; ``recount`` corrects what is used when objects
go; ``namespaces`` knows which quotas there are.
"""
