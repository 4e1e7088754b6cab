"""A certificate's subject, as Java writes it."""

from __future__ import annotations

import base64
import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from coordinatord.transport.security.certificates import subject_of

# (the subject's DER, X500Principal.getName() of Java 17)
RECORDED = [
    (
        "MGYxCzAJBgNVBAYTAlVTMQswCQYDVQQIEwJDYTENMAsGA1UEBxMEQ2l0eTEZMBcGA1UEChMQU3VuIE1pY3Jvc3lzdGVtczERMA8GA1UECxMISm"
        "F2YVNvZnQxDTALBgNVBAMTBGR1a2U=",
        "CN=duke,OU=JavaSoft,O=Sun Microsystems,L=City,ST=Ca,C=US",
    ),
    ("MCkxCjAIBgNVBAoTAXgxGzAZBgNVBAMMEmEsYitjPGQ+ZSNmO2dcaCI9aQ==", r"CN=a\,b\+c\<d\>e\#f\;g\\h\"\=i,O=x"),
    (
        "MCgxCjAIBgNVBAMTAXkxGjAYBgkqhkiG9w0BCQEWC2Zvb0BiYXIuY29t",
        "1.2.840.113549.1.9.1=#160b666f6f406261722e636f6d,CN=y",
    ),
    (
        "MFgxCjAIBgNVBAkTAXMxETAPBgoJkiaJk/IsZAEBEwF1MRMwEQYKCZImiZPyLGQBGRYDY29tMRIwEAYKCZImiZPyLGQBGRYCZXgxDjAMBgNVBA"
        "MMBUvDpHNl",
        "CN=Käse,DC=ex,DC=com,UID=u,STREET=s",
    ),
    ("MCIxCzAJBgNVBAoMAiN4MRMwEQYDVQQDEwpsZWFkIHRyYWls", r"CN=lead trail,O=\#x"),
    ("MCIxCjAIBgNVBAoTAXoxFDAIBgNVBAMTAWEwCAYDVQQLEwFi", "CN=a+OU=b,O=z"),
    (
        "MCkxDjAMBgNVBAwTBXRpdGxlMQowCAYDVQQDEwFxMQswCQYDVQQFEwIxMg==",
        "2.5.4.5=#13023132,CN=q,2.5.4.12=#13057469746c65",
    ),
]


def certificate_with(subject_der: bytes) -> bytes:
    """A certificate whose subject is this DER, byte for byte."""
    stand_in = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "x" * 8)])
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime(2026, 1, 1)
    issuer = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "authority")])
    built = (
        x509.CertificateBuilder()
        .subject_name(stand_in)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    der = built.public_bytes(serialization.Encoding.DER)
    old = stand_in.public_bytes()
    assert der.count(old) == 1
    # The lengths around it grow by as much.
    grown = len(subject_der) - len(old)
    return _with_lengths(der.replace(old, subject_der), grown)


def _with_lengths(der: bytes, grown: int) -> bytes:
    """`der` with the lengths of the certificate and of what is signed corrected."""

    def length(at: int) -> tuple[int, int]:
        first = der[at + 1]
        if first < 0x80:
            return first, 2
        count = first & 0x7F
        return int.from_bytes(der[at + 2 : at + 2 + count], "big"), 2 + count

    def header(size: int) -> bytes:
        if size < 0x80:
            return bytes((0x30, size))
        return bytes((0x30, 0x81, size)) if size < 0x100 else b"\x30\x82" + size.to_bytes(2, "big")

    _, outer_head = length(0)
    inner_size, inner_head = length(outer_head)
    inner = header(inner_size + grown) + der[outer_head + inner_head : outer_head + inner_head + inner_size + grown]
    rest = der[outer_head + inner_head + inner_size + grown :]
    return header(len(inner + rest)) + inner + rest


@pytest.mark.parametrize(("subject", "name"), RECORDED)
def test_a_subject_is_written_as_java_writes_it(subject: str, name: str) -> None:
    assert subject_of(certificate_with(base64.b64decode(subject))) == name


def test_what_is_no_certificate_is_an_error() -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # cryptography's words change
        subject_of(b"no certificate")
