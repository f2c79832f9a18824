"""The one error of certificates and tokens."""

from __future__ import annotations


class CertificateError(Exception):
    """Certificates or tokens that cannot be made or used; the text names the file or value."""
