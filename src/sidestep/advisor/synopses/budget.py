"""Spending a budget of bytes on synopses: which kind, how large, for which column and which group of blocks.

No synopsis is best everywhere. A global range table shines on sparse ids that come in clusters, a range-set where
blocks have few clusters each, a Bloom filter on single values without any order, and on a dense column nothing beats
the zone map. The choice is made by trying: each candidate (:mod:`.candidates`), and each pair of two
kinds, has a price in bytes and false positives on the workload's queries. Bytes go where they save the most rows each,
as long as there are any left.

**Promise.** Every *single* plan, one kind at one size for all columns and groups, is among those that are improved
upon. So the result is never worse than the best single one that the budget allows: on the queries it was chosen by.
For later ones, ``bound`` says what to expect.

**Groups** of a column's blocks are chosen for one by one, with one exception: a column has one global range table, so
all groups that are encoded by it have as many bits, and what the table takes is paid once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import numpy.typing as npt

from sidestep.advisor.synopses.candidates import TRIALS, Candidate, Profile, candidates, zone_map
from sidestep.errors import SidestepError
from sidestep.synopsis.global_ranges import GRT
from sidestep.synopsis.values.forms import Mask

_CONFIDENCE = 0.95


@dataclass(frozen=True, eq=False)
class SynopsisChoice:
    """The synopses of one column in one group of blocks, beside its zone map; without parts, the zone map is all."""

    profile: Profile
    parts: tuple[Candidate, ...]
    false_rows: float
    """The weighted rows that are read for nothing on the profile's queries."""
    rate: float
    """The share of blocks that are kept among those that hold nothing of what is asked for."""
    bound: float
    """What the rate stays below for queries drawn like the profile's, with a confidence of 95%."""
    tried: int = 1
    """How many others it was chosen from."""

    @property
    def total(self) -> int:
        return sum(part.total for part in self.parts)

    @property
    def table(self) -> Candidate | None:
        """The global range table, if that is a part."""
        return next((part for part in self.parts if part.kind is GRT), None)

    @property
    def saved(self) -> float:
        """The share of all rows that are spared, of those that the zone map keeps for nothing."""
        profile = self.profile
        wasted = profile.false_rows(profile.answers(zone_map(profile)))
        return (wasted - self.false_rows) / profile.asked_rows if profile.asked_rows else 0.0

    def __str__(self) -> str:
        where = f"{self.profile.column} in {self.profile.group}" if self.profile.group else self.profile.column
        parts = " and ".join(f"{part.kind} of {part.per_block} bytes" for part in self.parts) or "zone map only"
        return f"{where}: {parts} ({self.total:,} bytes; false positives {self.rate:.1%}, at most {self.bound:.1%})"


@dataclass(frozen=True, eq=False)
class Plan:
    """What the budget is spent on."""

    choices: tuple[SynopsisChoice, ...]
    budget: int
    single: str
    """The best single synopsis within the budget, for comparison."""
    single_false_rows: float
    candidates: tuple[tuple[Candidate, ...], ...] = ()
    """All that was tried, for each profile."""
    note: str = ""
    """What a person should know: that the budget is too small for anything, or that there was nothing to save."""

    @property
    def total(self) -> int:
        return _total(self.choices)

    @property
    def false_rows(self) -> float:
        return sum(choice.false_rows for choice in self.choices)


def spend(profiles: Sequence[Profile], budget: int) -> Plan:
    """The synopses that save the most rows within a total of ``budget`` bytes; see the module's text."""
    if budget < 0:
        raise SidestepError(f"A budget is a number of bytes, not {budget}.")
    # Where the zone map keeps nothing for nothing, there is nothing to try.
    wanting = [profile.false_rows(profile.answers(zone_map(profile))) > 0 for profile in profiles]
    tried = [candidates(profile, budget) if more else [] for profile, more in zip(profiles, wanting, strict=True)]
    options = [_pareto_front(profile, each) for profile, each in zip(profiles, tried, strict=True)]
    singles = _singles(profiles, tried, options, wanting, budget)
    single, best = min(singles.items(), key=lambda each: _false_rows(each[1]))
    plan = min((_improve(start, options, budget) for start in singles.values()), key=_false_rows)
    note = ""
    least = min((min(profile.sizes) * profile.in_all for profile in profiles), default=0)
    if budget < least:
        note = f"{budget:,} bytes are too few for any synopsis beside the zone map: the smallest takes {least:,}."
    elif not any(choice.parts for choice in plan):
        note = "No synopsis saves anything beyond the zone map on these queries."
    return Plan(tuple(plan), budget, single, _false_rows(best), tuple(map(tuple, tried)), note)


