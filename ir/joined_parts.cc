#include "ir/joined_parts.h"

#include "ir/element.h"
#include "ir/rank.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/SetVector.h"
#include <algorithm>
#include <map>
#include <numeric>

namespace isthmus {
namespace {

// The indices on each axis, all written out.
using Box = llvm::SmallVector<Ints, 4>;

Box boxOf(const Type &whole, const Places &places) {
  Box box(places.size());
  for (size_t a = 0; a < box.size(); ++a) {
    if (places[a]) {
      box[a] = *places[a];
      continue;
    }
    box[a].resize(size_t(whole.dims[a]));
    std::iota(box[a].begin(), box[a].end(), 0);
  }
  return box;
}

Dims dimsOf(const Box &box) {
  Dims dims;
  for (const Ints &on : box)
    dims.push_back(int64_t(on.size()));
  return dims;
}

// The places of a part of a part in the whole.
Places composed(const Places &outer, const Places &inner) {
  Places out = outer;
  for (size_t a = 0; a < out.size(); ++a) {
    if (!inner[a] || !outer[a]) {
      out[a] = inner[a] ? inner[a] : outer[a];
      continue;
    }
    out[a]->clear();
    for (int64_t i : *inner[a])
      out[a]->push_back((*outer[a])[size_t(i)]);
  }
  return out;
}

// Start, step and count of a list of that form.
struct Run {
  int64_t start, step;
  size_t count;
  int64_t limit() const { return start + int64_t(count - 1) * step + (step > 0 ? 1 : -1); }
};
std::vector<Run> runsOf(llvm::ArrayRef<int64_t> list) {
  std::vector<Run> runs;
  while (!list.empty()) {
    Run r{list[0], 1, 1};
    if (list.size() > 1 && list[1] != list[0]) {
      r.step = list[1] - list[0];
      while (r.count < list.size() && list[r.count] == list[r.count - 1] + r.step)
        ++r.count;
    }
    runs.push_back(r);
    list = list.drop_front(r.count);
  }
  return runs;
}

constexpr size_t kMostRuns = 16;

class Joiner {
public:
  Joiner(Builder &b, const Type &whole, llvm::ArrayRef<const Part *> parts,
         llvm::function_ref<ValueId(ValueId)> given)
      : b_(b), whole_(whole), given_(given) {
    for (const Part *p : parts) {
      Source s{p, boxOf(whole, p->places), {}};
      for (size_t a = 0; a < s.box.size(); ++a) {
        s.at.emplace_back(size_t(whole.dims[a]), -1);
        for (size_t i = 0; i < s.box[a].size(); ++i)
          s.at[a][size_t(s.box[a][i])] = int64_t(i);
      }
      sources_.push_back(std::move(s));
    }
  }

  ValueId build(const Box &box) {
    if (const Source *s = holderOf(box))
      return taken(*s, box);
    for (size_t a = 0; a < box.size(); ++a) {
      const std::vector<Ints> classes = classesOf(box, a);
      if (classes.size() > 1)
        return joinedAlong(a, box, classes);
    }
    return {}; // an element that no part has
  }
  std::vector<const Part *> takeUsed() { return used_.takeVector(); }

private:
  struct Source {
    const Part *part;
    Box box;
    std::vector<Ints> at; // by axis and place: the index in the part; -1: not there
    bool has(size_t axis, int64_t place) const { return at[axis][size_t(place)] >= 0; }
  };

  const Source *holderOf(const Box &box) const {
    for (const Source &s : sources_) {
      bool holds = true;
      for (size_t a = 0; holds && a < box.size(); ++a)
        holds = llvm::all_of(box[a], [&](int64_t i) { return s.has(a, i); });
      if (holds)
        return &s;
    }
    return nullptr;
  }

  // Divides the indices on an axis by the parts that have them. Those that one part can give
  // together stay together.
  std::vector<Ints> classesOf(const Box &box, size_t axis) const {
    std::map<std::vector<bool>, Ints> bySources;
    for (int64_t i : box[axis]) {
      std::vector<bool> in;
      for (const Source &s : sources_)
        in.push_back(s.has(axis, i));
      bySources[in].push_back(i);
    }
    llvm::MapVector<const Source *, Ints> byHolder;
    std::vector<Ints> out;
    for (auto &[in, list] : bySources) {
      Box part = box;
      part[axis] = list;
      if (const Source *s = holderOf(part))
        llvm::append_range(byHolder[s], list);
      else
        out.push_back(std::move(list));
    }
    for (auto &[s, list] : byHolder) {
      llvm::sort(list, [&, s = s](int64_t i, int64_t k) {
        return s->at[axis][size_t(i)] < s->at[axis][size_t(k)];
      });
      out.push_back(std::move(list));
    }
    llvm::sort(out, [](const Ints &a, const Ints &b) { return a[0] < b[0]; });
    return out;
  }

