"""Which synopses the columns of a table get: by default, by name, or as a budget allows.

=====================  ============================================================================================
asked for              what happens
=====================  ============================================================================================
nothing                columns that look like keys get a small range-set, or a global range table, where a sample of
                       blocks shows that it skips more than the zone map (:mod:`.defaults`)
a log                  columns that its queries filter share a thousandth of the table's bytes among them, by the rows
                       that synopses save those queries; join keys get range-sets more readily than others
a budget               all columns share it (:mod:`.budget`), by the log's queries, or, where there is
                       no log, by single values and short ranges of what is there
synopses by name       those columns get just that; the rule above is for the others, unless it says ``*``
=====================  ============================================================================================

Where bytes are shared out, groups of partitions that are alike (:mod:`.groups`) get their own share:
what serves sparse partitions would be wasted on dense ones. The largest group's recipe is the column's general one.

All of it is judged on whole blocks, a few dozen of them; what a choice saves is an estimate, what it promises is not:
whatever is chosen, blocks are skipped on proof alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from sidestep.advisor.synopses.budget import SynopsisChoice, bound_over, drop_useless_parts, spend
from sidestep.advisor.synopses.candidates import Profile, Share, group_profiles, zone_map
from sidestep.advisor.synopses.defaults import LEAST_GAPS, default_recipe, gap_share, key_like
from sidestep.advisor.synopses.groups import MOST_GROUPS, BlockGroup, block_groups
from sidestep.advisor.synopses.queries import asked_of_groups, asked_sets, known_sets, usual_queries
from sidestep.advisor.synopses.sample import BlockSample, sample_blocks
from sidestep.predicate import Column, DataType
from sidestep.store.snapshot import Partition, Snapshot
from sidestep.synopsis.build import has_codes
from sidestep.synopsis.grt.popularity import popularity
from sidestep.synopsis.recipe import GroupRecipe, Recipe, RecipeText, parse_recipes
from sidestep.synopsis.values.code_ranges import CodeRanges
from sidestep.synopsis.values.codes import Codes, Coding
from sidestep.workload.table import ColumnUsage

LOG_SHARE = 0.001
"""The part of a table's bytes that the synopses of what a log filters may take, if no budget is given."""
LOOKED_AT = 200_000
"""Two blocks are looked at first if they have at most this many rows together, else one."""
MOST_BUDGET_COLUMNS = 40
"""Columns that share a budget at most, those that queries use most first; trying more would take long."""
MOST_PROFILES = 80
"""Pairs of column and group that share a budget at most: the more columns, the fewer groups."""


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
    synopses: RecipeText | None = None,
    budget: int | None = None,
    asked: ColumnUsage | None = None,
    kept: Mapping[str, Recipe] | None = None,
    block_rows: int | None = None,
) -> RecipeChoice:
    """The recipes of all these columns; see the module's text for how they come about.

    Columns that have a recipe in ``kept`` keep it unless they are named. ``block_rows`` is the size that blocks are
    going to have, if that is not the one that they have.
    """
    usable = {name: type for name, type in columns.items() if has_codes(type)}
    fixed = {**(kept or {}), **({} if synopses is None else parse_recipes(synopses, usable))}
    open_columns = {name: type for name, type in usable.items() if name not in fixed}
    if not open_columns or not snapshot.files:
        return RecipeChoice({**dict.fromkeys(usable, Recipe()), **fixed})
    sample = sample_blocks(snapshot, columns=list(open_columns), block_rows=block_rows)
    if budget is not None:
        choice = _spend_budget(sample, open_columns, budget, asked)
    else:
        choice = _defaults(sample, open_columns, asked or ColumnUsage(), round(LOG_SHARE * snapshot.bytes))
    return replace(choice, recipes={**dict.fromkeys(usable, Recipe()), **choice.recipes, **fixed})


def _defaults(sample: BlockSample, columns: Mapping[str, DataType], asked: ColumnUsage, budget: int) -> RecipeChoice:
    filtered = {name: type for name, type in columns.items() if asked.scans(name)}
    served = _spend_budget(sample, filtered, budget, asked) if filtered else RecipeChoice()
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
    coded = sample.codes({name: columns[name] for name in gapped})
    return {name: _profile(sample, name, *each, usual_queries(each[1])) for name, each in coded.items()}


