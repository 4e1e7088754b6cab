"""Committed offsets of a group.

committed.py       commit, fetch, delete, expire
fencing.py         validation of commits
commit_answers.py  responses to commits
transactional.py   commits of transactions
pending.py         offsets of open transactions
"""
