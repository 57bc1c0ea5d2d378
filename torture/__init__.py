"""Torture: kills, bad inputs and system faults, by the thousand. ``python -m torture --help`` lists the options.

It is kept out of ``make test``: ``make torture`` takes minutes, ``make torture LONG=1`` hours. A case is fixed by the
part, the seed and its number, so that each failure can be repeated alone.
"""
