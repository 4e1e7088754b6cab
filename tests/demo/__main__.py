"""`make demo`: three consumers, a killed one, a killed daemon, nothing lost. Exit code 0 only if that is so."""

from __future__ import annotations

import logging
import signal
import sys
import tempfile
from pathlib import Path

from tests.demo.narrator import Narrator
from tests.demo.story import RECORDS, Story

LOG_SHOWN_CHARACTERS = 3_000
INTERRUPTED = 130


def main() -> int:
    logging.getLogger("kafka").setLevel(logging.CRITICAL)  # its warnings would fall into the middle of the story
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # cleans up as Ctrl-C does
    narrator = Narrator()
    narrator.verdict(True, "coordinatord: three consumers, a killed one, a killed daemon, nothing lost\n")
    with tempfile.TemporaryDirectory(prefix="coordinatord-demo-") as directory:
        story = Story(narrator, Path(directory))
        try:
            story.run()
        except KeyboardInterrupt:
            narrator.verdict(False, "Interrupted.")
            return INTERRUPTED
        except Exception as failure:
            narrator.verdict(False, f"FAILED: {failure or type(failure).__name__}")
            narrator.detail("The end of the daemon's log:")
            print(story.daemon.log_tail(LOG_SHOWN_CHARACTERS))
            return 1
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not leave processes behind
            story.clean_up()
    twice = f"{story.read_twice:,} of them twice" if story.read_twice else "none of them twice"
    narrator.verdict(
        True,
        f"Every one of {RECORDS:,} records was read, {twice}; every acknowledged commit survived. "
        f"{narrator.elapsed_s:.0f} s.",
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
