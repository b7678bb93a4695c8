"""Which synopses the columns of a table get: by default, as someone wishes, or as a budget allows.

=====================  ============================================================================================
asked for              what happens
=====================  ============================================================================================
nothing                columns that look like keys get a small range-set, or a global range table, where a sample of
                       blocks shows that it tells more than the zone map (:mod:`sidestep.synopsis.worth`)
a log                  columns that its queries filter share a thousandth of the table's bytes among them, by the rows
                       that synopses save those queries; join keys get range-sets more readily than others
a budget               all columns share it (:mod:`sidestep.synopsis.budget`), by the log's queries, or, where there is
                       no log, by single values and short ranges of what is there
synopses by name       those columns get just that; the rule above is for the others, unless it says ``*``
=====================  ============================================================================================

All of it is judged on whole blocks, a few dozen of them; what a choice saves is an estimate, what it promises is not:
whatever is chosen, blocks are skipped on proof alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from sidestep.predicate import DataType, IntervalSet
from sidestep.store.blocksample import BlockSample, sample_blocks
from sidestep.store.datafile import Snapshot
from sidestep.synopsis.budget import Choice, spend, thrifty
from sidestep.synopsis.candidates import BLOOM, RANGE_SET, Profile
from sidestep.synopsis.coderanges import CodeRanges, code_ranges
from sidestep.synopsis.codes import Codes, Coding
from sidestep.synopsis.grtpopularity import popularity
from sidestep.synopsis.making import has_codes
from sidestep.synopsis.rangeset import BYTES_PER_RANGE
from sidestep.synopsis.recipe import Recipe
from sidestep.synopsis.wishes import Wishes, wished
from sidestep.synopsis.worth import LEAST_GAPS, default_recipe, gap_share, key_like, usual_queries
from sidestep.workload.asked import Asked

LOG_SHARE = 0.001
"""The part of a table's bytes that the synopses of what a log filters may take, if no budget is given."""
MOST_QUERIES = 200
LOOKED_AT = 200_000
"""Two blocks of up to so many rows together are looked at first; of larger ones, one."""
MOST_BUDGET_COLUMNS = 40
"""So many columns share a budget, those that queries use most first; trying more would take long."""


@dataclass(frozen=True)
class RecipeChoice:
    """What each column gets, and what is known of that choice."""

    recipes: Mapping[str, Recipe] = field(default_factory=dict)
    bounds: Mapping[str, float] = field(default_factory=dict)
    """For columns that shared a budget: what the rate of false positives stays below, for queries like those tried."""
    notes: tuple[str, ...] = ()
    """What a person should know of it, in sentences."""


def choose_recipes(
    snapshot: Snapshot,
    columns: Mapping[str, DataType],
    *,
    synopses: Wishes | None = None,
    budget: int | None = None,
    asked: Asked | None = None,
    kept: Mapping[str, Recipe] | None = None,
) -> RecipeChoice:
    """The recipes of all these columns; see the module's text for how they come about.

    Columns that have a recipe in ``kept`` keep it unless they are named.
    """
    usable = {name: type for name, type in columns.items() if has_codes(type)}
    fixed = {**(kept or {}), **({} if synopses is None else wished(synopses, usable))}
    open_columns = {name: type for name, type in usable.items() if name not in fixed}
    if not open_columns or not snapshot.files:
        return RecipeChoice({**dict.fromkeys(usable, Recipe()), **fixed})
    sample = sample_blocks(snapshot)
    if budget is not None:
        found = _budgeted(sample, open_columns, budget, asked)
    else:
        found = _defaults(sample, open_columns, asked or Asked(), round(LOG_SHARE * snapshot.bytes))
    return replace(found, recipes={**dict.fromkeys(usable, Recipe()), **found.recipes, **fixed})


def _defaults(sample: BlockSample, columns: Mapping[str, DataType], asked: Asked, budget: int) -> RecipeChoice:
    filtered = {name: type for name, type in columns.items() if asked.scans(name)}
    served = _budgeted(sample, filtered, budget, asked) if filtered else RecipeChoice()
    keys = {
        name: type
        for name, type in columns.items()
        if not served.recipes.get(name) and (key_like(type) or name in asked.joins)
    }
    recipes = dict(served.recipes)
    for name, profile in _with_gaps(sample, keys).items():
        recipe = default_recipe(profile, joined=name in asked.joins)
        if recipe:
            recipes[name] = recipe
    return replace(served, recipes=recipes)


