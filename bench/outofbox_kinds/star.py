"""A star with its joins made: sales with the attributes of product, store and customer, and reports that recur.

Rows arrive by the day of the order. Twelve templates, a few of them asked most of the time; regions, categories and the
like recur, since some are asked for far more often than others, while days and prices vary.
"""

from __future__ import annotations

import numpy as np

from bench.outofbox_filters import Filter, Holds, OneOf, Or, Range, both
from bench.outofbox_kinds.table import Kind, Table, Template, ask, texts, zipf, zipf_shares

DAYS = 1_096
FIRST_DAY = np.datetime64("2022-01-01")
REGIONS = ("north", "south", "east", "west", "central")
COUNTRIES = tuple(f"country {number:02}" for number in range(25))
CATEGORIES = (
    *("beauty", "books", "clothing", "electronics", "food", "garden"),
    *("home", "music", "office", "shoes", "sports", "toys"),
)
BRANDS = tuple(f"brand {number:02}" for number in range(60))
SEGMENTS = ("consumer", "corporate", "home office", "public", "small business")
AGES = ("18-24", "25-34", "35-44", "45-54", "55-64", "65+")
CHANNELS = ("store", "web", "app", "partner")
PROMOTIONS = ("none", *(f"promotion {number:02}" for number in range(1, 20)))
PAYMENTS = ("card", "cash", "invoice", "transfer", "voucher")
MODES = ("ground", "air", "rail", "ship", "truck", "mail", "courier")
PRIORITIES = ("1-urgent", "2-high", "3-medium", "4-low", "5-none")


def star(rows: int, queries: int, later: int, rng: np.random.Generator) -> Kind:
    table = _sales(rows, rng)
    train, followed = ask(_templates(rng), queries, later, rng, first="2025-01-02", days=60, skew=1.0)
    return Kind(table, train, followed)


def _sales(rows: int, rng: np.random.Generator) -> Table:
    order_day = np.sort(rng.integers(0, DAYS, rows))
    ship_days = rng.poisson(4, rows)
    promised_days = 3 + rng.integers(0, 4, rows)
    store, product, customer = zipf(rng, 200, 0.7, rows), zipf(rng, 5_000, 0.8, rows), rng.integers(0, 50_000, rows)
    country_of_store = zipf(rng, 25, 0.6, 200)
    category_of_product, brand_of_product = rng.integers(0, 12, 5_000), rng.integers(0, 60, 5_000)
    segment_of_customer, age_of_customer = rng.integers(0, 5, 50_000), rng.integers(0, 6, 50_000)
    price_of_product = np.round(rng.lognormal(3.2, 1.0, 5_000), 2)
    quantity = 1 + zipf(rng, 50, 1.1, rows)
    discount = rng.choice(11, rows, p=zipf_shares(11, 0.9)) / 100
    price = price_of_product[product]
    return Table(
        "star",
        {
            "sale_id": np.arange(rows, dtype=np.int64),
            "order_day": FIRST_DAY + order_day,
            "ship_day": FIRST_DAY + order_day + ship_days,
            "promised_day": FIRST_DAY + order_day + promised_days,
            "store_id": store,
            "country": texts(COUNTRIES, country_of_store[store]),
            "region": texts(REGIONS, country_of_store[store] % 5),
            "product_id": product,
            "category": texts(CATEGORIES, category_of_product[product]),
            "brand": texts(BRANDS, brand_of_product[product]),
            "customer_id": customer,
            "segment": texts(SEGMENTS, segment_of_customer[customer]),
            "age": texts(AGES, age_of_customer[customer]),
            "channel": texts(CHANNELS, zipf(rng, 4, 0.8, rows)),
            "promotion": texts(PROMOTIONS, zipf(rng, 20, 1.4, rows)),
            "payment": texts(PAYMENTS, zipf(rng, 5, 0.7, rows)),
            "ship_mode": texts(MODES, rng.integers(0, 7, rows)),
            "priority": texts(PRIORITIES, rng.integers(0, 5, rows)),
            "returned": (rng.random(rows) < 0.04).astype(np.int32),
            "quantity": quantity.astype(np.int32),
            "price": price,
            "discount": discount,
            "revenue": np.round(price * quantity * (1 - discount), 2),
        },
    )


