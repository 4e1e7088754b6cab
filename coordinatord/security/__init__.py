"""Who a client is, and how it proves that.

principal.py     the name under which a connection acts
"""
