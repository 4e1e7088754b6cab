"""The requests of the share group family, but for those of membership.

fetch.py            ShareFetch: acquires records
acknowledge.py      ShareAcknowledge
acknowledgements.py the acknowledgements in both
reading.py          record batches for a fetch
leaders.py          the leaders that responses name
state.py            Initialize-, Read-, Write- and DeleteShareGroupState, ReadShareGroupStateSummary: between brokers,
                    to the share coordinator
"""
