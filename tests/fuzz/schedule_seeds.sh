# Writes seeds for schedules: valid and invalid ones of the fuzzer's own problem.
# Usage: bash schedule_seeds.sh FOLDER
set -euo pipefail
n=0
for schedule in '[1, 2, 3, 4, 5, 6, 7, 8]' '[1, 2, 3, 4, 1, 5, 6, 7, 6, 8]' '[1, 2, 3, 1, 2, 3, 4, 5, 6, 7, 7, 8]' \
  '[1, 2, 3, 4, 5, 6, 7, 8, 1]' '[1, 2, 3, 4, 5, 6, 7, 8, 7]' '[1, 2, 3, 4, 5, 6, 7, 8, 8]' '[1, 2, 3, 4, 5]' '[]' '[5]' '[4294967296]' '[-1]' '[1.5]' '{}'; do
  echo "{\"graph\": \"g\", \"schedule\": $schedule}" >"$1/$((n += 1))"
done
echo '{"graph": "h", "schedule": [1]}' >"$1/other"
echo '{"graph": "g", "schedule": [1], "schedule": [2]}' >"$1/twice"