def spend_beyond(plan: Plan, most: int, price: Callable[[Profile], float]) -> Plan:
    """The plan with what pays although the budget is spent, up to ``most`` bytes in all.

    ``price`` is the weighted rows that a byte has to spare the queries of a profile. Only profiles are tried whose
    queries read more for nothing than as many bytes as the whole budget cost. What leaves most after its price comes
    first.
    """
    choices = list(plan.choices)
    prices = [price(each.profile) for each in choices]
    fronts = {
        at: _pareto_front(each.profile, candidates(each.profile, most))
        for at, each in enumerate(choices)
        if each.false_rows > prices[at] * plan.budget
    }

    def cost(at: int, choice: SynopsisChoice) -> float:
        return choice.false_rows + prices[at] * choice.total

    while True:
        left = most - _total(choices)
        fitting = [
            (cost(at, each) - cost(at, choices[at]), at, each)
            for at, front in fronts.items()
            for each in front
            if each.total - choices[at].total <= left
        ]
        net, at, best = min(fitting, key=lambda one: one[0], default=(0.0, 0, None))
        if best is None or net >= 0:
            return replace(plan, choices=tuple(choices))
        choices[at] = best


def _false_rows(choices: Sequence[SynopsisChoice]) -> float:
    return sum(choice.false_rows for choice in choices)


def _total(choices: Sequence[SynopsisChoice]) -> int:
    tables = {choice.profile.column: choice.table.shared for choice in choices if choice.table is not None}
    own = sum(part.total - part.shared for choice in choices for part in choice.parts)
    return own + sum(tables.values())


def bound_over(choices: Sequence[SynopsisChoice]) -> float:
    """What the rate of false positives of a column stays below, over all groups of its blocks.

    A query counts as often as it is asked of any group, and for it the blocks that it is asked of.
    """
    weights = np.array([choice.profile.weights for choice in choices])
    wrong, possible = np.zeros(weights.shape[1]), np.zeros(weights.shape[1])
    for choice in choices:
        profile, absent = choice.profile, ~choice.profile.holding
        scale = profile.weights * profile.in_all / max(1, len(profile.blocks))
        wrong += scale * (_kept_blocks(profile, choice.parts) & absent).sum(axis=1)
        possible += scale * absent.sum(axis=1)
    asked = np.where(possible > 0, weights.max(axis=0, initial=0.0), 0.0)
    if not asked.any():
        return 1.0
    shares = asked / asked.sum()
    rate = float(shares @ np.divide(wrong, possible, out=np.zeros_like(wrong), where=possible > 0))
    return _hoeffding_bound(rate, shares, sum(math.log(choice.tried) for choice in choices))


def drop_useless_parts(choice: SynopsisChoice, least: float = 0.02) -> SynopsisChoice:
    """The choice without the parts that save hardly anything: synopses take time to make, not bytes alone.

    A plan may use all of its budget, for the last rows that it can save on the queries it is chosen by. What saves less
    than the share ``least`` of all rows will not be noticed on others.
    """
    best, profile = choice, choice.profile
    for parts in ((), *((part,) for part in choice.parts)):
        kept = _evaluate(profile, parts, choice.tried)
        if kept.false_rows - choice.false_rows < least * profile.asked_rows and len(parts) < len(best.parts):
            best = kept
    return best


