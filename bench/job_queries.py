"""Queries of the Join Order Benchmark's shape over the tables of ``bench.job``: cyclic joins of four to ten tables.

Each fact about a film is joined to the film and to every other fact, so that the join graph has cycles.
"""

from __future__ import annotations

from itertools import combinations

TABLE_OF = {
    "t": "title",
    "mc": "movie_companies",
    "mi": "movie_info",
    "mx": "movie_info_idx",
    "mk": "movie_keyword",
    "ci": "cast_info",
    "ml": "movie_link",
    "cc": "complete_cast",
    "ct": "company_type",
    "cn": "company_name",
    "it": "info_type",
    "it2": "info_type",
    "k": "keyword",
    "n": "name",
    "rt": "role_type",
    "kt": "kind_type",
    "lt": "link_type",
    "cct": "comp_cast_type",
}
"""The table of each alias; the first eight, the title aside, tell something of a film."""

FACTS = ("mc", "mi", "mx", "mk", "ci", "ml", "cc")

LINKS = {
    "ct": "ct.id = mc.company_type_id",
    "cn": "cn.id = mc.company_id",
    "it": "it.id = mx.info_type_id",
    "it2": "it2.id = mi.info_type_id",
    "k": "k.id = mk.keyword_id",
    "n": "n.id = ci.person_id",
    "rt": "rt.id = ci.role_id",
    "kt": "kt.id = t.kind_id",
    "lt": "lt.id = ml.link_type_id",
    "cct": "cct.id = cc.status_id",
}

_QUERIES: dict[str, tuple[str, str]] = {
    "j1": (
        "ct it mc mx t",
        "ct.kind = 'production companies' AND it.info = 'top 250 rank' AND mc.note <> '(as Metro)'",
    ),
    "j2": ("cn k mc mk t", "cn.country_code = '[de]' AND k.keyword = 'character-name-in-title'"),
    "j3": ("k mi mk t", "k.keyword = 'sequel' AND mi.info IN ('Drama', 'Horror') AND t.production_year > 1990"),
    "j4": ("it k mx mk t", "it.info = 'rating' AND k.keyword = 'superhero' AND mx.info > '5.0'"),
    "j5": ("ct it2 mc mi t", "ct.kind = 'distributors' AND it2.info = 'countries' AND t.production_year > 2005"),
    "j6": ("ci k mk n t", "k.keyword = 'murder' AND n.name LIKE 'D%' AND t.production_year > 1950"),
    "j7": ("ci n ml lt t", "lt.link = 'features' AND n.gender = 'm' AND t.production_year BETWEEN 1980 AND 1984"),
    "j8": ("ci cn mc n rt t", "cn.country_code = '[jp]' AND rt.role = 'actress' AND ci.note = '(voice)'"),
    "j9": ("ci cn mc n rt t", "cn.name = 'Studio 001234' AND n.gender = 'f' AND rt.role = 'actor'"),
    "j10": ("ci cn ct mc rt t", "ci.note = '(uncredited)' AND cn.country_code = '[se]' AND rt.role = 'editor'"),
    "j11": ("cn ct k lt mc mk ml t", "cn.country_code <> '[us]' AND k.keyword = 'sequel' AND lt.link = 'follows'"),
    "j12": ("cn ct it it2 mc mi mx t", "it.info = 'top 250 rank' AND it2.info = 'genres' AND mi.info = 'Drama'"),
    "j13": ("it kt mx t", "it.info = 'bottom 10 rank' AND kt.kind = 'movie'"),
    "j14": ("it it2 k kt mi mx mk t", "it.info = 'rating' AND k.keyword = 'murder' AND t.production_year > 2008"),
    "j15": ("cct cc it2 mi mk k t", "cct.kind = 'complete' AND it2.info = 'release dates' AND k.keyword = 'love'"),
    "j16": ("ci cn k mc mk n t", "cn.country_code = '[it]' AND k.keyword = 'based-on-novel'"),
}
"""Aliases, and what is asked besides how they are joined."""


def queries() -> dict[str, str]:
    """The queries by name.

    >>> print(queries()["j13"])
    SELECT count(*), min(t.title) FROM info_type AS it, kind_type AS kt, movie_info_idx AS mx, title AS t
    WHERE it.id = mx.info_type_id AND kt.id = t.kind_id AND t.id = mx.movie_id
    AND it.info = 'bottom 10 rank' AND kt.kind = 'movie'
    """
    return {name: _text(aliases.split(), asked) for name, (aliases, asked) in _QUERIES.items()}


def _text(aliases: list[str], asked: str) -> str:
    tables = ", ".join(f"{TABLE_OF[alias]} AS {alias}" for alias in aliases)
    facts = [alias for alias in aliases if alias in FACTS]
    joins = [LINKS[alias] for alias in aliases if alias in LINKS]
    joins += [f"t.id = {fact}.movie_id" for fact in facts]
    joins += [f"{one}.movie_id = {other}.movie_id" for one, other in combinations(facts, 2)]
    return f"SELECT count(*), min(t.title) FROM {tables}\nWHERE {' AND '.join(joins)}\nAND {asked}"
