"""Simulation of a group on a virtual clock: the cost of timeouts, crashes and deployments. See README.md."""
