"""`coordinatord pipeline report`: a run's tables as one HTML file for humans. Needs pyarrow, not Spark.

read.py     the tables' rows that the report needs
views.py    these rows as the groups that the live page shows
page.py     the HTML file: the front end of the live page with its data inside
"""
