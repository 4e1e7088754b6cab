"""Addresses of PostgreSQL as libpq reads them, for all code that connects to it: the store, and the pipeline."""
