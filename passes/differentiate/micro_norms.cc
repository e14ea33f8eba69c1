#include "passes/differentiate/micro_norms.h"

#include "ir/builder.h"
#include "ir/ops/averages.h"
#include "passes/rebuild.h"

namespace isthmus {
namespace {

class MicroNorms {
public:
  MicroNorms(const Graph &g, int64_t parts) : r_(g), parts_(parts) {}

  llvm::Expected<Graph> run() {
    const Graph &g = r_.from();
    r_.copyInputs();
    for (uint32_t i = 0; i < g.numNodes(); ++i) {
      const Node &n = g.node(NodeId(i));
      if (averagedStatistics(*n.op).empty() || !n.attrs.getBool("training")) {
        r_.copyNode(NodeId(i));
        continue;
      }
      if (llvm::Error e = replace(NodeId(i)))
        return e;
    }
    return r_.finish();
  }

private:
  llvm::Error replace(NodeId id) {
    const Graph &g = r_.from();
    const Node &n = g.node(id);
    const int64_t examples = g.type(n.operands[0]).dims[0];
    if (examples % parts_ != 0)
      return locate(addRemedy(makeError("'{0}' normalizes {1} examples, which {2} micro-batches "
                                        "do not divide into equal parts",
                                        g.nodeName(id), examples, parts_),
                              {"microbatches", "", "give a number that divides them"}),
                    g.whereIs(id));
    Attrs attrs = n.attrs;
    attrs.erase("training");
    attrs.erase("momentum");
    attrs.set("parts", parts_);
    Builder b(r_.to());
    r_.standWith(b, id);
    const std::string name = g.valueName(n.result(0)).str();
    const NodeId made = b.createNode(
        "batch_norm_parts",
        {r_.map(n.operands[0]), r_.map(n.operands[1]), r_.map(n.operands[2])}, attrs, name);
    r_.to().editNode(made).marks = n.marks;
    const ValueId means = r_.to().node(made).result(1), vars = r_.to().node(made).result(2);
    r_.setMap(n.result(0), r_.to().node(made).result(0));
    // Of the whole: the mean of means, and the mean of variances and of squared deviations of means.
    b.phase = Phase::Update;
    b.prefix = r_.freshName(name + ".whole") + ".";
    const ValueId mean = b.create("mean", {means}, {{"axes", Ints{0}}});
    const ValueId off = b.sub(means, b.broadcastTo(b.reshape(mean, {1, b.type(mean).dims[0]}),
                                                   b.type(means).dims));
    const ValueId var =
        b.create("mean", {b.add(vars, b.create("square", {off}))}, {{"axes", Ints{0}}});
    r_.setMap(n.result(1), b.cast(mean, g.type(n.result(1)).dtype));
    r_.setMap(n.result(2), b.cast(var, g.type(n.result(2)).dtype));
    return llvm::Error::success();
  }

  Rebuilder r_;
  const int64_t parts_;
};

} // namespace

llvm::Expected<Graph> withMicroNorms(const Graph &g, int64_t parts) {
  return MicroNorms(g, parts).run();
}

} // namespace isthmus
