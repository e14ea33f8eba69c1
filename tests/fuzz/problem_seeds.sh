# Writes seeds for problems: small random ones with all features of the format.
# Usage: bash problem_seeds.sh FOLDER
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../e2e"
python3 - "$1" <<'END'
import json, random, sys
import joint_graphs
rng = random.Random(1)
for n in range(40):
    graph = joint_graphs.random_problem(rng, n)
    if n % 2:
        joint_graphs.add_update(rng, graph)
    with open(f"{sys.argv[1]}/random{n}", "w") as file:
        json.dump(graph, file)
for n in range(1, 4):
    with open(f"{sys.argv[1]}/chain{n}", "w") as file:
        json.dump(joint_graphs.problem(n), file)
END
