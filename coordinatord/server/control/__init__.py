"""Verbs and faults for tests, on a running coordinator: `test.control.enable`, which is never on by default.

    control.py              Control: the object that all commands call
    commands.py             every command with its parameters and its path under /test/; the OpenAPI document
    http.py                 the commands as pages of the admin port
    groups.py               a group as JSON; rebalance, expire, kick
    moves.py                moves of a group's partition away and back, and its loading state
    partition_move.py       moves of a partition to another worker, if there are several
    multi_worker_router.py  routing of commands to the worker concerned, if there are several
    transactions.py         a transaction as JSON; expire
    clock.py                jumps of the server's clock
    requests.py             replaces the router: applies faults to requests, and keeps the last requests of each client
    faults.py               selects the requests that a fault hits; pure
    null_transport.py       connections that discard their responses
    change_notifier.py      waits that end when something changes
    node.py                 the parts of the daemon that this package uses
    problems.py             errors of commands, as sentences

A verb does to the coordinator's real state what time, a client or an operator would do; the coordinator's ordinary code
produces all consequences. Everything runs on the event loop. `coordinatord.testing` calls this package from the thread
of a test, other languages call it over HTTP: both through the same commands.
"""
