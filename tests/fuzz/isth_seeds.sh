# Writes seeds for the text form: every text in the tests, and each case of the texts with errors.
# Usage: bash isth_seeds.sh FOLDER
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
n=0
while IFS= read -r file; do
  # Cases are split by `// -----`; a file without such lines is one case.
  csplit --quiet --elide-empty-files --prefix="$1/$((n += 1))-" --suppress-matched "$file" '/^\/\/ -----/' '{*}'
done < <(find tests docs -name '*.isth')
# Blocks in the docs.
for file in docs/*.md; do
  awk -v out="$1/$(basename "$file" .md)" '/^```isth/ {n++; on = 1; next} /^```/ {on = 0} on {print > (out "-" n)}' "$file"
done
