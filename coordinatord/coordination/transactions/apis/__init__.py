"""The requests of the transaction family: from the decoded request to the step of a transactional id, and back.

transactions.py  InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, WriteTxnMarkers and the admin's requests
"""
