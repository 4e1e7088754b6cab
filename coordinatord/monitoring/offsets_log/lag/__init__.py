"""Who is behind, without Spark: `coordinatord lag`. The same rules as the tables', in one pass over the log.

fold.py           the records of one log, folded into what the rules need: bounded by groups and partitions, not by
                  records
histories.py      the members and rebalances of the groups in it
parallel_fold.py  several processes for much to read
lag_scan.py       reads what is new in the logs and where partitions end, and has the rows of lag, status and
                  group_status
connect_retry.py  how long a broker is waited for, and what the user is told meanwhile
"""
