"""`coordinatord pipeline report`: a run's tables as one HTML file for humans. Needs pyarrow and plotly, not Spark.

read.py     the tables' rows that the report needs
figures.py  the plots: members and generations over time, lag, churn, the cost of rebalances
page.py     the HTML file
"""
