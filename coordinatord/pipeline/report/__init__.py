"""`coordinatord pipeline report`: a run's tables as one HTML file for people. Needs pyarrow and plotly, not Spark."""
