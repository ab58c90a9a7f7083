"""A loopback server with two toy models, and the demo that runs both benchmarks on them.

Its scores mean nothing: they show that audio, answers and verdicts travel the whole way.
"""
