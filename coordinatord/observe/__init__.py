"""What operators see: log lines (`logs.py`), metrics (`metrics.py`, exported by `exposition.py`), health
(`health.py`) and the admin port (`admin.py`).
"""
