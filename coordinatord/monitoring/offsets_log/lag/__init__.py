"""The lag of groups without Spark, for `coordinatord lag`: the rules of the tables, in one pass over the log.

fold.py           the records of one log, folded into the input of the rules: bounded by groups and partitions, not by
                  records
by_key.py         the commits of a chunk by group, topic and partition
commit_arrays.py  many commits of one group and partition, at once
lag_history.py    lag over time, from such arrays
histories.py      the members and rebalances of the groups in it
parallel_fold.py  several processes, if there is much to read
lag_scan.py       reads of new records and of partitions' ends, and the rows of lag, status and group_status
connect_retry.py  the wait for a broker, and the messages to the user meanwhile
"""
