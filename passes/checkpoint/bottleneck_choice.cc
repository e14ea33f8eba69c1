#include "passes/checkpoint/bottleneck_choice.h"

#include "passes/checkpoint/bottlenecks.h"
#include "llvm/ADT/DenseSet.h"
#include <cmath>

namespace isthmus {
namespace {

using Decision = BottleneckChoice::Decision;

// The decision by properties of the value alone; Taken if none of them excludes it.
Decision decisionAlone(const Graph &g, ValueId v, int64_t smallest) {
  NodeId def = g.value(v).def;
  if (!def || g.node(def).phase != Phase::Forward)
    return Decision::NotForward;
  if (g.type(v).elements() < smallest)
    return Decision::Small;
  return g.node(def).op->is(kNotACheckpoint) ? Decision::KindOfOp : Decision::Taken;
}

// The largest share of the forward part's bytes between two neighbouring bottlenecks, or before the
// first or after the last. If one segment is most of the network, as in a U-Net, bottlenecks
// elsewhere do not help.
double largestPiece(const Graph &g, llvm::ArrayRef<ValueId> roots,
                    llvm::ArrayRef<ValueId> bottlenecks) {
  llvm::DenseSet<ValueId> ends(bottlenecks.begin(), bottlenecks.end());
  double total = 0, piece = 0, largest = 0;
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    const Node &n = g.node(NodeId(i));
    for (uint32_t r = 0; n.phase == Phase::Forward && r < n.numResults; ++r) {
      ValueId v = n.result(r);
      double bytes = roots[v.index] == v ? double(g.type(v).bytes()) : 0;
      total += bytes;
      largest = std::max(largest, piece += bytes);
      if (ends.count(v))
        piece = 0;
    }
  }
  return total > 0 ? largest / total : 0;
}

} // namespace

std::vector<ValueId> BottleneckChoice::taken() const {
  std::vector<ValueId> out;
  for (const Candidate &c : candidates)
    if (c.decision == Decision::Taken)
      out.push_back(c.value);
  return out;
}

BottleneckChoice chooseBottlenecks(const Graph &g, llvm::ArrayRef<ValueId> roots,
                                   int64_t smallest) {
  BottleneckChoice out;
  llvm::DenseSet<ValueId> readByBackward;
  for (uint32_t i = 0; i < g.numNodes(); ++i)
    if (const Node &n = g.node(NodeId(i)); n.phase == Phase::Backward)
      for (ValueId v : n.operands)
        readByBackward.insert(roots[v.index]);
  for (uint32_t i = 0; i < g.numValues(); ++i)
    out.numRead += decisionAlone(g, ValueId(i), smallest) == Decision::Taken &&
                   roots[i] == ValueId(i) && readByBackward.count(ValueId(i));
  out.target = std::sqrt(double(out.numRead));

  std::vector<size_t> all, read; // indices of candidates
  llvm::DenseSet<ValueId> seen;
  for (ValueId v : bottlenecks(g)) {
    Decision decision = decisionAlone(g, v, smallest);
    if (decision == Decision::Taken && !seen.insert(roots[v.index]).second)
      decision = Decision::SameStorage;
    if (decision == Decision::Taken) {
      all.push_back(out.candidates.size());
      if (readByBackward.count(roots[v.index]))
        read.push_back(out.candidates.size());
    }
    out.candidates.push_back({v, decision});
  }
  const bool amongRead = double(read.size()) >= out.target;
  const std::vector<size_t> &from = amongRead ? read : all;
  std::vector<ValueId> values;
  for (size_t i : from)
    values.push_back(out.candidates[i].value);
  out.isEnough = double(from.size()) >= out.target && largestPiece(g, roots, values) <= 0.5;
  if (amongRead)
    for (size_t i : all)
      if (!readByBackward.count(roots[out.candidates[i].value.index]))
        out.candidates[i].decision = Decision::NotRead;
  if (out.numRead == 0 || double(from.size()) <= std::ceil(out.target))
    return out;
  out.step = static_cast<size_t>(std::ceil(double(from.size()) / out.target));
  for (size_t i = 0; i < from.size(); ++i)
    if (i < out.step || i % out.step != 0)
      out.candidates[from[i]].decision = Decision::InSegment;
  return out;
}

} // namespace isthmus
