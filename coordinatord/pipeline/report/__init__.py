"""`coordinatord pipeline report`: a run's tables as one HTML file for people. Needs pyarrow and plotly, not Spark.

read.py      what the report needs of the tables, as plain rows
figures.py   the plots: members and generations in time, lag, churn, what rebalances cost
page.py      the HTML file
"""
