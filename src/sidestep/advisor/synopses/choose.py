"""Which synopses the columns of a table get: by default, by name, or as a budget allows.

=====================  ============================================================================================
asked for              what happens
=====================  ============================================================================================
nothing                columns that look like keys get a few ranges, Bloom filters or a global range table, and columns
                       of few values get value sets, where a sample of blocks shows that it skips more than the zone map
                       (:mod:`.defaults`), within a hundredth of the table's bytes
a log                  columns that its queries filter come first, by the rows that synopses save those queries that
                       they were not made by; join keys get ranges more readily than others, and columns of few values
                       that patterns are asked of get value sets; within the same limit, which gives way, up to four
                       hundredths, to what spares the queries so many rows that it has paid after a few of them
a budget               all columns share it (:mod:`.budget`), by the log's queries, or, where there is
                       no log, by single values and short ranges of what is there
synopses by name       those columns get just that; the rule above is for the others, unless it says ``*``
=====================  ============================================================================================

Where bytes are shared out, groups of partitions that are alike (:mod:`.groups`) get their own share:
what serves sparse partitions would be wasted on dense ones. The largest group's recipe is the column's general one.

**Blocks that are yet to be made** (``block_rows``) will hold fewer values of what the log filters than the rows do as
they come: that is what a layout is for. So columns of few values that it filters get value sets there, whatever the
sample says, as far as the bytes go.

All of it is judged on whole blocks, a few dozen of them; what a choice saves is an estimate, what it promises is not:
whatever is chosen, blocks are skipped on proof alone.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sidestep.advisor.synopses.budget import Plan, SynopsisChoice, bound_over, drop_useless_parts, spend, spend_beyond
from sidestep.advisor.synopses.candidates import (
    LEAST_GAPS,
    MOST_DISTINCT,
    Candidate,
    Profile,
    Share,
    dictionary_bytes,
    gap_share,
    group_profiles,
    zone_map,
)
from sidestep.advisor.synopses.defaults import (
    FEWEST_VALUES,
    NEARLY_UNIQUE,
    OFTEN_ELSEWHERE,
    RATES,
    ColumnOptions,
    Option,
    column_options,
    filter_bytes,
    identifiers,
    key_like,
    reason,
    share_out,
)
from sidestep.advisor.synopses.groups import MOST_GROUPS, BlockGroup, block_groups
from sidestep.advisor.synopses.queries import asked_of_groups, asked_sets, hold_out, known_sets, usual_queries
from sidestep.advisor.synopses.sample import BlockSample, sample_blocks
from sidestep.predicate import Column, DataType, Formula
from sidestep.predicate.formula import columns_in
from sidestep.store.snapshot import Partition, Snapshot
from sidestep.store.upkeep.false_positives import TriedSynopsis
from sidestep.synopsis.build import BuildPlan, block_synopses, has_codes, index_columns
from sidestep.synopsis.catalog import Catalog
from sidestep.synopsis.grt.popularity import popularity
from sidestep.synopsis.recipe import GroupRecipe, Recipe, RecipeText, bytes_of, is_share, parse_recipes, recipe_text
from sidestep.synopsis.skip import kept_blocks
from sidestep.synopsis.value_set import VALUES
from sidestep.synopsis.values.code_ranges import CodeRanges
from sidestep.synopsis.values.codes import Codes, Coding
from sidestep.synopsis.values.forms import Form, stored_form
from sidestep.workload.table import ColumnUsage

LIMIT = "1%"
"""What synopses may take that no one asked for, as a share of the table's bytes."""
MOST_LIMIT = "4%"
"""What they may take where a log shows that they pay (:class:`Yield`)."""
QUERIES_TO_PAY = 4
"""A session reads an index once: what it takes beyond the limit has to be spared again by so many queries."""
LEAST_LIMIT = 1 << 15
"""A share of a small table is no less than this."""
ZONE_BYTES = 20
"""About what the zone map of a column takes in a block; it counts as part of a share."""
LOOKED_AT = 200_000
"""As many blocks are looked at first as have this many rows together, but at least one."""
FIRST_TEXTS = 1_000
"""The texts that are looked at first."""
LEAST_SAVED = 0.1
"""Value sets have to spare queries with patterns at least this share of all rows."""
FEW_BYTES, FEW_BYTES_BESIDES = 1.5, 1 << 15
"""A column that takes more bytes for each row, and some for its dictionary, is none of few values."""
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
    spent: int = 0
    """The bytes that the synopses may take that shared a budget."""
    tried: tuple[TriedSynopsis, ...] = ()
    """What was tried by default, what it would save, and why it was not built if it was not."""


