#include "ir/equal_graphs.h"

#include "ir/spelling.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus {
namespace {

bool equalData(const Tensor &a, const Tensor &b) {
  if (a.type != b.type || bool(a) != bool(b))
    return false;
  if (!a || std::memcmp(a.data, b.data, a.bytes()) == 0)
    return true;
  int64_t width = dtypeBytes(a.type.dtype);
  std::string x, y;
  for (int64_t i = 0; i < a.type.elements(); ++i) {
    if (std::memcmp(a.data + i * width, b.data + i * width, width) == 0)
      continue;
    x.clear();
    y.clear();
    appendElement(a.type.dtype, a.data + i * width, x);
    appendElement(a.type.dtype, b.data + i * width, y);
    if (x != y) // equal texts with different bits are NaNs
      return false;
  }
  return true;
}

class Comparison {
public:
  Comparison(const Graph &a, const Graph &b) : a_(a), b_(b) {}

  std::string difference() {
    if (a_.name != b_.name)
      return "the graphs' names: " + a_.name + " and " + b_.name;
    if (!(a_.record == b_.record))
      return "the record";
    if (a_.meta != b_.meta)
      return "meta";
    if (a_.weightsFile != b_.weightsFile)
      return "the weights files: " + quoted(a_.weightsFile) + " and " + quoted(b_.weightsFile);
    if (a_.weightsDigest != b_.weightsDigest)
      return "the digests of the weights";
    if (a_.inputs().size() != b_.inputs().size())
      return "the number of inputs";
    for (size_t i = 0; i < a_.inputs().size(); ++i)
      if (std::string d = inputDifference(a_.inputs()[i], b_.inputs()[i]); !d.empty())
        return d;
    if (a_.numNodes() != b_.numNodes())
      return "the number of nodes: " + std::to_string(a_.numNodes()) + " and " +
             std::to_string(b_.numNodes());
    for (uint32_t i = 0; i < a_.numNodes(); ++i)
      if (const char *d = nodeDifference(NodeId(i)))
        return "node #" + std::to_string(i) + " ('" + valueText(a_.nodeName(NodeId(i))) +
               "'): " + d;
    if (a_.numReplaced() != b_.numReplaced())
      return "the number of replaced nodes: " + std::to_string(a_.numReplaced()) + " and " +
             std::to_string(b_.numReplaced());
    for (size_t i = 0; i < a_.numReplaced(); ++i)
      if (const char *d = nodeDifference(a_.replaced(i)))
        return "replaced node '" + valueText(a_.nodeName(a_.replaced(i))) + "': " + d;
    if (!sameValue(a_.loss, b_.loss))
      return "the loss";
    if (!sameValues(a_.outputs(), b_.outputs()))
      return "the outputs";
    for (size_t i = 0; i < a_.outputs().size(); ++i)
      if (!sameRole(a_.role(i), b_.role(i)))
        return "the role of output '" + valueText(a_.valueName(a_.outputs()[i])) + "'";
    return "";
  }

private:
  bool sameValue(ValueId x, ValueId y) const {
    return x && y ? a_.valueName(x) == b_.valueName(y) : bool(x) == bool(y);
  }
  bool sameValues(llvm::ArrayRef<ValueId> x, llvm::ArrayRef<ValueId> y) const {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                      [&](ValueId v, ValueId w) { return sameValue(v, w); });
  }

  bool sameRole(const OutputRole &x, const OutputRole &y) const {
    return x.kind == y.kind && x.order == y.order && x.isRounded == y.isRounded &&
           sameValue(x.of, y.of);
  }

  std::string inputDifference(const Input &x, const Input &y) const {
    std::string at = "input '" + valueText(a_.valueName(x.value)) + "': ";
    if (!sameValue(x.value, y.value))
      return at + "name";
    if (x.kind != y.kind)
      return at + "kind";
    if (a_.type(x.value) != b_.type(y.value))
      return at + "type";
    if (x.init.kind != y.init.kind || !identical(x.init.args, y.init.args) ||
        x.init.key != y.init.key)
      return at + "initializer";
    return equalData(x.init.data, y.init.data) ? "" : at + "data";
  }

  const char *nodeDifference(NodeId id) const {
    const Node &x = a_.node(id), &y = b_.node(id);
    if (x.op != y.op)
      return "op";
    if (!sameValues(x.operands, y.operands))
      return "operands";
    if (!identical(x.attrs, y.attrs))
      return "attributes";
    if (x.numResults != y.numResults)
      return "number of results";
    for (uint32_t i = 0; i < x.numResults; ++i) {
      if (!sameValue(x.result(i), y.result(i)))
        return "results' names";
      if (a_.type(x.result(i)) != b_.type(y.result(i)))
        return "results' types";
    }
    if (x.phase != y.phase)
      return "phase";
    if (x.from.gradientOf != y.from.gradientOf)
      return "forward node of whose gradient it is";
    if (x.from.kind != y.from.kind)
      return "kind of stand-in";
    if (x.from.origin != y.from.origin)
      return "origin";
    if (!sameValue(x.from.restores, y.from.restores))
      return "value that it restores";
    if (x.from.chunk != y.from.chunk)
      return "number of the chunk";
    if (x.from.after != y.from.after)
      return "nodes to run after";
    if (x.from.sourceIndex != y.from.sourceIndex)
      return "place in the source";
    if (x.device != y.device)
      return "device";
    return x.marks == y.marks ? nullptr : "marks";
  }

  const Graph &a_;
  const Graph &b_;
};

} // namespace

bool equalGraphs(const Graph &a, const Graph &b, std::string *reason) {
  std::string difference = Comparison(a, b).difference();
  if (reason)
    *reason = difference;
  return difference.empty();
}

} // namespace isthmus
