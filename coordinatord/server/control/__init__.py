"""Verbs and faults for tests, on a running coordinator: `test.control.enable`, which is never on by default.

    control.py              Control: what all commands work on, and the one door to them
    commands.py             every command with its parameters and its place under /test/; the OpenAPI document
    http.py                 the commands as pages of the admin port
    groups.py               what a group looks like; rebalance, expire, kick
    moves.py                a partition of groups moves away and back, or is being loaded
    partition_move.py       where there are several workers: it moves to another one
    multi_worker_router.py  the commands where there are several workers: each goes where it belongs
    transactions.py         what a transaction looks like; expire
    clock.py                the server's clock jumps
    requests.py             stands before the router: requests meet faults, and the last ones are remembered
    faults.py               which requests meet a fault, and how often; pure
    null_transport.py       connections whose answers nobody reads
    change_notifier.py      waits, woken by what changes
    node.py                 what all this needs of the daemon
    problems.py             what is wrong with a command, as a sentence

A verb does to the coordinator's real state what time, a client or an operator would do; what follows from it follows
by itself. Everything runs on the event loop. `coordinatord.testing` calls it from the thread of a test, and other
languages over HTTP: both through the same commands.
"""
