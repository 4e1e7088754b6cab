"""The requests of the share group family that brokers send to each other.

state.py  Initialize-, Read-, Write- and DeleteShareGroupState, ReadShareGroupStateSummary: to the share coordinator
"""
