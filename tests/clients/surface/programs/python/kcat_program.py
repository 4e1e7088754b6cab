"""Every mode and option of kcat, as its help lists them. KCAT names the tool; any Python runs this."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import time
from typing import Any

from surface import BOOTSTRAP, PREFIX, TIMEOUT_S, Surface, say

KCAT = os.environ["KCAT"]
ONE, ABSENT = f"{PREFIX}-one", f"{PREFIX}-absent"
TIMESTAMP = re.compile(r"^%\d\|[\d.]+\|", re.MULTILINE)
MODES = {"producer": ["-P"], "consumer": ["-C", "-G"], "metadata": ["-L"], "query": ["-Q"]}


class Refused(Exception):
    """kcat ended with an error; the text is what it said last."""


def kcat(*words: str, given: str = "") -> list[str]:
    """A run of kcat; the lines of its output."""
    settings = [f"client.id={PREFIX}", "fetch.wait.max.ms=50", "topic.message.timeout.ms=5000"]
    command = [
        KCAT,
        "-b",
        BOOTSTRAP,
        "-m",
        str(TIMEOUT_S),
        *(word for each in settings for word in ("-X", each)),
        *words,
    ]
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=2 * TIMEOUT_S, check=False)
    if done.returncode:
        last = TIMESTAMP.sub("", done.stderr).strip().splitlines()[-1]
        raise Refused(last)
    return done.stdout.splitlines()


def parts() -> dict[str, list[str]]:
    """The options of each section of the help, behind the modes that they belong to."""
    told = subprocess.run([KCAT, "-h"], capture_output=True, text=True, check=False)
    found: dict[str, list[str]] = {}
    for line in (told.stdout + told.stderr).splitlines():
        if section := re.match(r"(\w+) options.*:$", line):
            options = found.setdefault(section[1].lower(), list(MODES.get(section[1].lower(), [])))
        elif line and not line.startswith(" "):
            if found:
                break
        elif found and (option := re.match(r"  (-\w)\b", line)) and option[1] not in options:
            options.append(option[1])
    return found


def surface_of(part: str, options: list[str]) -> Surface:
    return Surface(
        part, type(part, (), dict.fromkeys(options, print)), lambda error: str(error) or type(error).__name__
    )


def produce(surface: Surface) -> None:
    def send(option: str, *words: str, case: str = "", given: str = "value\n") -> None:
        surface.call(option, lambda: kcat("-P", "-t", ONE, *words, given=given), case)

    send("-P", "-p", "0", given="".join(f"value-{number}\n" for number in range(3)))
    send("-P", "-p", "9", case="no such partition")
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        send("-z", "-z", codec, "-p", "0", case=codec)
    surface.call("-p", lambda: kcat("-P", "-t", f"{PREFIX}-random", "-p", "-1", given="value\n"))
    send("-D", "-p", "0", "-D", ";", given="a;b")
    send("-K", "-p", "0", "-K", ":", given="key:value\n")
    send("-k", "-p", "0", "-k", "key")
    send("-H", "-p", "0", "-H", "name=text")
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("first\nsecond\n")
        file.flush()
        send("-l", "-p", "0", "-l", file.name)
    send("-T", "-p", "0", "-T")
    send("-c", "-p", "0", "-c", "1", given="a\nb\n")
    send("-Z", "-p", "0", "-Z", given="\n")
    send("-X", "-p", "0", "-X", f"transactional.id={PREFIX}", case="transactional.id")
    surface.finish()


def consume(surface: Surface, began_ms: int) -> None:
    here = ["-t", ONE, "-p", "0"]
    tell = ["-f", "%p %o %k %s %h\n"]

    def read(option: str, *words: str, case: str = "", form: list[str] = tell) -> None:
        surface.call(option, lambda: kcat("-C", "-q", *here, "-e", *form, *words), case)

    read("-C")
    surface.call("-C", lambda: kcat("-C", "-q", "-t", ABSENT, "-p", "0", "-e", *tell), "no topic")
    read("-C", "-X", "isolation.level=read_committed", case="committed")
    read("-e")
    read("-f", form=["-f", "%t %S %K\n"])
    read("-c", "-c", "1")
    for start in ("beginning", "end", "2", "-1", "1000", f"s@{began_ms}", f"s@{began_ms}000", "stored"):
        case = start.replace(f"{began_ms}000", "in the future").replace(str(began_ms), "before them")
        read("-o", "-o", start, case=case)
    surface.call("-J", lambda: envelopes(kcat("-C", "-q", *here, "-e", "-J")))
    read("-s", "-s", "key=s", "-c", "1")
    read("-D", "-D", ";", form=[])
    read("-K", "-K", ":", form=[])
    read("-O", "-O", "-K", ":", form=[])
    read("-Z", "-Z", form=[])
    read("-u", "-u")
    group = ["-G", f"{PREFIX}-group", "-q", "-X", "auto.offset.reset=earliest", *tell]
    # kcat commits what it had fetched, too, when it has told enough: so it is to tell everything.
    everything = len(kcat("-C", "-q", *here, "-e", *tell))
    surface.call("-G", lambda: kcat(*group, "-c", str(everything), ONE))
    kcat("-P", "-t", ONE, "-p", "0", given="later\n")
    surface.call("-G", lambda: kcat(*group, "-X", "group.instance.id=me", "-c", "1", ONE), "what came later")
    surface.finish()


def envelopes(lines: list[str]) -> list[Any]:
    return [{name: value for name, value in json.loads(line).items() if name != "ts"} for line in lines]


def listed(*words: str) -> dict[str, Any]:
    told = json.loads("".join(kcat("-L", "-J", *words)))
    topics = [each for each in told["topics"] if each["topic"].startswith(PREFIX)]
    return {"brokers": len(told["brokers"]), "topics": sorted(topics, key=lambda each: str(each["topic"]))}


def look(surface: Surface) -> None:
    surface.call("-L", listed)
    surface.call("-t", lambda: listed("-t", ONE))
    surface.call("-t", lambda: listed("-t", ABSENT, "-X", "allow.auto.create.topics=false"), "no such topic")
    surface.finish()


def query(surface: Surface, began_ms: int) -> None:
    surface.call("-Q", lambda: kcat("-Q", "-t", f"{ONE}:0:{began_ms}"))
    surface.call("-Q", lambda: kcat("-Q", "-t", f"{ONE}:0:-1"), "the end")
    surface.call("-Q", lambda: kcat("-Q", "-t", f"{ONE}:0:-2"), "the start")
    surface.call("-Q", lambda: kcat("-Q", "-t", f"{ONE}:9:-1"), "no such partition")
    surface.call("-t", lambda: kcat("-Q", "-t", f"{ONE}:0:-1", "-t", f"{ONE}:1:{began_ms}"), "two partitions")
    surface.finish()


def main() -> None:
    found = parts()
    began_ms = int(time.time() * 1000) - 60_000
    while not any(topic["partitions"] for topic in listed("-t", ONE)["topics"]):  # the first question creates it
        time.sleep(0.05)
    produce(surface_of("producer", found["producer"]))
    consume(surface_of("consumer", found["consumer"]), began_ms)
    look(surface_of("metadata", found["metadata"]))
    query(surface_of("query", found["query"]), began_ms)
    for option in sorted(set(found["general"]) - {mode for modes in MODES.values() for mode in modes}):
        say(part="general", method=option, outcome="local", detail="a setting of the tool")


main()
