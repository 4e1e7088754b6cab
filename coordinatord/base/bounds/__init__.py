"""What a process keeps of what peers name and send, bounded in bytes.

mapping.py   a table keyed by peers' words: its oldest entries go when it is full
shares.py    what connections have under way at a time: whoever has most is refused when it is too much
"""
