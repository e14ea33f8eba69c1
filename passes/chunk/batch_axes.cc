#include "passes/chunk/batch_axes.h"

#include "ir/diagnostics.h"
#include "ir/spelling.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <numeric>

namespace isthmus {
namespace {

struct Place { // a value and one of its cuts
  ValueId value;
  AxisCut cut;
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
  Axes(const Graph &g, llvm::ArrayRef<BatchRequest> requests)
      : g_(g), requests_(requests), uses_(g) {}

  llvm::Expected<BatchAxes> run() {
    if (llvm::Error e = takeRequests())
      return e;
    if (reached_.places.size() == 0)
      findFirst();
    for (const Input &i : g_.inputs()) {
      const bool hasExamples = i.kind == InputKind::Input && !isWhole(i);
      out_.ofInputs.push_back(hasExamples ? cutOf(i) : std::nullopt);
      if (const auto &cut = out_.ofInputs.back())
        out_.examples = std::gcd(out_.examples, cut->innerOf(g_.type(i.value)));
    }
    return std::move(out_);
  }

private:
  struct Reach {
    Places places;
    size_t wholes = 0; // nodes that need all of the axis
  };

  llvm::Error takeRequests() {
    for (const BatchRequest &r : requests_) {
      const ValueId v = g_.find(r.input);
      const auto input =
          llvm::find_if(g_.inputs(), [&](const Input &i) { return v && i.value == v; });
      const std::string name = "'" + valueText(r.input) + "'";
      if (input == g_.inputs().end() || input->kind != InputKind::Input)
        return makeError("expected an input of the step that has examples, or none, got {0}, which "
                         "{1}",
                         name,
                         !v                           ? "is not there"
                         : input == g_.inputs().end() ? "a node makes"
                                                      : "is a parameter, a state or a constant");
      const Type &type = g_.type(v);
      if (r.axis && *r.axis >= type.dims.size())
        return makeError("{0} is {1}: it has no axis {2} with examples", name, type.str(), *r.axis);
      if (r.axis && examples_ == 0)
        examples_ = type.dims[*r.axis];
      if (r.axis)
        share({v, {*r.axis}}, reached_);
    }
    return llvm::Error::success();
  }
  bool isWhole(const Input &i) const {
    return llvm::any_of(requests_, [&](const BatchRequest &r) {
      return !r.axis && g_.valueName(i.value) == r.input;
    });
  }

  void findFirst() {
    for (int64_t least : {2, 1}) // a single row is mostly of all examples
      for (size_t i = 0; i < g_.inputs().size(); ++i)
        if (const Input &input = g_.inputs()[i];
            input.kind == InputKind::Input && !isWhole(input) && sizeOf(input) >= least)
          return takeFirst(i);
  }
  void takeFirst(size_t input) {
    const ValueId v = g_.inputs()[input].value;
    share({v, {}}, reached_);
    examples_ = g_.type(v).dims[0];
    if (reached_.wholes == 0)
      return;
    for (uint32_t axis = 1; axis < g_.type(v).dims.size(); ++axis) {
      if (g_.type(v).dims[axis] < 2)
        continue;
      Reach other;
      share({v, {axis}}, other);
      if (other.wholes < reached_.wholes &&
          10 * other.places.size() >= 9 * reached_.places.size()) {
        reached_ = std::move(other);
        examples_ = g_.type(v).dims[axis];
        out_.found = input;
      }
    }
  }

  int64_t sizeOf(const Input &i) const {
    const Dims &dims = g_.type(i.value).dims;
    return dims.empty() ? 0 : dims[0];
  }

  std::optional<AxisCut> cutOf(const Input &i) {
    if (const auto found = reached_.places.of(i.value); !found.empty())
      return *std::min_element(found.begin(), found.end(), [](AxisCut a, AxisCut b) {
        return std::pair(a.axis, a.outer) < std::pair(b.axis, b.outer);
      });
    const int64_t size = sizeOf(i);
    if (examples_ == 0 || size == 0 || size % examples_ != 0)
      return std::nullopt;
    Reach own;
    share({i.value, {}}, own);
    return isOther(own.places) ? std::nullopt : std::optional<AxisCut>(AxisCut());
  }

  // Whether an axis that all these places share counts something else.
  bool isOther(const Places &places) const {
    return llvm::any_of(g_.inputs(), [&](const Input &i) {
      return !places.of(i.value).empty() &&
             (i.kind != InputKind::Input || !reached_.places.of(i.value).empty());
    });
  }

  // Adds the places that are cut where `first` is, by all nodes between them. A node that needs the
  // whole of the axis keeps it where a result has its operand's sizes.
  void share(Place first, Reach &reach) {
    Places &found = reach.places;
    llvm::DenseSet<NodeId> wholes;
    size_t i = found.size();
    found.add(first);
    for (; i < found.size(); ++i) {
      const Place from = found[i];
      if (const NodeId def = g_.value(from.value).def; def && !Graph::isReplaced(def))
        addFrom(def, from, found, wholes);
      for (NodeId reader : uses_.of(from.value))
        addFrom(reader, from, found, wholes);
    }
    reach.wholes += wholes.size();
  }

  void addFrom(NodeId id, Place from, Places &found, llvm::DenseSet<NodeId> &wholes) {
    const Node &n = g_.node(id);
    if (n.isStandIn())
      return;
    const OpCall call = g_.call(id);
    forEach(n, [&](ValueId v, CallPlace place) {
      if (v != from.value)
        return;
      const std::optional<CallCuts> cuts = cutsOf(call, place, from.cut);
      if (!cuts)
        wholes.insert(id);
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
  const llvm::ArrayRef<BatchRequest> requests_;
  const Uses uses_;
  Reach reached_;        // from the inputs that were named, or the first
  int64_t examples_ = 0; // of the first of these
  BatchAxes out_;
};

} // namespace

llvm::Expected<BatchRequest> parseBatchRequest(llvm::StringRef text) {
  auto [name, what] = text.rsplit(':');
  name.consume_front("%");
  BatchRequest r{name.str(), std::nullopt};
  if (!name.empty() && what == "whole")
    return r;
  uint32_t axis = 0;
  if (name.empty() || !what.consume_front("axis=") || what.getAsInteger(10, axis))
    return makeError("expected an input and the axis of its examples, as in '%x:axis=1', or an "
                     "input without examples, '%mask:whole', got '{0}'",
                     text);
  r.axis = axis;
  return r;
}

llvm::Expected<BatchAxes> batchAxes(const Graph &g, llvm::ArrayRef<BatchRequest> requests) {
  return Axes(g, requests).run();
}

} // namespace isthmus
