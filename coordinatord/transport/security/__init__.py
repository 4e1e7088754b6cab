"""Who a client is, and how it proves that.

principal.py      the name under which a connection acts
tls.py            a listener's certificates
certificates.py   the name in a client's certificate; mapping_rules.py: what principal that is
sasl.py           what is said until a client has proved who it is: the state machine of SASL
plain.py          its mechanisms, with scram.py and oauthbearer.py; jwks.py: the keys of tokens' signatures
mechanisms.py     the mechanisms of one listener; jaas.py: users in its settings
material.py       what test.users makes: certificates, clients' configurations

A start without TLS and SASL imports principal.py alone.
"""

from typing import Final


class SecurityError(Exception):
    """A listener's security cannot be set up; the message says why, in a sentence."""


MISSING: Final = "{what} the package {package}: pip install 'coordinatord[security]'"
"""For what is installed with the extra alone."""
