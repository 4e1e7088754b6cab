"""Compatibility: today's program reads what each version has written, and writes what its own version says.

tests/golden/compat/ has a directory per format and version: `data-1` (a data directory), `ledger-1` (the records of
rebalances), `tables-3` (an OUT of `pipeline run`), each with its full content as JSON beside it. Two kinds of tests:

- every version that is checked in is read, and its content compared with what was recorded (test_*.py);
- what today's program writes for the same script is compared with the golden files of its own version. A difference
  that is meant needs a new version: increment META_VERSION, VERSION or STATE_VERSION, add the migration, and run
  `python -m tests.compat`, which writes the files of versions that have none and never touches others.
"""
