"""The fuzzer: random tables with a history, random SQL over them, and oracles that must agree whatever was skipped.

``python -m tests.fuzz --seconds 60 --seed 1`` looks for a difference, makes it small, and writes it to
``tests/fixtures/fuzz`` as a case that every later run of the tests repeats. ``make fuzz`` runs it for longer.
"""