def choose_recipes(
    snapshot: Snapshot,
    columns: Mapping[str, DataType],
    *,
    synopses: RecipeText | None = None,
    budget: int | None = None,
    limit: int | str | None = None,
    asked: ColumnUsage | None = None,
    kept: Mapping[str, Recipe] | None = None,
    block_rows: int | None = None,
    arranged: Collection[str] = (),
) -> RecipeChoice:
    """The recipes of all these columns; see the module's text for how they come about.

    Columns that have a recipe in ``kept`` keep it unless they are named. ``block_rows`` is the size that blocks are
    going to have, if that is not the one that they have, and ``arranged`` the columns that rows are then arranged by.
    ``limit`` is what synopses may take in all if there is no budget: bytes, or a share of the table's; without one it
    is :data:`LIMIT`, beyond which only what pays is made.
    """
    gives_way, limit = limit is None, LIMIT if limit is None else limit
    usable = {name: type for name, type in columns.items() if has_codes(type)}
    fixed = {**(kept or {}), **({} if synopses is None else parse_recipes(synopses, usable))}
    open_columns = {name: type for name, type in usable.items() if name not in fixed}
    nothing = budget is None and bytes_of(limit, snapshot.bytes) == 0
    if not open_columns or not snapshot.files or nothing:
        return RecipeChoice({**dict.fromkeys(usable, Recipe()), **fixed})
    keys = [name for name, type in open_columns.items() if key_like(type)]
    sample = sample_blocks(snapshot, columns=list(open_columns), keys=keys, block_rows=block_rows)
    usage = asked or ColumnUsage()
    if budget is not None:
        choice = _spend_budget(sample, open_columns, budget, asked)
    else:
        zones = ZONE_BYTES * len(columns) * sample.of_blocks
        budget = bytes_of(limit, snapshot.bytes)
        budget = max(LEAST_LIMIT, budget - zones) if is_share(limit) else budget
        pays = None
        if gives_way:
            rows = sample.of_blocks * int(sample.rows.sum()) / max(1, len(sample.blocks))
            most = bytes_of(MOST_LIMIT, snapshot.bytes) - zones
            pays = Yield(most, snapshot.bytes / max(1.0, rows), sum(usage.filters.values()), arranged)
        choice = _defaults(sample, open_columns, usage, budget, pays)
    choice = _serve_few_values(sample, open_columns, usage, choice, budget, laid_out=block_rows is not None)
    return replace(choice, recipes={**dict.fromkeys(usable, Recipe()), **choice.recipes, **fixed})


@dataclass(frozen=True)
class Yield:
    """When a limit gives way: to what spares a log's queries, in a few of them, as much as reading it takes.

    A session reads an index once. If its share of the table's bytes is at most the share of rows that it spares
    :data:`QUERIES_TO_PAY` of the log's queries together, on average, then it has paid after these. Columns that rows
    are about to be arranged by get nothing beyond the limit: what their zone maps will say is not known yet.
    """

    most: int
    row_bytes: float
    scans: int
    """Of the whole log."""
    arranged: Collection[str] = ()

    def price(self, profile: Profile, asked: ColumnUsage) -> float:
        """The weighted rows of a profile's queries that a byte has to spare; they may be a part of the log's."""
        if profile.column in self.arranged:
            return math.inf
        part = float(profile.weights.sum()) / max(1, asked.scans(profile.column))
        return self.scans * part / QUERIES_TO_PAY / max(self.row_bytes, 1e-9)


