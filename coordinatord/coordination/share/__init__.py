"""Share groups (KIP-932).

partition/   pure: the records of a partition that a group has in delivery
"""
