"""The runtime of all coordinators; the group and transaction coordinators are built on it.

    actors.py            Actors: by id, in the partitions that this node serves; look-up, loading, draining. Actor: the
                         shell around a step, with the durability gate
    log.py               the interface of a coordinator's log, and the guarantees of a store
    partitions.py        the states of the partitions of a coordinator's topic
    loading.py           the order in which partitions are loaded, in slices
    parked_responses.py  responses to parked requests
    versions.py          response versions, and responses after a failure of the log
    runtime.py           clock, timers and metrics that the coordinators of a node share

A coordinator is a subclass of Actors and one of Actor, with its own step. A step may replace its actor's state by one
of another kind: one id can have several kinds.
"""
