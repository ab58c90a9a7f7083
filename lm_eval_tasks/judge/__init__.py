"""The one judge that every judged benchmark asks: questions in, verdicts or reasons out.

Nothing is imported here: the arithmetic of a benchmark needs ``judge.question``, and no client and no database with it.
"""
