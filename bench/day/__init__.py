"""A day of real clients: members that say what recorded clients said, with ids and offsets of their own.

`templates` reads the recordings, `member` lives as one of their clients does, `leading` is what the leader of a group
decides, `world` is what all members of a server share, `play` starts them, deploys them and reads the server's clock.
"""
