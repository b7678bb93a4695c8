"""A layout that was chosen for a log, as a write needs it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from sidestep.advisor.layouts.choose import ChosenLayout
from sidestep.spark.organize.featurize import CheckedFeatures
from sidestep.store.sidecars.layout import LayoutSpec
from sidestep.synopsis.recipe import Recipe
from sidestep.synopsis.value_set import VALUES


def spec_of(chosen: ChosenLayout, checked: CheckedFeatures, spec: LayoutSpec) -> LayoutSpec:
    """A layout's parameters with those that were chosen, for the features that can be used here."""
    choice = chosen.layout
    place = {feature: number for number, feature in enumerate(choice.features.features)}
    left = [place[feature] for feature in checked.features.features]
    tree = None if choice.tree is None else choice.tree.renumber({old: new for new, old in enumerate(left)})
    return replace(
        spec,
        by=choice.by,
        order=choice.order,
        buckets=choice.buckets,
        features=id_of(checked),
        demands=choice.demands.restrict(left).demands,
        demands_of=checked.features.id,
        tree=tree,
        tree_units=choice.tree_units if tree == choice.tree else (0,),
        family=choice.family,
        page_order=choice.pages.columns,
        page_share=choice.pages.share,
        expected=next((trial.rows for trial in chosen.trials if trial.family == choice.family), None),
        source="",
    )


def id_of(checked: CheckedFeatures) -> str | None:
    """The id of the features, if there are any."""
    return checked.features.id if len(checked.features) else None


def with_value_sets(
    recipes: Mapping[str, Recipe], few_valued: Collection[str], named: Collection[str]
) -> dict[str, Recipe]:
    """The recipes with sets of values for the columns of few that queries filter: the layout tells those apart.

    Columns that are named have what their user said.
    """
    listed = [name for name in few_valued if name not in named and name in recipes]
    return {**recipes, **{name: recipes[name].with_size(VALUES, VALUES.sizes.usual) for name in listed}}
