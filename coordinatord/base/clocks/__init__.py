"""Time: the daemon's one clock, and timers.

clock.py        milliseconds of the epoch that never jump and never go back
timer_wheel.py  the hierarchical timing wheel, pure: schedule, cancel, advance
timers.py       the wheel on the event loop
"""
