"""Each relative link of each page leads to a file of the repository."""

from __future__ import annotations

import re
import subprocess

from tests.structure.sources import ROOT

LINK = re.compile(r"\]\(([^)#\s]+)")


def pages() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    return listed.split()


def test_each_link_leads_to_a_file() -> None:
    if not (found := pages()):
        found = [str(path.relative_to(ROOT)) for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"))]
    assert "README.md" in found
    broken = [
        f"{page}: {target}"
        for page in found
        for target in LINK.findall((ROOT / page).read_text())
        if not re.match(r"[a-z]+:", target) and not ((ROOT / page).parent / target).exists()
    ]
    assert not broken, "\n".join(broken)
