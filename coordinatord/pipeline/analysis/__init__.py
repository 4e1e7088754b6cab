"""What the tables say of a group, as plain functions of plain rows: without Spark, so that a person can try them and
the quick tests can test them. The tables (`pipeline/tables`) apply them to each group.
"""