def _templates(rng: np.random.Generator) -> dict[str, Template]:
    def one(names: tuple[str, ...], exponent: float = 1.0) -> str:
        return names[int(rng.choice(len(names), p=zipf_shares(len(names), exponent)))]

    def some(names: tuple[str, ...], count: int) -> tuple[str, ...]:
        picked = rng.choice(len(names), count, replace=False, p=zipf_shares(len(names), 1.0))
        return tuple(names[number] for number in sorted(picked))

    def month(column: str = "order_day") -> Filter:
        start = FIRST_DAY.astype("datetime64[M]") + rng.integers(0, 36)
        return Range(column, start.astype("datetime64[D]"), (start + 1).astype("datetime64[D]"), below=True)

    def quarter() -> Filter:
        start = FIRST_DAY.astype("datetime64[M]") + 3 * rng.integers(0, 12)
        return Range("order_day", start.astype("datetime64[D]"), (start + 3).astype("datetime64[D]"), below=True)

    def year() -> Filter:
        start = np.datetime64("2022") + rng.integers(0, 3)
        return Range("order_day", start.astype("datetime64[D]"), (start + 1).astype("datetime64[D]"), below=True)

    def is_one(column: str, names: tuple[str, ...]) -> Filter:
        return OneOf(column, (one(names),))

    def late_parcels(_: float) -> Filter:
        return both(OneOf("ship_mode", some(MODES, 2)), Holds("promised_day < ship_day"), year())

    def bulk_or_dear(_: float) -> Filter:
        brands = some(BRANDS, 3)
        many = both(OneOf("brand", brands[:1]), Range("quantity", 20, 30))
        dear = both(OneOf("brand", brands[1:]), Range("price", low=80, above=True))
        return both(OneOf("channel", ("app", "web")), Or((many, dear)))

    revenue = "sum(revenue) AS revenue"
    return {
        "region month": Template(lambda _: both(is_one("region", REGIONS), month()), revenue, "category"),
        "returns": Template(lambda _: both(OneOf("returned", (1,)), quarter()), revenue, "brand"),
        "category year": Template(lambda _: both(is_one("category", CATEGORIES), year()), revenue, "region"),
        "segment channel": Template(
            lambda _: both(is_one("segment", SEGMENTS), is_one("channel", CHANNELS), month()), revenue
        ),
        "brand": Template(lambda _: both(is_one("brand", BRANDS), is_one("country", COUNTRIES)), revenue),
        "late parcels": Template(late_parcels, "avg(quantity) AS quantity", "ship_mode"),
        "discounts": Template(
            lambda _: both(
                Range("discount", low=round(rng.integers(5, 9) / 100, 2)),
                Range("quantity", high=int(rng.integers(3, 6)), below=True),
                year(),
            ),
            revenue,
        ),
        "promotion": Template(lambda _: both(is_one("promotion", PROMOTIONS[1:]), quarter()), revenue, "channel"),
        "bulk or dear": Template(bulk_or_dear, revenue),
        "ages": Template(
            lambda _: both(OneOf("age", some(AGES, 2)), is_one("category", CATEGORIES), is_one("region", REGIONS)),
            revenue,
            "age",
        ),
        "customer": Template(lambda _: OneOf("customer_id", (int(rng.integers(0, 50_000)),)), revenue),
        "urgent": Template(
            lambda _: both(OneOf("priority", ("1-urgent", "2-high")), is_one("payment", PAYMENTS), month("ship_day")),
            revenue,
            "priority",
        ),
    }
