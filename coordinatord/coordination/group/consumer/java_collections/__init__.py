"""The iteration order of Java's hash tables: Kafka's assignors go through them, so this order decides some assignments,
and the order of topics and partitions in records.

hash_map.py   java.util.HashMap, and the TimelineHashMap of Kafka's coordinator
tree_bin.py   the buckets of a HashMap that have turned into trees
java_set.py   a set that keeps such an order
"""
