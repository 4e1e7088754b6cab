"""A client certificate's distinguished name, written as Java's X500Principal.getName() does (RFC 2253), because Kafka's
principals and mapping rules use that notation.
"""

from __future__ import annotations

from typing import Final

from cryptography import x509
from cryptography.x509.oid import NameOID

KEYWORDS: Final = {
    NameOID.COMMON_NAME: "CN",
    NameOID.COUNTRY_NAME: "C",
    NameOID.LOCALITY_NAME: "L",
    NameOID.STATE_OR_PROVINCE_NAME: "ST",
    NameOID.ORGANIZATION_NAME: "O",
    NameOID.ORGANIZATIONAL_UNIT_NAME: "OU",
    NameOID.STREET_ADDRESS: "STREET",
    NameOID.DOMAIN_COMPONENT: "DC",
    NameOID.USER_ID: "UID",
}
"""Attributes that RFC 2253 has a keyword for. Other attributes are written as numbers, their values as
hexadecimal DER.
"""

ESCAPED: Final = frozenset(',=+<>#;"\\')


def subject_of(certificate_der: bytes) -> str:
    """Return the subject of a certificate, its last part first: "CN=alice,OU=ops,O=example". Raises ValueError if the
    bytes are not a certificate.
    """
    subject = x509.load_der_x509_certificate(certificate_der).subject
    return ",".join("+".join(_written(attribute) for attribute in rdn) for rdn in reversed(subject.rdns))


def _written(attribute: x509.NameAttribute) -> str:  # type: ignore[type-arg, unused-ignore]
    keyword = KEYWORDS.get(attribute.oid)
    value = attribute.value
    if keyword is None or isinstance(value, bytes):
        raw = value if isinstance(value, bytes) else value.encode()
        return f"{keyword or attribute.oid.dotted_string}=#{(_header(attribute, len(raw)) + raw).hex()}"
    return f"{keyword}={_escaped(value)}"


def _header(attribute: x509.NameAttribute, size: int) -> bytes:  # type: ignore[type-arg, unused-ignore]
    """Return DER's tag and length."""
    tag = attribute._type.value
    if size < 0x80:
        return bytes((tag, size))
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length


def _escaped(value: str) -> str:
    escaped = ["\\00" if each == "\0" else f"\\{each}" if each in ESCAPED else each for each in value]
    leading = len(value) - len(value.lstrip(" "))
    trailing = len(value) - len(value.rstrip(" "))
    for at in (*range(leading), *range(len(value) - trailing, len(value))):
        escaped[at] = "\\ "
    return "".join(escaped)
