"""What pyproject.toml cannot say.

Building (a wheel, an editable install) first writes the codecs of the wire, kafka_wire/generated, from their
declarations; git does not have them.

With COORDINATORD_COMPILE=1 in the environment mypyc turns the modules of HOT into C, for a wheel (`pip wheel .`) as for
`make compiled`. They are what heartbeats, commits, joins, syncs and fetches go through; the same sources run as they
are. What mypyc makes of them differs in three ways that matter here:

- objects and classes cannot be changed from outside, nor be inherited from: tests that do are marked `interpreted`;
- arguments and attributes are checked against their annotations, and what mypy takes for known stays known: an
  attribute that a call may have changed is read before the condition that narrows it (`warn_unreachable` finds those);
- a slice of bytes that begins behind its end is a SystemError, not empty: lengths that peers say are checked before.

mypy takes `frozenset | keys of a dict` for a frozenset, which it is not.

Not among them: subclasses of construct's, Enums with fields, dataclasses that name types which only mypy imports, and
most of kafka_wire.generated. All its codecs as C take a compiler a quarter of an hour, and not all gain: those in HOT
decode in a quarter to two fifths less time; offsets' and Heartbeat's take longer to encode (bench/FINDINGS.md).
"""

import os
import sys
import tomllib
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_py import build_py

HOT = {
    "coordinatord/base": "budget",
    "coordinatord/base/clocks": "timers timer_wheel",
    "coordinatord/transport/net": "response_queue connection responses router routes write_coalescer",
    "coordinatord/broker/log": "remote_log flusher commit_batching index journal partition_log segment writer",
    "coordinatord/broker/topics": "fetch fetch_sessions partition",
    "coordinatord/coordination/group": "events replay result state",
    "coordinatord/coordination/group/classic": (
        "joining leaving members rebalance interned_metadata step subscription syncing protocol_selection"
    ),
    "coordinatord/coordination/group/consumer": (
        "group_epoch heartbeat reconcile records replay sessions state step validation"
    ),
    "coordinatord/coordination/group/consumer/assignors": "assignment_builder slices uniform",
    "coordinatord/coordination/group/consumer/java_collections": "hash_map",
    "coordinatord/coordination/group/offsets": "fencing committed pending",
    "coordinatord/coordination/runtime": ("actors parked_responses partitions runtime topic_log versions"),
    "coordinatord/coordination/service": "groups ledger ledger_writer",
    "coordinatord/coordination/service/apis": "consumer_groups find_coordinator membership offsets",
    "coordinatord/coordination/share/coordinator": "coordinator",
    "coordinatord/coordination/transactions": "coordinator",
    "coordinatord/server/fastpath": "commit_shape commits consumer_heartbeats heartbeats",
    "protocol/kafka_wire": "framing lengths",
    "protocol/kafka_wire/generated": "consumer_group_heartbeat find_coordinator join_group leave_group sync_group",
    "protocol/kafka_wire/records": "batch key_values keys offset_values",
}


def generate() -> None:
    sys.path.insert(0, str(Path(__file__).parent / "protocol"))
    from kafka_wire.generate import write

    write()


PROJECT = tomllib.loads((Path(__file__).parent / "pyproject.toml").read_text())["project"]
COMPILER = [*PROJECT["optional-dependencies"]["compile"], *PROJECT["dependencies"]]
"""What mypyc reads: the modules of HOT import the daemon's packages."""


class GenerateAndBuild(build_py):
    """Writes the codecs, then collects modules as ever."""

    def run(self) -> None:
        generate()
        super().run()


def extensions() -> list[Extension]:
    """The modules of HOT. While pip asks what the build needs, mypyc is not there yet."""
    try:
        from mypyc.build import mypycify
    except ModuleNotFoundError:
        return []
    generate()
    files = [f"{package}/{name}.py" for package, names in HOT.items() for name in names.split()]
    made: list[Extension] = mypycify(files, opt_level=os.environ.get("MYPYC_OPT_LEVEL", "2"), group_name="coordinatord")
    for each in made:
        # What only a debugger reads is nearly as much as the modules themselves. perf needs the names alone.
        each.extra_compile_args = [*each.extra_compile_args, "-g0"]
    return made


AS_C = os.environ.get("COORDINATORD_COMPILE") == "1"
hot = extensions() if AS_C else []
setup(
    ext_modules=hot,
    cmdclass={"build_py": GenerateAndBuild},
    setup_requires=COMPILER if AS_C and not hot else [],
)
