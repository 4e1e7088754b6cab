"""What a coordinator is, whatever it coordinates; groups and transactions stand on it.

    actors.py      Actors: by id, in the partitions that this node serves; look-up, loading, draining.
                   Actor: the shell around a step, with the durability gate
    log.py         the log as a coordinator sees it, and what a store has to promise
    partitions.py  the states of a coordinators' topic's partitions
    loading.py     which partition is loaded when, in slices
    parked.py      answers to requests that were parked; refusals.py, versions.py: what answers look like
    runtime.py     what the coordinators of a node share

A tenant is a subclass of Actors and one of Actor, with a step of its own. What a step decides from may be replaced by
something of another kind in that step: one id, several kinds.
"""
