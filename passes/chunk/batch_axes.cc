#include "passes/chunk/batch_axes.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>

namespace isthmus {
namespace {

struct Place { // a value and one of its cuts
  ValueId value;
  AxisCut cut;

  bool operator==(const Place &o) const { return value == o.value && cut == o.cut; }
};

// The places in the order in which they were found, each once.
class Places {
public:
  bool has(Place p) const { return llvm::is_contained(of(p.value), p.cut); }
  llvm::ArrayRef<AxisCut> of(ValueId v) const {
    auto it = cuts_.find(v);
    return it == cuts_.end() ? llvm::ArrayRef<AxisCut>() : it->second;
  }
  void add(Place p) {
    if (has(p))
      return;
    cuts_[p.value].push_back(p.cut);
    all_.push_back(p);
  }
  size_t size() const { return all_.size(); }
  Place operator[](size_t i) const { return all_[i]; }

private:
  std::vector<Place> all_;
  llvm::DenseMap<ValueId, llvm::SmallVector<AxisCut, 1>> cuts_;
};

class Axes {
public:
  explicit Axes(const Graph &g) : g_(g), uses_(g) {}

  std::vector<std::optional<AxisCut>> run() {
    for (int64_t least : {2, 1}) // a single row is mostly of all examples
      for (const Input &i : g_.inputs())
        if (i.kind == InputKind::Input && sizeOf(i) >= least && examples_ == 0) {
          reached_ = sharing({i.value, {}});
          examples_ = sizeOf(i);
        }
    std::vector<std::optional<AxisCut>> out;
    for (const Input &i : g_.inputs())
      out.push_back(i.kind == InputKind::Input ? axisOf(i) : std::nullopt);
    return out;
  }

private:
  int64_t sizeOf(const Input &i) const {
    const Dims &dims = g_.type(i.value).dims;
    return dims.empty() ? 0 : dims[0];
  }

  std::optional<AxisCut> axisOf(const Input &i) {
    if (const auto found = reached_.of(i.value); !found.empty())
      return *std::min_element(found.begin(), found.end(), [](AxisCut a, AxisCut b) {
        return std::pair(a.axis, a.outer) < std::pair(b.axis, b.outer);
      });
    const int64_t size = sizeOf(i);
    if (examples_ == 0 || size == 0 || size % examples_ != 0 || isOther(sharing({i.value, {}})))
      return std::nullopt;
    return AxisCut();
  }

  // Whether an axis that all these places share counts something else.
  bool isOther(const Places &places) const {
    return llvm::any_of(g_.inputs(), [&](const Input &i) {
      return !places.of(i.value).empty() &&
             (i.kind != InputKind::Input || !reached_.of(i.value).empty());
    });
  }

  // The places that are cut where `first` is, by all nodes between them. A node that needs the whole
  // of the axis keeps it where a result has its operand's sizes.
  Places sharing(Place first) {
    Places found;
    found.add(first);
    for (size_t i = 0; i < found.size(); ++i) {
      const Place from = found[i];
      if (const NodeId def = g_.value(from.value).def; def && !Graph::isReplaced(def))
        addFrom(def, from, found);
      for (NodeId reader : uses_.of(from.value))
        addFrom(reader, from, found);
    }
    return found;
  }

  void addFrom(NodeId id, Place from, Places &found) {
    const Node &n = g_.node(id);
    if (n.isStandIn())
      return;
    const OpCall call = g_.call(id);
    forEach(n, [&](ValueId v, CallPlace place) {
      if (v != from.value)
        return;
      const std::optional<CallCuts> cuts = cutsOf(call, place, from.cut);
      forEach(n, [&](ValueId other, CallPlace its) {
        if (!cuts && g_.type(other).dims == g_.type(v).dims)
          found.add({other, from.cut});
        else if (const CallCuts::Of *of = cuts ? cuts->at(its) : nullptr)
          found.add({other, of->cut});
      });
    });
  }

  template <typename F> static void forEach(const Node &n, F use) {
    for (size_t i = 0; i < n.operands.size(); ++i)
      use(n.operands[i], CallPlace{CallPlace::Operand, i});
    for (uint32_t r = 0; r < n.numResults; ++r)
      use(n.result(r), CallPlace{CallPlace::Result, r});
  }

  const Graph &g_;
  const Uses uses_;
  Places reached_;       // from the first input
  int64_t examples_ = 0; // of the first input
};

} // namespace

std::vector<std::optional<AxisCut>> batchAxes(const Graph &g) { return Axes(g).run(); }

} // namespace isthmus
