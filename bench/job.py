"""A film database of the shape of IMDB's, made up: its tables, as the Join Order Benchmark joins them.

Films come in the order of their years, and what is told of them comes in batches: by kind of information, and within it
along the films. Companies and people work in one period more than in others. So a filter on a small table says
something of films, as it does in the data that the benchmark was made for.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from bench.whole_folder import whole_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Numbers = npt.NDArray[np.int64]

KINDS = ("movie", "tv series", "tv movie", "video movie", "tv mini series", "video game", "episode")
COMPANY_TYPES = ("production companies", "distributors", "special effects companies", "miscellaneous companies")
ROLES = ("actor", "actress", "producer", "writer", "cinematographer", "composer", "costume designer", "director",
         "editor", "miscellaneous crew", "production designer", "guest")  # fmt: skip
LINKS = ("follows", "followed by", "remake of", "remade as", "references", "features", "spoofs", "version of")
COUNTRIES = ("[us]", "[gb]", "[de]", "[fr]", "[jp]", "[in]", "[it]", "[ca]", "[se]", "[es]")
GENRES = ("Drama", "Comedy", "Documentary", "Horror", "Action", "Thriller", "Sci-Fi", "Western", "Musical", "Sport")
CREW = ("cast", "crew", "complete", "complete+verified")
NAMED_INFO = {1: "runtimes", 3: "genres", 8: "countries", 16: "release dates", 98: "languages"}
NAMED_INDEX = {99: "votes distribution", 100: "votes", 101: "rating", 112: "top 250 rank", 113: "bottom 10 rank"}
INFO_TYPES = 113


def job_tables(films: int, seed: int) -> dict[str, pa.Table]:
    """The tables for so many films; the same seed gives the same rows."""
    rng = np.random.default_rng(seed)
    people, companies, keywords = films // 2, films // 10, films // 10
    ids = np.arange(1, films + 1)
    years = np.sort(1890 + (125 * rng.beta(4, 1.2, films)).astype(np.int64))
    tables: dict[str, dict[str, Any]] = {
        "kind_type": {"id": _ids(len(KINDS)), "kind": list(KINDS)},
        "company_type": {"id": _ids(len(COMPANY_TYPES)), "kind": list(COMPANY_TYPES)},
        "role_type": {"id": _ids(len(ROLES)), "role": list(ROLES)},
        "link_type": {"id": _ids(len(LINKS)), "link": list(LINKS)},
        "comp_cast_type": {"id": _ids(len(CREW)), "kind": list(CREW)},
        "info_type": {"id": _ids(INFO_TYPES), "info": [_info_name(n) for n in range(1, INFO_TYPES + 1)]},
        "title": {
            "id": ids,
            "title": [f"Film {n:07d}" for n in ids],
            "kind_id": _batches(films, len(KINDS), 12, rng),
            "production_year": years,
        },
        "company_name": {
            "id": _ids(companies),
            "name": [f"{('Warner', 'Film', 'Studio', 'Polygram')[n % 4]} {n:06d}" for n in range(companies)],
            "country_code": np.array(COUNTRIES)[_batches(companies, len(COUNTRIES), 3, rng) - 1],
        },
        "keyword": {"id": _ids(keywords), "keyword": [_keyword(n) for n in range(keywords)]},
        "name": {
            "id": _ids(people),
            "name": [f"{chr(65 + n * 26 // people)}{n:07d}" for n in range(people)],
            "gender": np.array(["m", "f"])[rng.integers(0, 2, people)],
        },
    }
    films_of = _along(ids, 5 * films, rng)
    tables["movie_companies"] = {
        "movie_id": films_of,
        "company_id": _near(films_of, films, companies, rng),
        "company_type_id": _batches(len(films_of), len(COMPANY_TYPES), 8, rng),
        "note": np.array(["(presents)", "(co-production)", "(as Metro)", "(worldwide)"])[
            _batches(len(films_of), 4, 40, rng) - 1
        ],
    }
    tables["movie_info"] = _facts(films, NAMED_INFO, rng)
    tables["movie_info_idx"] = _facts(films, NAMED_INDEX, rng)
    films_of = _along(ids, 4 * films, rng)
    tables["movie_keyword"] = {"movie_id": films_of, "keyword_id": _near(films_of, films, keywords, rng)}
    films_of = _along(ids, 12 * films, rng)
    tables["cast_info"] = {
        "person_id": _near(films_of, films, people, rng),
        "movie_id": films_of,
        "role_id": _batches(len(films_of), len(ROLES), 6, rng),
        "note": np.array(["(voice)", "(uncredited)", "(producer)", "(archive footage)"])[
            _batches(len(films_of), 4, 60, rng) - 1
        ],
    }
    linked = _along(ids, films // 20, rng)
    tables["movie_link"] = {
        "movie_id": linked,
        "linked_movie_id": np.clip(linked + rng.integers(-films // 50, films // 50, len(linked)), 1, films),
        "link_type_id": _batches(len(linked), len(LINKS), 5, rng),
    }
    covered = _along(ids[: films // 3], films // 3, rng)
    tables["complete_cast"] = {
        "movie_id": covered,
        "subject_id": _batches(len(covered), 2, 4, rng),
        "status_id": 2 + _batches(len(covered), 2, 6, rng),
    }
    later = np.random.default_rng((seed, 1))  # of its own: the tables above stay as they were
    tables["cast_info"]["person_role_id"] = _near(films_of, films, people, later)
    tables["char_name"] = {"id": _ids(people), "name": [f"Character {n:07d}" for n in range(people)]}
    tables["aka_name"] = {
        "person_id": _along(_ids(people), people, later),
        "name": [f"{'abcdefgh'[n]} {number:07d}" for number, n in enumerate(later.integers(0, 8, people))],
    }
    tables["person_info"] = {
        "person_id": _along(_ids(people), 2 * people, later),
        "info_type_id": np.array(sorted(NAMED_INFO))[_batches(2 * people, len(NAMED_INFO), 6, later) - 1],
        "info": [f"{n:05d}" for n in later.integers(0, 100_000, 2 * people)],
    }
    tables["aka_title"] = {
        "movie_id": _along(ids, films // 5, later),
        "title": [f"Also {n:07d}" for n in range(films // 5)],
    }
    made = {}
    for name, columns in tables.items():
        rows = len(next(iter(columns.values())))
        made[name] = pa.table(columns if "id" in columns else {"id": _ids(rows), **columns})
    return made


def _ids(count: int) -> Numbers:
    return np.arange(1, count + 1)


def _info_name(number: int) -> str:
    return (NAMED_INFO | NAMED_INDEX).get(number, f"info {number:03d}")


def _keyword(number: int) -> str:
    names = ("character-name-in-title", "sequel", "superhero", "murder", "based-on-novel", "love")
    return names[number // 40] if number % 40 == 0 and number // 40 < len(names) else f"word-{number:06d}"


def _batches(rows: int, values: int, passes: int, rng: np.random.Generator) -> Numbers:
    """Numbers from 1, in runs along the rows, some longer than others."""
    ends = np.cumsum(rng.dirichlet(np.full(values, 1.5)))
    return np.minimum(np.searchsorted(ends, (np.arange(rows) / max(1, rows) * passes) % 1.0), values - 1) + 1


def _along(ids: Numbers, rows: int, rng: np.random.Generator) -> Numbers:
    """References to films, in their order."""
    return np.sort(rng.choice(ids, rows))


def _near(films_of: Numbers, films: int, others: int, rng: np.random.Generator) -> Numbers:
    """References to things that belong to a period: those of a film are near its own place."""
    place = films_of / films + rng.normal(0.0, 0.01, len(films_of))
    return np.clip((place * others).astype(np.int64), 0, others - 1) + 1


def _facts(films: int, named: dict[int, str], rng: np.random.Generator) -> dict[str, Any]:
    """What is told of films, kind by kind, each along the films. Rankings are of few films, of a few periods."""
    kinds, referred, texts = [], [], []
    for number, name in named.items():
        if "rank" in name:
            start = rng.integers(0, films // 2, 5)
            chosen = np.sort((start[:, None] + rng.integers(0, max(1, films // 100), (5, 50))).ravel() % films + 1)
        else:
            chosen = np.flatnonzero(rng.random(films) < 0.7) + 1
        kinds.append(np.full(len(chosen), number))
        referred.append(chosen)
        if name == "genres":
            texts += [GENRES[n - 1] for n in _batches(len(chosen), len(GENRES), 10, rng)]
        elif name == "countries":
            texts += [COUNTRIES[n - 1] for n in _batches(len(chosen), len(COUNTRIES), 10, rng)]
        elif name == "rating":
            texts += [f"{value:.1f}" for value in rng.beta(5, 3, len(chosen)) * 10]
        else:
            texts += [f"{n:05d}" for n in rng.integers(0, 100_000, len(chosen))]
    return {"movie_id": np.concatenate(referred), "info_type_id": np.concatenate(kinds), "info": texts}


def make_job(folder: Path, films: int, seed: int) -> Path:
    """The tables as folders of one file each, made if they are not there."""
    target = folder / f"job-{films}-{seed}"
    if not target.is_dir():
        with whole_folder(target) as partial:
            for name, table in job_tables(films, seed).items():
                (partial / name).mkdir()
                pq.write_table(table, partial / name / "part-0.parquet")
    return target


def register(spark: SparkSession, folder: Path) -> None:
    for path in sorted(folder.iterdir()):
        spark.read.parquet(str(path)).createOrReplaceTempView(path.name)