  ValueId joinedAlong(size_t axis, const Box &box, const std::vector<Ints> &classes) {
    ValueList pieces;
    Ints order;
    for (const Ints &list : classes) {
      Box part = box;
      part[axis] = list;
      pieces.push_back(build(part));
      if (!pieces.back())
        return {};
      llvm::append_range(order, list);
    }
    const Attrs along = {{"axis", int64_t(axis)}};
    const ValueId all = b_.create("concat", pieces, along);
    if (order == box[axis])
      return all;
    if (!llvm::is_sorted(box[axis]))
      return {};
    const ValueId places = placesAsValue(axis, classes);
    if (!places)
      return {};
    const NodeId sorted =
        b_.createNode("top_k", {places}, {{"k", int64_t(order.size())}, {"largest", false}});
    return b_.create("gather", {all, b_.graph().node(sorted).result(1)}, along);
  }

  // The places of all classes, one after the other.
  ValueId placesAsValue(size_t axis, const std::vector<Ints> &classes) {
    ValueList lists;
    for (const Ints &list : classes) {
      if (const Source *s = listedBy(axis, list)) {
        const ValueId indices = b_.reshape(given_(s->part->indices), {int64_t(list.size())});
        lists.push_back(b_.cast(indices, DType::I64));
        continue;
      }
      const std::vector<Run> runs = runsOf(list);
      if (runs.size() > kMostRuns)
        return {};
      for (const Run &r : runs)
        lists.push_back(sliceOf(count(whole_.dims[axis]), {r.start}, {r.limit()}, {r.step}));
    }
    return lists.size() == 1 ? lists[0] : b_.create("concat", lists);
  }

  // A part whose own constant lists these places.
  const Source *listedBy(size_t axis, const Ints &list) const {
    for (const Source &s : sources_)
      if (s.part->indices && s.part->places[axis] && *s.part->places[axis] == list)
        return &s;
    return nullptr;
  }

  // 0, 1, ... n - 1
  ValueId count(int64_t n) {
    const ValueId ones = b_.full(Type(DType::I64, {n}), 1);
    return b_.create("cumsum", {ones}, {{"exclusive", true}});
  }

  ValueId taken(const Source &s, const Box &box) {
    Ints starts, limits, steps;
    bool isWhole = true;
    for (size_t a = 0; a < box.size(); ++a) {
      Ints at;
      for (int64_t i : box[a])
        at.push_back(s.at[a][size_t(i)]);
      const std::vector<Run> runs = runsOf(at);
      if (runs.size() != 1)
        return {};
      const Run &r = runs[0];
      isWhole &= r.start == 0 && r.step == 1 && r.count == s.box[a].size();
      starts.push_back(r.start);
      limits.push_back(r.limit());
      steps.push_back(r.step);
    }
    used_.insert(s.part);
    const ValueId v = b_.reshape(given_(s.part->value), dimsOf(s.box));
    return isWhole ? v : sliceOf(v, starts, limits, steps);
  }

  ValueId sliceOf(ValueId v, const Ints &starts, const Ints &limits, const Ints &steps) {
    return b_.create("slice", {v}, {{"starts", starts}, {"limits", limits}, {"steps", steps}});
  }

