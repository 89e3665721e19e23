#!/bin/sh
# Checks the alert rules and the dashboard's queries with promtool, of Debian's package `prometheus`: PROMTOOL names it
# where it is not on PATH. Needs python3.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
promtool=${PROMTOOL:-promtool}

cd "$here"
"$promtool" check rules alerts.yaml
"$promtool" test rules alerts.test.yaml

# Grafana has no check of its own: each query becomes a rule, which promtool reads.
rules=$(mktemp)
trap 'rm -f "$rules"' EXIT
python3 - dashboard.json >"$rules" <<'PYTHON'
import json, sys

dashboard = json.load(open(sys.argv[1]))
queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
assert queries, "a dashboard without queries"
rules = [
    {"record": f"query_{number}", "expr": query.replace("$__rate_interval", "5m")}
    for number, query in enumerate(queries)
]
json.dump({"groups": [{"name": "dashboard", "rules": rules}]}, sys.stdout)
PYTHON
"$promtool" check rules "$rules"