def _with_gaps(sample: BlockSample, columns: Mapping[str, DataType]) -> dict[str, Profile]:
    """The columns whose blocks have gaps, as a first look at one or two of them has it, on the whole sample.

    Most columns of most tables are dense: reading all of the sample for them would cost more than the index.
    """
    if len(sample.blocks) < 2:
        return {}
    looked_at = sample.first(2) if int(sample.first(2).rows.sum()) <= LOOKED_AT else sample.first(1)
    first = looked_at.codes(columns)
    gapped = [
        name
        for name, (coding, blocks) in first.items()
        if max(gap_share(coding, each) for each in blocks) >= LEAST_GAPS
    ]
    found = sample.codes({name: columns[name] for name in gapped})
    return {name: _profile(sample, name, *each, usual_queries(each[1])) for name, each in found.items()}


def _budgeted(sample: BlockSample, columns: Mapping[str, DataType], budget: int, asked: Asked | None) -> RecipeChoice:
    notes = []
    by_use = sorted(columns, key=lambda name: -(asked.uses(name) if asked else 0))
    if len(by_use) > MOST_BUDGET_COLUMNS:
        left_out = ", ".join(by_use[MOST_BUDGET_COLUMNS:])
        notes.append(f"Columns that queries use least have the zone map alone, too many to try: {left_out}.")
    tried = {name: columns[name] for name in by_use[:MOST_BUDGET_COLUMNS]}
    profiles = [
        _asked_profile(sample, name, coding, blocks, asked) for name, (coding, blocks) in sample.codes(tried).items()
    ]
    asked_for = [profile for profile in profiles if len(profile.queries)]
    if asked is None:
        notes.append("There is no log: single values and short ranges, alike in all columns, stand for the queries.")
    elif not any(asked.scans(name) for name in tried):
        notes.append("No query of the log filters these columns, so there is nothing that a synopsis could save.")
    plan = spend(asked_for, budget)
    if plan.note and asked_for:
        notes.append(plan.note)
    if any(profile.sampled for profile in asked_for):
        notes.append(f"Judged by {len(sample.blocks)} of about {sample.of_blocks:,} blocks.")
    choices = [thrifty(choice) for choice in plan.choices]
    recipes = {choice.profile.column: _recipe(choice) for choice in choices}
    return RecipeChoice(recipes, {each.profile.column: each.bound for each in choices if each.parts}, tuple(notes))


def _recipe(choice: Choice) -> Recipe:
    recipe = Recipe()
    for part in choice.parts:
        if part.kind == RANGE_SET:
            recipe = replace(recipe, range_set=part.per_block // BYTES_PER_RANGE)
        elif part.kind == BLOOM:
            recipe = replace(recipe, bloom=part.per_block)
        else:
            recipe = replace(recipe, grt=8 * part.per_block)
    return recipe


def _profile(
    sample: BlockSample,
    name: str,
    coding: Coding,
    blocks: Sequence[Codes],
    queries: Sequence[CodeRanges],
    weights: Iterable[float] | None = None,
) -> Profile:
    counted = np.ones(len(queries)) if weights is None else np.array(list(weights), dtype=np.float64)
    return Profile(name, coding, blocks, sample.rows, queries, counted, of_blocks=sample.of_blocks)


def _asked_profile(
    sample: BlockSample, name: str, coding: Coding, blocks: Sequence[Codes], asked: Asked | None
) -> Profile:
    """A column with what the log asks of it; without a log, with what may be asked of any."""
    if asked is None:
        return _profile(sample, name, coding, blocks, usual_queries(blocks))
    sets = asked_sets(asked, name, coding.type)
    found = [(code_ranges(ranges, coding), count) for ranges, count in sets[:MOST_QUERIES]]
    known = [(ranges, count) for ranges, count in found if ranges is not None]
    made = _profile(sample, name, coding, blocks, [each for each, _ in known], (count for _, count in known))
    return replace(made, popularity=popularity(coding, [(ranges, float(count)) for ranges, count in sets], spread=1.0))


def asked_sets(asked: Asked, name: str, type: DataType) -> list[tuple[IntervalSet, int]]:
    """The sets of values that queries ask of a column of this type, most frequent first."""
    sets = [
        pair
        for column, found in asked.ranges.items()
        if (column.name, column.type) == (name, type)
        for pair in found.items()
    ]
    return sorted(sets, key=lambda pair: -pair[1])
