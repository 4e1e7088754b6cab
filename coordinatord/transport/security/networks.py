"""Networks as hosts of ACLs: `10.0.0.0/8`, `fe80::/10`. Kafka 4.4 has them; its classes are CidrUtils, SubnetUtils and
SubnetUtils6.
"""

from __future__ import annotations

import functools
import re
from ipaddress import AddressValueError, IPv6Address
from typing import Final, NamedTuple

_IPV4: Final = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})")
_IPV4_NETWORK: Final = re.compile(_IPV4.pattern + r"/([0-9]{1,2})")
_PREFIX: Final = re.compile(r"[+-]?[0-9]{1,10}")
_CACHED: Final = 16_384


class Network(NamedTuple):
    """The first and the last address, as numbers of `bits` bits."""

    bits: int
    first: int
    last: int


def network_of(pattern: str) -> Network:
    """Parse ADDRESS/BITS, whose address may be any of the network. Raises ValueError with Kafka's message."""
    bits, address, length = _ipv6_network(pattern) if ":" in pattern else _ipv4_network(pattern)
    rest = (1 << (bits - length)) - 1
    return Network(bits, address & ~rest, address | rest)


def is_within(host: str, pattern: str) -> bool:
    """Return whether an address, as Java writes it, is of the network; False if either is not one."""
    network, address = _cached_network(pattern), _cached_address(host)
    if network is None or address is None or address[0] != network.bits:
        return False
    return network.first <= address[1] <= network.last and address != (32, 0)


@functools.lru_cache(_CACHED)
def _cached_network(pattern: str) -> Network | None:
    try:
        return network_of(pattern)
    except ValueError:
        return None


@functools.lru_cache(_CACHED)
def _cached_address(host: str) -> tuple[int, int] | None:
    try:
        return (128, _ipv6(host)) if ":" in host else (32, _ipv4(_IPV4.fullmatch(host), host))
    except ValueError:
        return None


def _ipv4(found: re.Match[str] | None, text: str) -> int:
    if found is None:
        raise ValueError(f"Could not parse [{text}]")
    address = 0
    for part in found.groups()[:4]:
        address = address << 8 | _in_range(int(part), 255)
    return address


def _ipv4_network(pattern: str) -> tuple[int, int, int]:
    found = _IPV4_NETWORK.fullmatch(pattern)
    address = _ipv4(found, pattern)
    assert found is not None
    return 32, address, _in_range(int(found[5]), 32)


def _in_range(value: int, end: int) -> int:
    if value > end:
        raise ValueError(f"Value [{value}] not in range [0,{end}]")
    return value


def _ipv6(text: str) -> int:
    try:
        address = IPv6Address(text.partition("%")[0])
    except AddressValueError:
        raise ValueError(f"Could not parse [{text}]") from None
    if address.ipv4_mapped is not None:  # an Inet4Address in Java
        raise ValueError(f"Could not parse [{text}] - not an IPv6 address")
    return int(address)


def _ipv6_network(pattern: str) -> tuple[int, int, int]:
    text, slash, prefix = pattern.partition("/")
    if not slash:
        raise ValueError(f"Could not parse [{pattern}] - missing prefix length")
    if not _PREFIX.fullmatch(prefix):
        raise ValueError(f"Could not parse [{pattern}] - invalid prefix length")
    if not 0 <= int(prefix) <= 128:
        raise ValueError(f"Could not parse [{pattern}] - prefix length must be between 0 and 128")
    return 128, _ipv6(text), int(prefix)