def _pareto_front(profile: Profile, tried: Sequence[Candidate]) -> list[SynopsisChoice]:
    """Every candidate and every pair of different kinds, from nothing up, each cheaper than all that save as much."""
    count = len(tried) * (len(tried) + 1) // 2 + 1
    nothing = _evaluate(profile, (), count)
    pairs = [(one, two) for one, two in combinations(tried, 2) if one.kind is not two.kind]
    made = [_evaluate(profile, parts, count) for parts in [*((each,) for each in tried), *pairs]]
    front = [nothing]
    for choice in sorted(made, key=lambda each: (each.total, each.false_rows)):
        if choice.false_rows < front[-1].false_rows:
            front.append(choice)
    return front


def _evaluate(profile: Profile, parts: tuple[Candidate, ...], tried: int) -> SynopsisChoice:
    kept = _kept_blocks(profile, parts)
    rate = profile.rate(kept)
    bound = _hoeffding_bound(rate, profile.shares, math.log(tried)) if profile.shares.any() else 1.0
    return SynopsisChoice(profile, parts, profile.false_rows(kept), rate, bound, tried)


def _kept_blocks(profile: Profile, parts: Sequence[Candidate]) -> Mask:
    kept = parts[0].kept if parts else profile.answers(zone_map(profile))
    for part in parts[1:]:
        kept = kept & part.kept
    return kept


def _hoeffding_bound(rate: float, shares: npt.NDArray[np.float64], log_tried: float) -> float:
    """Hoeffding's bound on the true rate of the best of several tries, with queries of these shares."""
    slack = math.sqrt((log_tried - math.log(1 - _CONFIDENCE)) * float(shares @ shares) / 2)
    return min(1.0, rate + slack)


def _improve(
    start: Sequence[SynopsisChoice], options: Sequence[list[SynopsisChoice]], budget: int
) -> list[SynopsisChoice]:
    """A plan after the changes that save the most rows for each byte more, one by one, as long as any fits."""
    chosen = list(start)
    left = budget - _total(chosen)
    while True:
        best, gain = None, 0.0
        for place, alternatives in enumerate(options):
            now, table = chosen[place], _other_table(chosen, place)
            for choice in alternatives:
                if table is not None and choice.table is not None and choice.table.per_block != table.per_block:
                    continue
                price = _price_beside(choice, table) - _price_beside(now, table)
                if choice.false_rows < now.false_rows and price <= left:
                    worth = (now.false_rows - choice.false_rows) / max(price, 1)
                    if worth > gain:
                        best, gain = (place, choice), worth
        if best is None:
            return chosen
        place, choice = best
        chosen[place] = choice
        left = budget - _total(chosen)


def _other_table(chosen: Sequence[SynopsisChoice], place: int) -> Candidate | None:
    """The global range table that another group of the same column has."""
    column = chosen[place].profile.column
    others = (choice for at, choice in enumerate(chosen) if at != place and choice.profile.column == column)
    return next((choice.table for choice in others if choice.table is not None), None)


def _price_beside(choice: SynopsisChoice, table: Candidate | None) -> int:
    """The bytes of a choice, without those of the column's global range table if another group has paid for it."""
    return choice.total - (choice.table.shared if table is not None and choice.table is not None else 0)


def _singles(
    profiles: Sequence[Profile],
    tried: Sequence[Sequence[Candidate]],
    options: Sequence[list[SynopsisChoice]],
    wanting: Sequence[bool],
    budget: int,
) -> dict[str, list[SynopsisChoice]]:
    """Every plan of one kind at one size, wherever there is something to save, that the budget allows.

    The zone map alone is always one.
    """
    plans = {"zone map": [choices[0] for choices in options]}
    for kind in TRIALS:
        for size in sorted({candidate.per_block for each in tried for candidate in each if candidate.kind is kind}):
            parts = [[c for c in each if c.kind is kind and c.per_block == size] for each in tried]
            if any(more and not each for more, each in zip(wanting, parts, strict=True)):
                continue
            plan = [
                _evaluate(profile, (each[0],), choices[0].tried) if each else choices[0]
                for profile, each, choices in zip(profiles, parts, options, strict=True)
            ]
            if _total(plan) <= budget:
                plans[f"{kind} of {size} bytes"] = plan
    return plans
