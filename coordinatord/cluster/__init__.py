"""Which node leads which partition, and how nodes ask each other.

nodes.py        who leads what, and where clients reach them
placement.py    which partition of a coordinators' topic an id lives in
peers.py        requests from one node to another
shared.py       what the workers of one machine see of each other's changes
"""