def _spend_budget(
    sample: BlockSample, columns: Mapping[str, DataType], budget: int, asked: ColumnUsage | None
) -> RecipeChoice:
    notes = []
    by_use = sorted(columns, key=lambda name: -(asked.uses(name) if asked else 0))
    if len(by_use) > MOST_BUDGET_COLUMNS:
        left_out = ", ".join(by_use[MOST_BUDGET_COLUMNS:])
        notes.append(f"Columns that queries use least have the zone map alone, too many to try: {left_out}.")
    tried = {name: columns[name] for name in by_use[:MOST_BUDGET_COLUMNS]}
    coded = sample.codes(tried)
    profiles = [_asked_profile(sample, name, *each, asked) for name, each in coded.items()]
    asked_for = [profile for profile in profiles if len(profile.queries)]
    wanting = [each for each in asked_for if each.false_rows(each.answers(zone_map(each))) > 0]
    by_group = {profile.column: coded[profile.column] for profile in wanting}
    groups = block_groups(sample, by_group, min(MOST_GROUPS, MOST_PROFILES // max(1, len(wanting))))
    if asked is None:
        notes.append("There is no log: single values and short ranges, alike in all columns, stand for the queries.")
    elif not any(asked.scans(name) for name in tried):
        notes.append("No query of the log filters these columns, so there is nothing that a synopsis could save.")
    if groups:
        shared = [
            each for profile in wanting for each in group_profiles(profile, _shares(profile, groups, asked), budget)
        ]
        plan = spend(shared, budget)
        notes += _too_small(shared, budget)
    else:
        plan = spend(wanting, budget)
    if plan.note and asked_for:
        notes.append(plan.note)
    if any(profile.sampled for profile in asked_for):
        notes.append(f"Judged by {len(sample.blocks)} of about {sample.of_blocks:,} blocks.")
    recipes: dict[str, Recipe] = {profile.column: Recipe() for profile in asked_for}
    bounds: dict[str, float] = {}
    for name in by_group:
        choices = [drop_useless_parts(choice) for choice in plan.choices if choice.profile.column == name]
        recipes[name] = _recipe_of_groups(choices, groups) if groups else _recipe(choices[0])
        if recipes[name]:
            bounds[name] = bound_over(choices)
    return RecipeChoice(recipes, bounds, tuple(notes))


def _recipe_of_groups(choices: Sequence[SynopsisChoice], groups: Sequence[BlockGroup]) -> Recipe:
    """What the largest group gets, and the others instead where that differs."""
    general = _recipe(choices[0])
    apart: dict[Recipe, tuple[set[Partition], list[SynopsisChoice]]] = {}
    for choice, group in zip(choices[1:], groups[1:], strict=True):
        if (recipe := _recipe(choice)) != general:
            partitions, alike = apart.setdefault(recipe, (set(), []))
            partitions.update(group.partitions)
            alike.append(choice)
    return general.with_groups(
        tuple(
            GroupRecipe(frozenset(partitions), recipe, _why(alike, choices[0]))
            for recipe, (partitions, alike) in apart.items()
        )
    )


def _why(apart: Sequence[SynopsisChoice], general: SynopsisChoice) -> str:
    """What makes some partitions different, in the terms that they were judged by."""
    asked = sum(choice.profile.asked_rows for choice in apart)
    saved = sum(choice.saved * choice.profile.asked_rows for choice in apart) / asked if asked else 0.0
    return f"spares queries {saved:.0%} of the rows there, and {general.saved:.0%} in the others"


def _too_small(profiles: Sequence[Profile], budget: int) -> list[str]:
    """Which groups the budget has nothing for, if it has something for others."""
    wanting = [each for each in profiles if each.false_rows(each.answers(zone_map(each))) > 0]
    least = {profile.group: min(profile.sizes) * profile.in_all for profile in wanting}
    short = {group: size for group, size in least.items() if size > budget}
    if not short or len(short) == len(least):
        return []
    named = "; ".join(f"{group} (the smallest synopsis takes {size:,})" for group, size in short.items())
    return [f"{budget:,} bytes are too few for a synopsis in some partitions: {named}."]


def _shares(profile: Profile, groups: Sequence[BlockGroup], asked: ColumnUsage | None) -> list[Share]:
    """The groups of a column's blocks, each with what is asked of it."""
    weights = np.tile(profile.weights, (len(groups), 1))
    if asked is not None and asked.filters:
        sets = asked_sets(asked, profile.column, profile.coding.type)
        place = {ranges: number for number, ranges in enumerate(known_sets(sets, profile.coding))}
        weights = asked_of_groups(asked, Column(profile.column, profile.coding.type), place, groups)
    return [
        Share(str(group), group.members, group.of_blocks, counts) for group, counts in zip(groups, weights, strict=True)
    ]


def _recipe(choice: SynopsisChoice) -> Recipe:
    recipe = Recipe()
    for part in choice.parts:
        recipe = recipe.with_size(part.kind, part.kind.sizes.within(part.per_block))
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
    sample: BlockSample, name: str, coding: Coding, blocks: Sequence[Codes], asked: ColumnUsage | None
) -> Profile:
    """A column with what the log asks of it; without a log, with what may be asked of any."""
    if asked is None:
        return _profile(sample, name, coding, blocks, usual_queries(blocks))
    sets = asked_sets(asked, name, coding.type)
    known, counts = known_sets(sets, coding), dict(sets)
    made = _profile(sample, name, coding, blocks, list(known.values()), (counts[ranges] for ranges in known))
    return replace(made, popularity=popularity(coding, [(ranges, float(count)) for ranges, count in sets], spread=1.0))
