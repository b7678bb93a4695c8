"""Queries of the shape of all 113 of the Join Order Benchmark: its 33 families of joins, with filters of our own.

A family is a set of tables and how they are joined: facts about a film are joined with the film and with each other, so
that join graphs have cycles, and what explains a fact (a company, a keyword, a kind of information) with the fact. The
members of a family differ in what they ask for, which is drawn here from what the made-up tables hold.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

TABLE_OF = {
    **{"t": "title", "mc": "movie_companies", "mi": "movie_info", "mx": "movie_info_idx", "mk": "movie_keyword"},
    **{"ci": "cast_info", "ml": "movie_link", "cc": "complete_cast", "at": "aka_title", "ct": "company_type"},
    **{"cn": "company_name", "it1": "info_type", "it2": "info_type", "it3": "info_type", "k": "keyword", "n": "name"},
    **{"an": "aka_name", "chn": "char_name", "pi": "person_info", "rt": "role_type", "kt": "kind_type"},
    **{"lt": "link_type", "cct1": "comp_cast_type", "cct2": "comp_cast_type", "t2": "title", "mc2": "movie_companies"},
    **{"mx2": "movie_info_idx", "cn2": "company_name", "kt2": "kind_type", "it4": "info_type"},
}
"""The table of each alias."""

FACTS = ("mc", "mi", "mx", "mk", "ci", "ml", "cc", "at")
"""What tells something of a film."""

LINKS = {
    "ct": ("mc", "ct.id = mc.company_type_id"),
    "cn": ("mc", "cn.id = mc.company_id"),
    "it1": ("mi", "it1.id = mi.info_type_id"),
    "it2": ("mx", "it2.id = mx.info_type_id"),
    "it3": ("pi", "it3.id = pi.info_type_id"),
    "k": ("mk", "k.id = mk.keyword_id"),
    "n": ("ci", "n.id = ci.person_id"),
    "an": ("ci", "an.person_id = ci.person_id"),
    "pi": ("ci", "pi.person_id = ci.person_id"),
    "chn": ("ci", "chn.id = ci.person_role_id"),
    "rt": ("ci", "rt.id = ci.role_id"),
    "kt": ("t", "kt.id = t.kind_id"),
    "lt": ("ml", "lt.id = ml.link_type_id"),
    "cct1": ("cc", "cct1.id = cc.subject_id"),
    "cct2": ("cc", "cct2.id = cc.status_id"),
    "t2": ("ml", "t2.id = ml.linked_movie_id"),
    "mc2": ("t2", "mc2.movie_id = t2.id"),
    "mx2": ("t2", "mx2.movie_id = t2.id"),
    "cn2": ("mc2", "cn2.id = mc2.company_id"),
    "kt2": ("t2", "kt2.id = t2.kind_id"),
    "it4": ("mx2", "it4.id = mx2.info_type_id"),
}
"""What each other alias is joined with, and how."""

FAMILIES = (
    ("ct it2 mc mx t", 4),
    ("cn k mc mk t", 4),
    ("k mi mk t", 3),
    ("it2 k mx mk t", 3),
    ("ct it1 mc mi t", 3),
    ("ci k mk n t", 6),
    ("an ci it3 lt ml n pi t", 3),
    ("an ci cn mc n rt t", 4),
    ("an chn ci cn mc n rt t", 4),
    ("chn ci cn ct mc rt t", 3),
    ("cn ct k lt mc mk ml t", 4),
    ("cn ct it1 it2 mc mi mx t", 3),
    ("cn ct it1 it2 kt mc mi mx t", 4),
    ("it1 it2 k kt mi mx mk t", 3),
    ("at cn ct it1 k mc mi mk t", 4),
    ("an ci cn k mc mk n t", 4),
    ("ci cn k mc mk n t", 6),
    ("ci it1 it2 mi mx n t", 3),
    ("an chn ci cn it1 mc mi n rt t", 4),
    ("cc cct1 cct2 chn ci k kt mk n t", 3),
    ("cn ct k lt mc mi mk ml t", 3),
    ("cn ct it1 it2 k kt mc mi mx mk t", 4),
    ("cc cct1 cn ct it1 k kt mc mi mk t", 3),
    ("an chn ci cn it1 k mc mi mk n rt t", 2),
    ("ci it1 it2 k mi mx mk n t", 3),
    ("cc cct1 cct2 chn ci it2 k kt mx mk n t", 3),
    ("cc cct1 cct2 cn ct k lt mc mi mk ml t", 3),
    ("cc cct1 cct2 cn ct it1 it2 k kt mc mi mx mk t", 3),
    ("an cc cct1 cct2 chn ci cn it1 it3 k mc mi mk n pi rt t", 3),
    ("cc cct1 cct2 ci it1 it2 k mi mx mk n t", 3),
    ("ci cn it1 it2 k mc mi mx mk n t", 3),
    ("k lt mk ml t t2", 2),
    ("cn cn2 it2 it4 kt kt2 lt mc mc2 mx mx2 ml t t2", 3),
)
"""The aliases of each family, and how many queries it has."""

FILTERS = {
    "ct": ("ct.kind = 'production companies'", "ct.kind = 'distributors'"),
    "cn": (
        "cn.country_code = '[de]'",
        "cn.country_code <> '[us]'",
        "cn.name LIKE 'Warner%'",
        "cn.country_code = '[jp]'",
    ),
    "cn2": ("cn2.country_code = '[us]'",),
    "it1": ("it1.info = 'genres'", "it1.info = 'countries'", "it1.info = 'release dates'"),
    "it2": ("it2.info = 'rating'", "it2.info = 'top 250 rank'", "it2.info = 'votes'", "it2.info = 'bottom 10 rank'"),
    "it3": ("it3.info = 'runtimes'",),
    "it4": ("it4.info = 'rating'",),
    "k": (
        "k.keyword = 'character-name-in-title'",
        "k.keyword = 'sequel'",
        "k.keyword IN ('superhero', 'murder', 'sequel')",
        "k.keyword LIKE 'word-0001%'",
    ),
    "n": ("n.gender = 'f'", "n.name LIKE 'D%'", "n.gender = 'm'", "n.name LIKE '%9'"),
    "rt": ("rt.role = 'actress'", "rt.role = 'writer'"),
    "kt": ("kt.kind = 'movie'", "kt.kind IN ('movie', 'episode')"),
    "kt2": ("kt2.kind = 'tv series'",),
    "lt": ("lt.link = 'features'", "lt.link IN ('follows', 'followed by')", "lt.link LIKE 'remade%'"),
    "cct1": ("cct1.kind = 'cast'", "cct1.kind = 'crew'"),
    "cct2": ("cct2.kind = 'complete+verified'", "cct2.kind <> 'complete+verified'"),
    "an": ("an.name LIKE '%a%'",),
    "mi": ("mi.info IN ('Drama', 'Horror')", "mi.info = '[de]'", "mi.info LIKE 'S%'"),
    "mx": ("mx.info > '8.0'", "mx.info < '3.0'"),
    "mc": ("mc.note <> '(as Metro)'", "mc.note LIKE '%(co-production)%'"),
    "ci": ("ci.note = '(voice)'", "ci.note IN ('(producer)', '(uncredited)')"),
    "t": (
        "t.production_year > 2005",
        "t.production_year BETWEEN 1980 AND 1984",
        "t.production_year > 1950",
        "t.production_year BETWEEN 2005 AND 2010",
    ),
    "t2": ("t2.production_year < 2000",),
}
"""What may be asked of each alias."""

ALWAYS = frozenset({"ct", "it1", "it2", "it3", "it4", "lt", "kt", "kt2", "cct1", "cct2", "rt", "k"})
"""Small tables that are joined only to be asked for something; of the others, about half are asked for something."""


def queries(seed: int = 0) -> dict[str, str]:
    """The 113 queries by name, as ``1a``: a family and a letter.

    >>> len(queries()), "it2.info = " in queries()["1a"], "33c" in queries()
    (113, True, True)
    """
    rng = np.random.default_rng(seed)
    return {
        f"{number}{chr(97 + member)}": _text(aliases.split(), rng)
        for number, (aliases, members) in enumerate(FAMILIES, 1)
        for member in range(members)
    }


def _text(aliases: list[str], rng: np.random.Generator) -> str:
    tables = ", ".join(f"{TABLE_OF[alias]} AS {alias}" for alias in aliases)
    facts = [alias for alias in aliases if alias in FACTS]
    joins = [f"t.id = {fact}.movie_id" for fact in facts]
    joins += [f"{one}.movie_id = {other}.movie_id" for one, other in combinations(facts, 2)]
    joins += [link for alias in aliases if alias in LINKS for _, link in (LINKS[alias],)]
    asked = []
    for alias in aliases:
        some = FILTERS.get(alias, ())
        if some and (alias in ALWAYS or rng.random() < 0.5):
            asked.append(some[rng.integers(len(some))])
    return f"SELECT count(*), min(t.title) FROM {tables}\nWHERE {' AND '.join(joins + asked)}"
