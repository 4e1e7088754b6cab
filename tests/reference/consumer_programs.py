"""Random programs of both protocols; the command is that of programs.py."""

from __future__ import annotations

import sys

from tests.reference.consumer_choices import choosing
from tests.reference.consumer_player import ConsumerPlayer
from tests.reference.consumer_steps import SETTINGS, SHARED, policy, program
from tests.reference.programs import Vocabulary, main

BOTH = Vocabulary(
    "consumer", program, policy, SETTINGS, SHARED, ConsumerPlayer, choosing,
    at_once=(24, 4, 1, 1), attempts=3, quick_seeds=range(1, 31),
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(main(BOTH, sys.argv[1:]))
