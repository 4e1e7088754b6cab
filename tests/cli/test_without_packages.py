"""Commands whose packages are not installed say what to install: a plain `pip install coordinatord` has neither."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from coordinatord.cli.groups import COMMANDS as OF_GROUPS
from coordinatord.cli.topics import COMMANDS as OF_TOPICS

ARGUMENTS = {
    "groups evict": ["g", "m"],
    "groups delete-offsets": ["--topic", "orders", "g"],
    "groups reset-offsets": ["--all-topics", "--to-earliest", "g"],
}
WITHOUT = """
import json, sys
for name in ("kafka", "rich", "numpy", "pyarrow"):
    sys.modules[name] = None
from click.testing import CliRunner
from coordinatord.cli import cli
told = {}
for name, arguments in json.loads(sys.argv[1]).items():
    result = CliRunner().invoke(cli, [*name.split(), *arguments, "--bootstrap", "127.0.0.1:1"])
    told[name] = [result.exit_code, result.output, repr(result.exception)]
print(json.dumps(told))
"""


def test_each_command_for_a_cluster_says_what_it_needs(tmp_path: Path) -> None:
    written = tmp_path / "offsets.csv"
    written.write_text("g,orders,0,5\n")
    names = [f"groups {name}" for name in OF_GROUPS if name != "why"] + [f"topics {name}" for name in OF_TOPICS]
    asked = {name: ARGUMENTS.get(name, ["x"] if not name.endswith(" list") else []) for name in names}
    asked |= {"lag": [], "exporter": [], "groups import": [str(written)]}
    command = [sys.executable, "-c", WITHOUT, json.dumps(asked)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    told = json.loads(done.stdout)
    assert set(told) == set(asked)
    for name, (status, output, exception) in told.items():
        assert status == 1, (name, output, exception)
        assert exception == "SystemExit(1)", (name, output, exception)
        assert "This needs " in output, (name, output)
        assert "[lag]" in output, (name, output)
