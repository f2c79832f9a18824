"""Who calls, and what he may do.

``authentication`` makes an ``Identity`` of a call's certificate, ``identity`` says what that is and
where every part of the server finds it.
"""
