"""The commands: `coordinatord pipeline run`, once or with `--follow`, and `pipeline at`.

update.py         from the log to tables, as often as needed, each time only what is new
follow.py         `--follow`: updates of the tables as the log grows
group_at.py       a group's committed offsets and its partitions' owners at a moment
ingest.py         a run's input, read and stored batch by batch
merging.py        merges the files of many batches
publish.py        copies the tables to another file system: --out s3a://…
state.py          OUT/state.json: the contents of the tables, and their version
events.py         changes, reported live: the shell around analysis/changes.py
delta.py          Delta tables, if Delta's package is installed
preflight.py      checks for errors before Spark is started
run_lock.py       one run at a time per directory
progress.py       the progress of a long job
"""
