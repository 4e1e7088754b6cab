"""Records what Kafka's own CidrUtils makes of networks and addresses: `python -m tests.server.access.record_networks`.
Needs Java 17 and Maven.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

from tests.reference.broker import kafka_libs

GOLDEN = Path(__file__).parents[2] / "golden" / "kafka-networks.json"

PATTERNS = (
    "10.0.0.0/8", "10.1.2.3/8", "010.0.0.0/8", "0.0.0.0/0", "10.0.0.1/32", "192.168.1.128/25", "300.0.0.0/8",
    "10.0.0.0/33", "10.0.0/8", "10.0.0.0/", "10.0.0.0/8/9", "/8", "a/8", "10.0.0.0/+8", "1\u0660.0.0.0/8",
    "fe80::/10", "2001:db8::1/32", "::/0", "::1/128", "::1/129", "::1/-1", "::1/x", "::1/", "g::/8", "::1/8/9",
    "::1/+8", "::ffff:10.0.0.1/104", "::10.0.0.1/104", "1:2:3/8", "fe80::1%1/64", "::",
)  # fmt: skip
HOSTS = (
    "10.0.0.1", "10.255.255.255", "11.0.0.0", "0.0.0.0", "192.168.1.127", "192.168.1.128", "fe80:0:0:0:0:0:0:1",
    "fe80:0:0:0:0:0:0:1%1", "2001:db8:0:0:0:0:0:9", "0:0:0:0:0:0:0:1", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
)  # fmt: skip

PROGRAM = """\
import org.apache.kafka.server.authorizer.internals.CidrUtils;
import java.nio.file.*;
import java.util.*;

public class Networks {
    public static void main(String[] arguments) throws Exception {
        List<String> hosts = Files.readAllLines(Path.of(arguments[1]));
        for (String pattern : Files.readAllLines(Path.of(arguments[0]))) {
            String error = "";
            try {
                CidrUtils.validate(pattern);
            } catch (IllegalArgumentException e) {
                error = e.getMessage();
            }
            StringBuilder within = new StringBuilder();
            for (String host : hosts) within.append(CidrUtils.isInRange(host, pattern) ? '1' : '0');
            System.out.println(error + "\\t" + within);
        }
    }
}
"""


def recorded() -> list[tuple[str, str | None, list[str]]]:
    """(pattern, Kafka's error or None, the hosts in the network) of each pattern."""
    return [(pattern, error, hosts) for pattern, error, hosts in json.loads(GOLDEN.read_text())]


def main() -> None:
    """Write the golden file."""
    with tempfile.TemporaryDirectory() as made:
        directory = Path(made)
        for name, text in (("Networks.java", PROGRAM), ("p", "\n".join(PATTERNS)), ("h", "\n".join(HOSTS))):
            (directory / name).write_text(text)
        command = ["java", "-Dstdout.encoding=UTF-8", "-cp", f"{kafka_libs()}/*"]
        command += [str(directory / name) for name in ("Networks.java", "p", "h")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    found = [
        [pattern, error or None, [host for host, is_in in zip(HOSTS, within, strict=True) if is_in == "1"]]
        for pattern, (error, within) in zip(PATTERNS, lines, strict=True)
    ]
    GOLDEN.write_text("[\n" + ",\n".join(json.dumps(each) for each in found) + "\n]\n")


if __name__ == "__main__":
    main()
