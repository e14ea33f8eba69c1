#include "passes/plan/bound.h"

#include "passes/plan/storage_graph.h"

#include <algorithm>

namespace isthmus::plan {
namespace {

// The storage behind a read.
Read rootOf(const Problem &p, Read r) {
  while (p.ops[r.op].isView())
    r = p.ops[r.op].inputs[p.ops[r.op].viewOf];
  return r;
}

int64_t bytesOf(const Problem &p, const Read &root) {
  const Op &op = p.ops[root.op];
  return op.persistent || root.output >= op.outputBytes.size()
             ? 0
             : p.rounded(op.outputBytes[root.output]);
}

int64_t bytesOfAll(const Problem &p, const std::vector<Read> &reads) {
  std::vector<Read> roots;
  int64_t bytes = 0;
  for (const Read &r : reads) {
    Read root = rootOf(p, r);
    if (std::find(roots.begin(), roots.end(), root) != roots.end())
      continue;
    roots.push_back(root);
    bytes += bytesOf(p, root);
  }
  return bytes;
}

} // namespace

int64_t lowestPeak(const Problem &p) {
  std::vector<char> needed = neededOps(p);
  int64_t most = bytesOfAll(p, p.outputs);
  for (OpIndex i = 0; i < p.ops.size(); ++i) {
    const Op &op = p.ops[i];
    if (!needed[i] || op.isView())
      continue;
    int64_t bytes = p.rounded(op.workspace) + bytesOfAll(p, op.inputs);
    for (uint32_t o = 0; o < op.outputBytes.size(); ++o) {
      int64_t own = p.rounded(op.outputBytes[o]);
      bool mayShare =
          std::any_of(op.mayReuse.begin(), op.mayReuse.end(), [&](const Op::Reuse &pair) {
            return pair.output == o && bytesOf(p, rootOf(p, op.inputs[pair.input])) >= own;
          });
      bytes += mayShare ? 0 : own;
    }
    most = std::max(most, bytes);
  }
  return most;
}

} // namespace isthmus::plan
