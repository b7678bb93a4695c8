"""What the API answers: the same as the public API says, and a refusal for whatever it must not do."""

from __future__ import annotations

import json

import httpx
import pytest

import sidestep
from tests.console.conftest import JOIN, QUERY


@pytest.fixture
def client(served):
    with httpx.Client(base_url=served.url, timeout=300) as made:
        yield made


def finish(client, kind, request):
    """What came of a job, which is followed by its events."""
    reply = client.post(f"/api/jobs/{kind}", json=request)
    assert reply.status_code == 202, reply.text
    id, steps = reply.json()["id"], []
    with client.stream("GET", "/api/jobs/events") as events:
        for line in events.iter_lines():
            if line.startswith("data: "):
                job = json.loads(line.removeprefix("data: "))
                if job["id"] == id:
                    steps.append(job["step"])
                    if job["state"] in ("done", "failed", "stopped"):
                        break
    return client.get(f"/api/jobs/{id}").json(), [step for step in steps if step]


def test_the_workspace(client, served):
    found = client.get("/api/workspace").json()
    assert {"items", "sales"} <= {one["name"] for one in found["tables"]}
    assert [one["name"] for one in found["logs"]] == ["queries.sql"]
    assert found["folders"] == [str(served.root)]


def test_a_table_and_its_blocks(client, spark, served):
    status = client.get("/api/tables/sales").json()
    assert (status["files"], status["indexed_files"], status["blocks"], status["indexed_rows"]) == (8, 8, 32, 16_000)
    found = client.get("/api/tables/sales/blocks", params={"column": ["id"], "offset": 4, "limit": 2}).json()
    names = [column["name"] for column in found["columns"]]
    row = dict(zip(names, found["rows"][0], strict=True))
    assert (found["total"], row["block"], row["rows"], row["min:id"], row["max:id"]) == (32, 4, 500, 2000, 2499)


def test_an_explanation_has_the_numbers_of_explain(client, spark, served):
    told = client.post("/api/explain", json={"sql": QUERY}).json()
    scan = told["scans"][0]
    session = spark.newSession()
    with sidestep.enable(session):
        path = str(served.root / "sales")
        explained = sidestep.explain(sidestep.query(session, QUERY, tables={"sales": path}))
    expected = explained.to_dict()["scans"][0]
    for name in ("files", "row_groups", "rows", "bytes"):
        assert scan[name] == expected[name]
    kinds = {one["kind"]: one["blocks"] for one in scan["blocks"]["kinds"]}
    assert sum(kinds.values()) == scan["row_groups"]["total"] == scan["blocks"]["count"]
    assert kinds["read"] == scan["row_groups"]["kept"]


def test_a_join_shows_what_flowed_and_proofs(client):
    told = client.post("/api/run", json={"sql": JOIN}).json()
    explanation = told["explanation"]
    flows = [flow for flow in explanation["graph"]["flows"] if flow["removed"]]
    assert flows
    at, sales = next((at, scan) for at, scan in enumerate(explanation["scans"]) if scan["table"] == "sales")
    assert {one["kind"] for one in sales["blocks"]["kinds"] if one["blocks"]} >= {"read", "induced predicate"}
    proofs = [
        client.get(f"/api/explanations/{explanation['id']}/scans/{at}/blocks/{number}").json()
        for number in range(sales["blocks"]["count"])
    ]
    skipped = next(proof for proof in proofs if proof["kind"] == "induced predicate")
    assert "item" in skipped["proof"]
    assert told["runs"]["on"]["rows"] < told["runs"]["off"]["rows"]
    assert told["rows"] == [told["rows"][0]]


def test_an_analysis_and_another_selection(client):
    job, _ = finish(client, "analyze", {"log": "queries.sql"})
    assert job["state"] == "done", job["error"]
    result = job["result"]
    assert result["failures"] == 1
    assert len(result["statements"]) > 3
    fewer = client.post(
        f"/api/jobs/{job['id']}/select", json={"table": "sales", "num_features": 2, "threshold": 5}
    ).json()
    assert len(fewer["features"]) == 2
    assert fewer["feature_set"]["found"]["threshold"] == 5
    assert (
        fewer["curves"]["stability"]
        == next(t for t in result["tables"] if t["table"] == "sales")["curves"]["stability"]
    )
    refused = client.post(f"/api/jobs/{job['id']}/select", json={"table": "nothing"})
    assert refused.status_code == 400


HOSTILE = [
    "DROP TABLE sales",
    "DELETE FROM sales",
    "INSERT INTO sales SELECT * FROM sales",
    "CREATE TABLE x AS SELECT 1",
    "SET spark.sql.ansi.enabled=false",
    "SELECT * FROM parquet.`/etc`",
    "SELECT * FROM text.`/etc/passwd`",
    "SELECT * FROM other",
    "SELECT * FROM global_temp.x",
    "SELECT reflect('java.lang.System', 'exit', 1)",
    "SELECT 1; DROP TABLE sales",
    "SELECT TRANSFORM(id) USING 'sh' FROM sales",
    "SHOW TABLES",
    "ADD JAR '/tmp/x.jar'",
    "EXPLAIN SELECT 1",
    "not a query at all",
]


@pytest.mark.parametrize("sql", HOSTILE)
def test_only_queries_of_open_tables(client, sql):
    for path in ("/api/explain", "/api/run"):
        reply = client.post(path, json={"sql": sql})
        assert reply.status_code == 400
        assert reply.json()["error"].endswith((".", ")"))


@pytest.mark.parametrize(
    "path",
    [
        "/api/tables/..%2F..%2Fetc",
        "/api/tables/%2Fetc/blocks",
        "/page/..%2Fapi.py",
        "/page/%2e%2e%2fapi.py",
        "/page/../api.py",
        "/api/jobs/999999",
        "/api/explanations/1/scans/0/blocks/999999999",
    ],
)
def test_paths_lead_nowhere(client, path):
    reply = client.get(path)
    assert reply.status_code == 404
    assert "error" in reply.json()


def test_requests_that_are_refused(client, served):
    for kind, request in (
        ("load", {"table": "sales", "log": "queries.sql", "target": "../out"}),
        ("load", {"table": "sales", "log": "queries.sql", "target": "sales"}),
        ("index", {"table": "nothing"}),
        ("analyze", {"log": "../queries.sql"}),
        ("analyze", {"log": "queries.sql", "more": 1}),
    ):
        assert client.post(f"/api/jobs/{kind}", json=request).status_code in (400, 404, 422), request
    assert client.post("/api/explain", content=b"{", headers={"Content-Type": "application/json"}).status_code == 422
    assert client.get("/api/workspace", headers={"Host": "evil.example"}).status_code == 421
    huge = client.post("/api/explain", json={"sql": "SELECT 1 -- " + "x" * 2_000_000})
    assert huge.status_code == 413


def test_a_query_that_takes_too_long_is_ended(served, spark):
    queries = served.console.queries
    limits, queries.limits = queries.limits, type(queries.limits)(seconds=0.2)
    try:
        with pytest.raises(sidestep.SidestepError, match=r"ended after 0\.2 s"):
            queries.run("SELECT count(*) FROM range(1000000000000)", {})
    finally:
        queries.limits = limits


def test_results_are_cut(served, client):
    queries = served.console.queries
    limits, queries.limits = queries.limits, type(queries.limits)(rows=3)
    try:
        told = client.post("/api/run", json={"sql": "SELECT * FROM sales ORDER BY id", "both": False}).json()
    finally:
        queries.limits = limits
    assert (len(told["rows"]), told["more"], told["rows"][0][0]) == (3, True, 0)