  Builder &b_;
  const Type &whole_;
  const llvm::function_ref<ValueId(ValueId)> given_;
  std::vector<Source> sources_;
  llvm::SetVector<const Part *> used_;
};

// --- Which elements the results of a node hold

// Indices from `start` on, in steps.
Ints listed(int64_t start, int64_t step, int64_t count) {
  Ints out(static_cast<size_t>(count));
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = start + int64_t(i) * step;
  return out;
}

std::optional<Places> placesOfSlice(const Graph &g, const Node &n) {
  const Dims &x = g.type(n.operands[0]).dims, &y = g.type(n.firstResult).dims;
  const Ints &starts = n.attrs.getInts("starts"), &steps = n.attrs.getInts("steps");
  Places out(x.size());
  for (size_t a = 0; a < out.size(); ++a)
    if (const int64_t step = steps.empty() ? 1 : steps[a]; y[a] != x[a] || step < 0)
      out[a] = listed(starts[a], step, y[a]);
  return out;
}

std::optional<Places> placesOfSplit(const Graph &g, const Node &n, uint32_t result) {
  const Dims &x = g.type(n.operands[0]).dims;
  const size_t axis = size_t(axisFromFront(n.attrs.getInt("axis"), int64_t(x.size())));
  const Ints &sizes = n.attrs.getInts("sizes");
  Places out(x.size());
  out[axis] =
      listed(std::accumulate(sizes.begin(), sizes.begin() + result, int64_t(0)), 1, sizes[result]);
  return out;
}

std::optional<Places> placesOfGather(const Graph &g, const ValueFacts &facts, const Node &n) {
  const Tensor *indices = facts.contents(n.operands[1]);
  if (!indices)
    return std::nullopt;
  const Dims &x = g.type(n.operands[0]).dims;
  const size_t axis = size_t(axisFromFront(n.attrs.getInt("axis"), int64_t(x.size())));
  Places out(x.size());
  out[axis].emplace();
  for (int64_t i = 0; i < indices->type.elements(); ++i) {
    const int64_t at = elementAsInt(*indices, i), place = at < 0 ? at + x[axis] : at;
    if (place < 0 || place >= x[axis])
      return std::nullopt;
    out[axis]->push_back(place);
  }
  return out;
}

// None: the result holds other elements, or it is not known which.
std::optional<Places> placesOf(const Graph &g, const ValueFacts &facts, const Node &n,
                               uint32_t result) {
  return n.op->name == "slice"    ? placesOfSlice(g, n)
         : n.op->name == "split"  ? placesOfSplit(g, n, result)
         : n.op->name == "gather" ? placesOfGather(g, facts, n)
                                  : std::nullopt;
}

// The operand that lists the places of a part on the one axis that it cuts, from zero on.
ValueId listOf(const Graph &g, const ValueFacts &facts, const Node &n, const Places &places) {
  for (ValueId v : llvm::drop_begin(n.operands)) {
    const Tensor *t = facts.contents(v);
    if (!t || (t->type.dtype != DType::I64 && t->type.dtype != DType::I32))
      continue;
    for (const auto &on : places)
      if (on && int64_t(on->size()) == t->type.elements() &&
          llvm::all_of(llvm::seq<size_t>(0, on->size()),
                       [&](size_t i) { return elementAsInt(*t, int64_t(i)) == (*on)[i]; }))
        return v;
  }
  return {};
}

} // namespace

Places allPlaces(const Type &type) { return Places(type.dims.size()); }

std::vector<Whole> wholesOf(const Graph &g, const ValueFacts &facts, size_t most) {
  struct Found {
    ValueId of;
    Part part;
  };
  llvm::DenseMap<ValueId, Found> partAt;
  llvm::MapVector<ValueId, std::vector<ValueId>> partsOf;
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    const Node &n = g.node(NodeId(i));
    if (n.phase != Phase::Forward || n.isStandIn())
      continue;
    for (uint32_t r = 0; r < n.numResults; ++r) {
      auto places = g.type(n.result(r)).elements() > 0 ? placesOf(g, facts, n, r) : std::nullopt;
      if (!places)
        continue;
      Found f{n.operands[0], {n.result(r), *places, listOf(g, facts, n, *places)}};
      if (auto outer = partAt.find(f.of); outer != partAt.end()) {
        const Found &o = outer->second;
        // A part that lacks an axis is a whole for its own parts.
        if (g.type(f.of).dims == dimsOf(boxOf(g.type(o.of), o.part.places)))
          f = {o.of, {n.result(r), composed(o.part.places, *places), {}}};
      }
      partsOf[f.of].push_back(n.result(r));
      partAt[n.result(r)] = std::move(f);
    }
  }
  std::vector<Whole> out;
  for (auto &[of, values] : partsOf) {
    if (values.size() < 2 || values.size() > most)
      continue;
    Whole w{of, {}};
    for (ValueId v : values)
      w.parts.push_back(std::move(partAt[v].part));
    out.push_back(std::move(w));
  }
  return out;
}

JoinedParts joinedParts(Builder &b, const Type &whole, const Places &places, const Dims &dims,
                        llvm::ArrayRef<const Part *> parts,
                        llvm::function_ref<ValueId(ValueId)> given) {
  Joiner joiner(b, whole, parts, given);
  const ValueId made = joiner.build(boxOf(whole, places));
  if (!made)
    return {};
  return {b.reshape(made, dims), joiner.takeUsed()};
}

} // namespace isthmus
