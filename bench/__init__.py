"""Benchmarks of sidestep, one module each; ``python -m bench`` lists them, ``python -m bench NAME`` runs one.

A benchmark module has a docstring whose first line says what it measures, ``add_arguments(parser)`` for its options,
and ``run(args)`` that measures, prints a table for people, and returns the figures as a JSON-ready dictionary. Among
its options are one for the scale, ``--sf`` or ``--rows``, and ``--seed``.
"""