def _defaults(
    sample: BlockSample, columns: Mapping[str, DataType], asked: ColumnUsage, limit: int, pays: Yield | None
) -> RecipeChoice:
    filtered = {name: type for name, type in columns.items() if asked.scans(name)}
    served = _spend_budget(sample, filtered, limit, asked, pays) if filtered else RecipeChoice()
    open_columns = {name: type for name, type in columns.items() if not served.recipes.get(name)}
    has_log = bool(asked.ranges or asked.joins)
    keys = {name: type for name, type in open_columns.items() if key_like(type) or name in asked.joins}
    # A log says which columns are asked for: of the others, only keys may have to answer for joins.
    others = {} if has_log else {name: type for name, type in open_columns.items() if name not in keys}
    tried = [
        column_options(each.profile, each.stands_for, joined=each.profile.column in asked.joins, key=each.key)
        for each in _promising(sample, keys, others, limit - served.spent)
    ]
    chosen = share_out(tried, limit - served.spent)
    spent = served.spent + sum(option.bytes for option in chosen.values())
    recipes = {**served.recipes, **{name: option.recipe for name, option in chosen.items()}}
    return replace(served, recipes=recipes, spent=spent, tried=(*served.tried, *_report(tried, chosen, limit - spent)))


def _report(columns: Sequence[ColumnOptions], chosen: Mapping[str, Option], left: int) -> list[TriedSynopsis]:
    """What was tried of each column: what it got, and what would have saved the most, and why it was not built."""
    report = []
    for column in columns:
        best = max(column.options, key=lambda option: option.gain, default=None)
        for option in dict.fromkeys(each for each in (chosen.get(column.column), best) if each is not None):
            why = reason(column, option, chosen, left)
            report.append(
                TriedSynopsis(
                    column.column, recipe_text(option.recipe), option.bytes, option.zone_map, option.reads, why
                )
            )
    return report


@dataclass(frozen=True, eq=False)
class _Promising:
    """A column that is worth a try."""

    profile: Profile
    stands_for: npt.NDArray[np.float64]
    """How many blocks each of the profile's stands for."""
    key: bool
    """Whether its values are likely to be asked for one by one."""


