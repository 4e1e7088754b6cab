"""Collect the pages of the site in build/pages: those of docs/, and those of other folders that mkdocs.yml names.

A page keeps its path in the repository, without `docs/`; README.md is the first page. A link to a file that is no page
of the site, such as a source, becomes its path as text. Exits with 1 if a link leads nowhere.
"""

from __future__ import annotations

import os.path
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "build" / "pages"
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
CODE = re.compile(r"(^```.*?^```|^(?: {4}[^\n]*\n)+)", re.M | re.S)


def named(nav: Any) -> list[str]:
    """The pages that a navigation names."""
    if isinstance(nav, str):
        return [nav]
    return [name for each in (nav.values() if isinstance(nav, dict) else nav) for name in named(each)]


def source(page: str) -> str:
    """The path of a page's file in the repository."""
    return "README.md" if page == "index.md" else f"docs/{page}" if (ROOT / "docs" / page).exists() else page


def rewritten(text: str, page: str, pages: dict[str, str], broken: list[str]) -> str:
    """A page's text with links that fit the site. `pages`: paths in the repository -> in the site."""

    def link(found: re.Match[str]) -> str:
        image, label, target = found.groups()
        path, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target) or not path:
            return found[0]
        meant = os.path.normpath(os.path.join(os.path.dirname(source(page)), path))
        if not (ROOT / meant).exists():
            broken.append(f"{source(page)}: {target}")
        if image or meant in pages:
            place = pages.get(meant, meant.removeprefix("docs/"))
            there = os.path.relpath(place, os.path.dirname(page) or ".")
            return f"{image}[{label}]({there}{'#' * bool(anchor)}{anchor})"
        return label if "`" in label else f"`{meant}`" if label == meant else f"{label} (`{meant}`)"

    parts = CODE.split(text)
    return "".join(part if number % 2 else LINK.sub(link, part) for number, part in enumerate(parts))


def main() -> int:
    pages = {source(page): page for page in named(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])}
    broken: list[str] = []
    shutil.rmtree(PAGES, ignore_errors=True)
    shutil.copytree(ROOT / "docs" / "images", PAGES / "images")
    for path, page in pages.items():
        (PAGES / page).parent.mkdir(parents=True, exist_ok=True)
        (PAGES / page).write_text(rewritten((ROOT / path).read_text(), page, pages, broken))
    if missing := {f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")} - pages.keys():
        broken.append(f"mkdocs.yml does not name {', '.join(sorted(missing))}")
    for line in broken:
        print(line, file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
