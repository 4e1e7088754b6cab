"""The commands: `coordinatord pipeline run`, once or with `--follow`, and `pipeline at`.

update.py     from the log to tables, as often as one likes, each time only what is new
follow.py     the same as the log grows: `--follow`
at.py         what a group had committed and who read what at a moment
ingest.py     what a run reads, as one stream that is kept batch by batch
merging.py    files of many micro-batches put together
events.py     what changes, told live: the shell around analysis/changes.py
delta.py      Delta tables, where Delta's package is there
before.py     what is wrong and can be seen before Spark is started
alone.py      one run at a time in a directory
progress.py   how far a long job is
"""
