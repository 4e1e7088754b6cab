"""Mistakes, each put into the code while tests run: the tests must notice each of them.

python -m tests.mutants                            all of them: what notices which
python -m tests.mutants member                     one list: see lists.py
python -m tests.mutants member "NAME" "NAME"       some of a list
"""
