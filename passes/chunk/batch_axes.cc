#include "passes/chunk/batch_axes.h"

#include "ir/factors.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/SetVector.h"

namespace isthmus {
namespace {

using Place = std::pair<ValueId, uint32_t>; // a value and one of its axes

class Axes {
public:
  explicit Axes(const Graph &g) : g_(g), uses_(g), factors_(g.numNodes()) {}

  std::vector<std::optional<uint32_t>> run() {
    for (int64_t least : {2, 1}) // a single row is mostly of all examples
      for (const Input &i : g_.inputs())
        if (i.kind == InputKind::Input && sizeOf(i) >= least && examples_ == 0) {
          reached_ = sharing({i.value, 0});
          examples_ = sizeOf(i);
        }
    std::vector<std::optional<uint32_t>> out;
    for (const Input &i : g_.inputs())
      out.push_back(i.kind == InputKind::Input ? axisOf(i) : std::nullopt);
    return out;
  }

private:
  int64_t sizeOf(const Input &i) const {
    const Dims &dims = g_.type(i.value).dims;
    return dims.empty() ? 0 : dims[0];
  }

  std::optional<uint32_t> axisOf(const Input &i) {
    for (uint32_t axis = 0; axis < g_.type(i.value).dims.size(); ++axis)
      if (reached_.count({i.value, axis}))
        return axis;
    const int64_t size = sizeOf(i);
    if (examples_ == 0 || size == 0 || size % examples_ != 0 || isOther(sharing({i.value, 0})))
      return std::nullopt;
    return 0;
  }

  // Whether an axis that all these places share counts something else.
  bool isOther(const llvm::SetVector<Place> &places) const {
    return llvm::any_of(g_.inputs(), [&](const Input &i) {
      const uint32_t rank = uint32_t(g_.type(i.value).dims.size());
      auto has = [&](const llvm::SetVector<Place> &in, uint32_t axis) {
        return in.count({i.value, axis}) > 0;
      };
      auto isIn = [&](const llvm::SetVector<Place> &in) {
        return llvm::any_of(llvm::seq(0u, rank), [&](uint32_t axis) { return has(in, axis); });
      };
      return isIn(places) && (i.kind != InputKind::Input || isIn(reached_));
    });
  }

  // The places whose axis is that of `first`, by the factors of all nodes between them. A node that
  // needs the whole of the axis keeps it where a result has its operand's sizes.
  llvm::SetVector<Place> sharing(Place first) {
    llvm::SetVector<Place> found;
    found.insert(first);
    for (size_t i = 0; i < found.size(); ++i) {
      const ValueId v = found[i].first;
      if (const NodeId def = g_.value(v).def; def && !Graph::isReplaced(def))
        addFrom(def, found[i], found);
      for (NodeId reader : uses_.of(v))
        addFrom(reader, found[i], found);
    }
    return found;
  }

  void addFrom(NodeId id, Place from, llvm::SetVector<Place> &found) {
    const Node &n = g_.node(id);
    if (n.isStandIn())
      return;
    std::optional<Factors> &f = factors_[id.index];
    if (!f)
      f = factorsOf(g_.call(id));
    forEach(n, *f, [&](ValueId v, const Factors::Axes &axes) {
      if (v != from.first)
        return;
      const uint32_t factor = axes[from.second].factor;
      forEach(n, *f, [&](ValueId other, const Factors::Axes &its) {
        if (factor == Factors::kWhole) {
          if (g_.type(other).dims == g_.type(v).dims)
            found.insert({other, from.second});
        } else if (const auto axis = Factors::axisOf(its, factor)) {
          found.insert({other, uint32_t(*axis)});
        }
      });
    });
  }

  template <typename F> static void forEach(const Node &n, const Factors &f, F use) {
    for (size_t i = 0; i < n.operands.size(); ++i)
      use(n.operands[i], f.operands[i]);
    for (uint32_t r = 0; r < n.numResults; ++r)
      use(n.result(r), f.results[r]);
  }

  const Graph &g_;
  const Uses uses_;
  std::vector<std::optional<Factors>> factors_; // by node, as far as asked for
  llvm::SetVector<Place> reached_;              // from the first input
  int64_t examples_ = 0;                        // of the first input
};

} // namespace

std::vector<std::optional<uint32_t>> batchAxes(const Graph &g) { return Axes(g).run(); }

} // namespace isthmus
