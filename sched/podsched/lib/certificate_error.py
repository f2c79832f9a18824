"""The error for unusable certificates and tokens, apart so that importing it needs no library."""

from __future__ import annotations


class CertificateError(Exception):
    """A certificate or token cannot be created or used; the message names the file or value."""