def _promising(
    sample: BlockSample, keys: Mapping[str, DataType], others: Mapping[str, DataType], limit: int
) -> list[_Promising]:
    """The keys whose blocks have gaps, those that are nearly unique, and all columns of few values, by a first look.

    Most columns of most tables are dense: reading all of the sample for them would cost more than the index. So would
    a look at those that are no keys and large: a column of few values takes at most a byte for each row. Texts are
    keys if the first of them look like it. Where the limit could not pay for filters, the first look has to do: it is
    enough to say what they would save.
    """
    if len(sample.blocks) < 2:
        return []
    rows = int(sample.rows.sum()) / len(sample.blocks)
    looked_at = sample.first(max(1, int(LOOKED_AT // max(1.0, rows))))
    affordable = filter_bytes(int(rows), RATES[0]) * sample.of_blocks <= limit
    texts = [name for name, type in others.items() if stored_form(type) is Form.BYTES]
    first_texts = looked_at.first_values(texts, FIRST_TEXTS) if texts else {}
    named = [name for name, values in first_texts.items() if identifiers(values)]
    small = looked_at.compact_columns(others, FEW_BYTES, FEW_BYTES_BESIDES)
    first = looked_at.codes({**keys, **{name: others[name] for name in small if name not in named}})
    wide = {name: sample.with_wide(name) for name in keys}
    wide_codes = {name: _more_codes(sample, each, name, keys[name]) for name, (each, _) in wide.items()}
    fewest = NEARLY_UNIQUE * float(looked_at.rows.mean())
    promising = [
        name
        for name, (coding, blocks) in first.items()
        if max(map(len, blocks)) <= MOST_DISTINCT
        or (name in keys and max(gap_share(coding, each) for each in (*blocks, *wide_codes[name])) >= LEAST_GAPS)
    ]
    unique = [
        name
        for name, (_, blocks) in first.items()
        if name in keys and name not in promising and max(map(len, blocks)) >= fewest and _apart(blocks)
    ]
    wanted = [*promising, *((*unique, *named) if affordable else ())]
    coded = sample.codes({name: keys.get(name) or others[name] for name in wanted})
    found = []
    if not affordable:
        of_texts = looked_at.codes({name: others[name] for name in named})
        for name, (coding, blocks) in {**{name: first[name] for name in unique}, **of_texts}.items():
            found.append(_Promising(_profile(looked_at, name, coding, blocks, ()), looked_at.with_wide("")[1], True))
    for name, (coding, blocks) in coded.items():
        whole, stands_for = wide.get(name) or sample.with_wide("")
        more = wide_codes.get(name, [])
        if len(blocks) + len(more) != len(whole.blocks):  # some of the wide ones could not be read
            (whole, stands_for), more = sample.with_wide(""), []
        profile = _profile(whole, name, coding, [*blocks, *more], ())
        found.append(_Promising(profile, stands_for, name in keys or name in named))
    return found


def _more_codes(sample: BlockSample, larger: BlockSample, name: str, type: DataType) -> list[Codes]:
    """The codes of a column in the blocks that a larger sample has besides."""
    more = replace(larger, blocks=larger.blocks[len(sample.blocks) :])
    coded = more.codes({name: type}) if more.blocks else {}
    return coded[name][1] if name in coded else []


def _apart(blocks: Sequence[Codes]) -> bool:
    """Whether values of one block are hardly ever in another: whether they could be unique in the table."""
    pairs = list(pairwise(blocks))
    shares = [len(np.intersect1d(one, other, True)) / max(1, len(one)) for one, other in pairs]
    return not shares or float(np.mean(shares)) <= OFTEN_ELSEWHERE


def _serve_few_values(
    sample: BlockSample,
    columns: Mapping[str, DataType],
    asked: ColumnUsage,
    choice: RecipeChoice,
    budget: int,
    *,
    laid_out: bool,
) -> RecipeChoice:
    """Value sets for columns of few values that the log filters, where the choice so far has no say.

    That is where patterns are asked for, which ranges of codes do not tell of, and where blocks are yet to be made.
    """
    patterned = {column.name: conditions for column, conditions in asked.patterns.items()}
    wanted = {
        name: columns[name]
        for name in sorted(columns, key=lambda name: -(asked.uses(name) + sum(patterned.get(name, {}).values())))
        if name in patterned or (laid_out and asked.scans(name))
    }
    left = budget - choice.spent
    recipes = dict(choice.recipes)
    for name, values in sample.values(wanted).items() if wanted else ():
        recipe, coding = recipes.get(name, Recipe()), Coding(columns[name])
        distinct = _count_distinct(values)
        size = 1 << max(0, distinct - 1).bit_length()
        price = VALUES.sizes.unit_bits * size * sample.of_blocks // 8 + dictionary_bytes(coding, distinct)
        fewest = 1 if name in patterned else FEWEST_VALUES
        if recipe.groups or recipe.size(VALUES) or not fewest <= distinct <= MOST_DISTINCT or price > left:
            continue
        if laid_out or _spared_by_sets(sample, columns[name], values, patterned[name]) >= LEAST_SAVED:
            recipes[name], left = recipe.with_size(VALUES, size), left - price
    return replace(choice, recipes=recipes, spent=budget - left)


def _count_distinct(blocks: Sequence[pa.Array]) -> int:
    """The number of distinct values, NULL aside, of blocks that have each of theirs once; if it is large, at least."""
    largest = max((len(block) - block.null_count for block in blocks), default=0)
    if largest > MOST_DISTINCT:
        return largest
    return len({value for block in blocks for value in block.to_pylist() if value is not None})


def _spared_by_sets(
    sample: BlockSample, type: DataType, values: Sequence[pa.Array], conditions: Mapping[Formula, int]
) -> float:
    """The share of all rows that value sets spare queries with these conditions on a column of that type."""
    name = next(iter(columns_in(next(iter(conditions))))).name
    plan = BuildPlan({name: Recipe().with_size(VALUES, MOST_DISTINCT)})
    built = index_columns(name, type, [block_synopses(name, type, each, plan) for each in values], plan)
    sets = VALUES.synopsis({name: VALUES.read(type, VALUES.parts_of(name, built), ())[0]})
    rows = sample.rows
    catalog = Catalog(np.arange(len(rows), dtype=np.int32), rows, rows, len(rows), (sets,))
    spared = sum(count * int(rows[~kept_blocks(catalog, each)].sum()) for each, count in conditions.items())
    return spared / max(1, sum(conditions.values()) * int(rows.sum()))


def _spend_budget(
    sample: BlockSample,
    columns: Mapping[str, DataType],
    budget: int,
    asked: ColumnUsage | None,
    pays: Yield | None = None,
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
        if pays is not None and asked is not None:
            plan = spend_beyond(plan, pays.most, partial(pays.price, asked=asked))
            notes += _beyond(plan, asked)
    if plan.note and asked_for:
        notes.append(plan.note)
    if any(profile.sampled for profile in asked_for):
        notes.append(f"Judged by {len(sample.blocks)} of about {sample.of_blocks:,} blocks.")
    recipes: dict[str, Recipe] = {profile.column: Recipe() for profile in asked_for}
    bounds: dict[str, float] = {}
    for name in by_group:
        choices = [drop_useless_parts(choice) for choice in plan.choices if choice.profile.column == name]
        recipes[name] = _recipe_of_groups(choices, groups) if groups else _recipe(choices[0].parts)
        if recipes[name]:
            bounds[name] = bound_over(choices)
    report = () if groups else tuple(_report_asked(plan))
    return RecipeChoice(recipes, bounds, tuple(notes), plan.total, report)


def _beyond(plan: Plan, asked: ColumnUsage) -> list[str]:
    """What the limit gave way to, in a sentence."""
    if plan.total <= plan.budget:
        return []
    large = max(plan.choices, key=lambda choice: choice.total)
    return [
        f"Synopses of {large.profile.column} take {large.total:,} bytes, beyond the usual limit: they spare "
        f"{large.saved:.0%} of the rows in {asked.scans(large.profile.column):,} of the log's queries."
    ]


def _report_asked(plan: Plan) -> list[TriedSynopsis]:
    """What was tried of each column that queries ask for: what it got, or else what would have saved the most."""
    report = []
    for choice, tried in zip(plan.choices, plan.candidates, strict=True):
        profile = choice.profile
        zones = profile.kept_share(profile.answers(zone_map(profile)))
        built = drop_useless_parts(choice).parts
        best = min(tried, key=lambda each: profile.false_rows(each.kept), default=None)
        parts = built or (() if best is None else (best,))
        if parts:
            kept = np.logical_and.reduce([part.kept for part in parts])
            size = sum(part.total for part in parts)
            hardly = "it spares those queries too little" if size <= plan.budget else "it takes more than there is"
            text, why = recipe_text(_recipe(parts)), "" if built else hardly
            report.append(TriedSynopsis(profile.column, text, size, zones, profile.kept_share(kept), why))
    return report


def _recipe_of_groups(choices: Sequence[SynopsisChoice], groups: Sequence[BlockGroup]) -> Recipe:
    """What the largest group gets, and the others instead where that differs."""
    general = _recipe(choices[0].parts)
    apart: dict[Recipe, tuple[set[Partition], list[SynopsisChoice]]] = {}
    for choice, group in zip(choices[1:], groups[1:], strict=True):
        if (recipe := _recipe(choice.parts)) != general:
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
        _, sets = hold_out(asked_sets(asked, profile.column, profile.coding.type))
        place = {ranges: number for number, ranges in enumerate(known_sets(sets, profile.coding))}
        weights = asked_of_groups(asked, Column(profile.column, profile.coding.type), place, groups)
    return [
        Share(str(group), group.members, group.of_blocks, counts) for group, counts in zip(groups, weights, strict=True)
    ]


def _recipe(parts: Sequence[Candidate]) -> Recipe:
    recipe = Recipe()
    for part in parts:
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
    """A column with what the log asks of it; without a log, with what may be asked of any.

    What is popular, by which global range tables are made, is known from other queries than those that judge them.
    """
    if asked is None:
        return _profile(sample, name, coding, blocks, usual_queries(blocks))
    made_by, judged_by = hold_out(asked_sets(asked, name, coding.type))
    known, counts = known_sets(judged_by, coding), dict(judged_by)
    made = _profile(sample, name, coding, blocks, list(known.values()), (counts[ranges] for ranges in known))
    return replace(
        made, popularity=popularity(coding, [(ranges, float(count)) for ranges, count in made_by], spread=1.0)
    )
