"""A survey of the sky: objects with positions and magnitudes, asked for by boxes around a place that moves.

Rows arrive run by run, as stripes of the sky are scanned: along right ascension, at one declination.
"""

from __future__ import annotations

import numpy as np

from bench.outofbox_filters import Filter, OneOf, Range, both
from bench.outofbox_kinds.table import Kind, Table, Template, ask, texts

RUNS = 60
TYPES = ("GALAXY", "STAR", "UNKNOWN")


def sky(rows: int, queries: int, later: int, rng: np.random.Generator) -> Kind:
    table = _objects(rows, rng)
    train, followed = ask(_templates(rng), queries, later, rng, first="2025-02-01", days=120)
    return Kind(table, train, followed)


def _objects(rows: int, rng: np.random.Generator) -> Table:
    run = np.sort(rng.integers(0, RUNS, rows))
    stripe = rng.permutation(RUNS)[run]
    width = 90 / RUNS
    start = rng.uniform(0, 300, RUNS)[run]
    along = rng.random(rows)
    order = np.lexsort((along, run))
    along = along[order]
    camcol = rng.integers(0, 6, rows)
    ra = (start + along * rng.uniform(40, 180, RUNS)[run]) % 360
    dec = -20 + (stripe + (camcol + rng.random(rows)) / 6) * width
    kind = rng.choice(3, rows, p=[0.55, 0.42, 0.03])
    r = 23 - rng.gamma(2.0, 1.25, rows)
    colour = rng.normal(np.array([0.75, 0.5, 0.6])[kind], 0.25)
    magnitudes = {
        "u": r + 2.2 * colour + rng.normal(0.5, 0.3, rows),
        "g": r + colour,
        "r": r,
        "i": r - 0.4 * colour + rng.normal(0, 0.05, rows),
        "z": r - 0.6 * colour + rng.normal(0, 0.08, rows),
    }
    return Table(
        "sky",
        {
            "object_id": rng.permutation(np.int64(1 << 50) + np.arange(rows)),
            "ra": np.round(ra, 6),
            "dec": np.round(dec, 6),
            **{name: np.round(values, 3) for name, values in magnitudes.items()},
            "type": texts(TYPES, kind),
            "run": (94 + 13 * run).astype(np.int32),
            "camcol": (camcol + 1).astype(np.int32),
            "field": (11 + along * 400).astype(np.int32),
            "mjd": (51_000 + 40 * run + rng.integers(0, 2, rows)).astype(np.int32),
            "clean": (rng.random(rows) < 0.8).astype(np.int32),
            "extinction": np.round(rng.gamma(2, 0.06, rows), 4),
            "radius": np.round(rng.lognormal(0.5, 0.6, rows), 3),
            "redshift": np.round(np.where(kind == 0, rng.gamma(2, 0.15, rows), rng.normal(0, 0.001, rows)), 5),
        },
    )


def _templates(rng: np.random.Generator) -> dict[str, Template]:
    def box(passed: float, degrees: float) -> Filter:
        """A box about where the survey's users look now: they move along the sky as the log goes on."""
        ra = float(np.clip(30 + 260 * passed + rng.normal(0, 12), 0, 358))
        dec = float(np.clip(5 + 35 * np.sin(5 * passed) + rng.normal(0, 8), -19, 68))
        return both(
            Range("ra", round(ra, 3), round(ra + degrees / max(0.3, np.cos(np.radians(dec))), 3)),
            Range("dec", round(dec, 3), round(dec + degrees, 3)),
        )

    def cut(band: str, low: float, high: float, step: float) -> Filter:
        faintest = round(float(rng.uniform(low, high)), 1)
        return Range(band, round(faintest - step, 1), faintest)

    galaxy = OneOf("type", ("GALAXY",))
    clean = OneOf("clean", (1,))
    return {
        "small box": Template(lambda at: box(at, float(rng.choice([0.5, 1, 2]))), "avg(r) AS mean", "type"),
        "galaxies in a box": Template(lambda at: both(box(at, 5), galaxy, clean), "avg(g) AS mean"),
        "bright in a box": Template(
            lambda at: both(box(at, 8), Range("r", high=round(float(rng.uniform(16, 18)), 1), below=True)),
            "min(r) AS best",
        ),
        "targets": Template(lambda _: both(galaxy, clean, Range("r", high=17.77, below=True)), "avg(redshift) AS mean"),
        "magnitudes": Template(lambda _: both(cut("r", 16, 20, 0.5), OneOf("type", ("STAR",))), "avg(g) AS mean"),
        "redshifts": Template(
            lambda _: both(Range("redshift", low=float(rng.choice([0.8, 1.0, 1.2]))), clean), "avg(i) AS mean"
        ),
        "field of a run": Template(
            lambda _: both(
                OneOf("run", (94 + 13 * int(rng.integers(0, RUNS)),)),
                OneOf("camcol", (int(rng.integers(1, 7)),)),
                Range("field", start := int(rng.integers(11, 380)), start + 20),
            ),
            "avg(r) AS mean",
        ),
        "unknown": Template(lambda _: both(OneOf("type", ("UNKNOWN",)), cut("g", 17, 21, 1.0)), "avg(radius) AS mean"),
    }
