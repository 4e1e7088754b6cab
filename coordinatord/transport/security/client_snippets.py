"""Login settings for each family of clients, which `test.users` writes beside its certificates."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Login:
    """Data of a login. `key` is a PEM file with the user's key and certificate, if the client has to present one."""

    bootstrap: str
    protocol: str
    mechanism: str
    user: str
    password: str
    ca: str
    key: str | None

    @property
    def is_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def is_sasl(self) -> bool:
        return self.protocol.startswith("SASL")


def properties(login: Login) -> str:
    """Return `client.properties` of Java clients and Kafka's own tools."""
    lines = [f"bootstrap.servers={login.bootstrap}", f"security.protocol={login.protocol}"]
    if login.is_sasl:
        module = "plain.Plain" if login.mechanism == "PLAIN" else "scram.Scram"
        lines += [
            f"sasl.mechanism={login.mechanism}",
            f"sasl.jaas.config=org.apache.kafka.common.security.{module}LoginModule required "
            + _property(f"username={_quoted(login.user)} password={_quoted(login.password)};"),
        ]
    if login.is_tls:
        lines += ["ssl.truststore.type=PEM", f"ssl.truststore.location={_property(login.ca)}"]
    if login.key is not None:
        lines += ["ssl.keystore.type=PEM", f"ssl.keystore.location={_property(login.key)}"]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """Return a text in quotes for the JAAS setting (java.io.StreamTokenizer)."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _property(value: str) -> str:
    """Escape a value, except for its beginning, for java.util.Properties.load: characters that are not printable ASCII
    are written in UTF-16 code units, as \\uXXXX.
    """
    units = value.replace("\\", "\\\\").encode("utf-16-be", "surrogatepass")
    found = (int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2))
    return "".join(chr(unit) if 0x20 <= unit < 0x7F else f"\\u{unit:04x}" for unit in found)


def snippets(login: Login) -> str:
    """Return a page with a snippet for each family."""
    parts = [
        ("Java, Kafka's tools (`--command-config client.properties`)", "properties", properties(login)),
        ("kafka-python", "python", _kafka_python(login)),
        ("aiokafka", "python", _aiokafka(login)),
        ("confluent-kafka (librdkafka)", "python", _librdkafka(login)),
        ("franz-go", "go", _franz_go(login)),
    ]
    return "\n".join(f"## {title}\n\n```{language}\n{text}```\n" for title, language, text in parts)


def _kafka_python(login: Login) -> str:
    options = {"bootstrap_servers": login.bootstrap, "security_protocol": login.protocol}
    if login.is_sasl:
        options |= {
            "sasl_mechanism": login.mechanism,
            "sasl_plain_username": login.user,
            "sasl_plain_password": login.password,
        }
    if login.is_tls:
        options["ssl_cafile"] = login.ca
    if login.key is not None:
        options |= {"ssl_certfile": login.key, "ssl_keyfile": login.key}
    return _call("KafkaConsumer", options)


def _aiokafka(login: Login) -> str:
    options: dict[str, str] = {"bootstrap_servers": login.bootstrap, "security_protocol": login.protocol}
    if login.is_sasl:
        options |= {
            "sasl_mechanism": login.mechanism,
            "sasl_plain_username": login.user,
            "sasl_plain_password": login.password,
        }
    text = ""
    if login.is_tls:
        text = f"context = ssl.create_default_context(cafile={login.ca!r})\n"
        if login.key is not None:
            text += f"context.load_cert_chain({login.key!r})\n"
    return text + _call("AIOKafkaConsumer", options, "    ssl_context=context,\n" if login.is_tls else "")


def _librdkafka(login: Login) -> str:
    options = {"bootstrap.servers": login.bootstrap, "security.protocol": login.protocol}
    if login.is_sasl:
        options |= {
            "sasl.mechanism": login.mechanism,
            "sasl.username": login.user,
            "sasl.password": login.password,
        }
    if login.is_tls:
        options["ssl.ca.location"] = login.ca
    if login.key is not None:
        options |= {"ssl.certificate.location": login.key, "ssl.key.location": login.key}
    lines = "".join(f"    {name!r}: {value!r},\n" for name, value in options.items())
    return f"Consumer({{\n{lines}    'group.id': 'g',\n}})\n"


def _franz_go(login: Login) -> str:
    lines = [f'kgo.SeedBrokers("{login.bootstrap}"),']
    if login.is_tls:
        lines.append("kgo.DialTLSConfig(&tls.Config{RootCAs: pool}), // pool.AppendCertsFromPEM(" + f'"{login.ca}")')
    if login.is_sasl:
        user = f'User: "{login.user}", Pass: "{login.password}"'
        mechanism = {
            "PLAIN": f"plain.Auth{{{user}}}.AsMechanism()",
            "SCRAM-SHA-256": f"scram.Auth{{{user}}}.AsSha256Mechanism()",
            "SCRAM-SHA-512": f"scram.Auth{{{user}}}.AsSha512Mechanism()",
        }.get(login.mechanism, "oauth.Auth{Token: token}.AsMechanism()")
        lines.append(f"kgo.SASL({mechanism}),")
    inner = "".join(f"    {line}\n" for line in lines)
    return f"kgo.NewClient(\n{inner})\n"


def _call(name: str, options: dict[str, str], more: str = "") -> str:
    inner = "".join(f"    {key}={value!r},\n" for key, value in options.items())
    return f"{name}(\n    'orders',\n{inner}{more})\n"
