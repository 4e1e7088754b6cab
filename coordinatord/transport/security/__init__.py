"""Identity and authentication of clients.

principal.py      the name under which a connection acts
tls.py            a listener's certificates
certificates.py   the name in a client's certificate
mapping_rules.py  the principal of such a name
sasl.py           requests until a client is authenticated: the state machine of SASL
plain.py          a mechanism of SASL, as are scram.py and oauthbearer.py; jwks.py has the keys of tokens' signatures
mechanisms.py     the mechanisms of one listener; jaas.py: users in its settings
material.py       files that test.users creates: certificates, clients' configurations

A start without TLS and SASL imports principal.py alone.
"""

from typing import Final


class SecurityError(Exception):
    """Raised if a listener's security cannot be set up; the message gives the reason, in a sentence."""


MISSING: Final = "{what} the package {package}: pip install 'coordinatord[security]'"
"""Message about packages that only the extra installs."""
