"""Takes the pictures of the live page in docs/images: `python -m tests.monitoring.pipeline.browser.pictures`.

A stand-in of a cluster, always the same: groups in trouble, 340 that stopped together, 28 that are well.
"""

from __future__ import annotations

import io
from dataclasses import replace

from PIL import Image

from tests.daemon import REPOSITORY
from tests.monitoring.dashboard.views import EVIL
from tests.monitoring.pipeline.browser.chromium import Tab, browser
from tests.monitoring.pipeline.browser.test_live_page import Served, busy, opened

IMAGES = REPOSITORY / "docs" / "images"
PICTURES = (
    ("live-page", "#/", 1200, 560, False, False),
    ("live-group", "#/group/stuck-payments", 1200, 800, True, True),
    ("live-phone", "#/", 390, 844, False, False),
)
"""Name, address, width, height, whether it is dark, and whether it is of the whole page."""


def take(tab: Tab, url: str, name: str, address: str, width: int, height: int, dark: bool, whole: bool) -> None:
    """Write one picture, with a palette of 256 colours: it is half as large."""
    opened(tab, f"{url}{address}", width, height, dark=dark)
    image = Image.open(io.BytesIO(tab.page.screenshot(full_page=whole))).convert("RGB")
    image.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
        IMAGES / f"{name}.png", optimize=True
    )


def main() -> None:
    served = Served()
    found = busy()
    served.view = replace(found, groups={name: each for name, each in found.groups.items() if name != EVIL})
    try:
        with browser() as tab:
            for picture in PICTURES:
                take(tab, served.url, *picture)
    finally:
        served.server.stop()


if __name__ == "__main__":
    main()
