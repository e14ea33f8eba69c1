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
      if (!takesBatchStatistics(*n.op, n.attrs)) {
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
    if (examples < parts_)
      return locate(addRemedy(makeError("'{0}' normalizes {1} examples, which are too few for {2} "
                                        "micro-batches",
                                        g.nodeName(id), examples, parts_),
                              {"microbatches", std::to_string(examples), "have one for each"}),
                    g.whereIs(id));
    Attrs attrs = n.attrs;
    attrs.erase("training");
    attrs.erase("momentum");
    attrs.set("parts", parts_);
    Builder b(r_.to());
    r_.standWith(b, id);
    const std::string name = g.valueName(n.result(0)).str();
    const NodeId made = b.createNode(
        "batch_norm_parts", {r_.map(n.operands[0]), r_.map(n.operands[1]), r_.map(n.operands[2])},
        attrs, name);
    r_.to().editNode(made).marks = n.marks;
    const ValueId means = r_.to().node(made).result(1), vars = r_.to().node(made).result(2);
    r_.setMap(n.result(0), r_.to().node(made).result(0));
    // Of the whole: the mean of means, and the mean of variances and of squared deviations of
    // means.
    b.phase = Phase::Update;
    b.prefix = r_.freshName(name + ".whole") + ".";
    const ValueId shares = examples % parts_ == 0 ? ValueId() : sharesOfParts(b, means, examples);
    const ValueId mean = meanOfParts(b, means, shares);
    const ValueId off =
        b.sub(means, b.broadcastTo(b.reshape(mean, {1, b.type(mean).dims[0]}), b.type(means).dims));
    const ValueId var = meanOfParts(b, b.add(vars, b.create("square", {off})), shares);
    r_.setMap(n.result(1), b.cast(mean, g.type(n.result(1)).dtype));
    r_.setMap(n.result(2), b.cast(var, g.type(n.result(2)).dtype));
    return llvm::Error::success();
  }

  // [parts, channels]: the share of the examples that each part has. Part k begins at example
  // examples * k / parts, rounded down; half a part is added before, since k is rounded too.
  ValueId sharesOfParts(Builder &b, ValueId rows, int64_t examples) const {
    const Type type = b.type(rows);
    const ValueId ones = b.full(type.with(Dims{parts_, 1}), 1);
    auto begins = [&](bool isOwn) {
      const ValueId number =
          b.create("cumsum", {ones}, {{"axis", int64_t(0)}, {"exclusive", isOwn}});
      return b.create("floor", {b.shift(b.scale(number, double(examples) / double(parts_)),
                                        0.5 / double(parts_))});
    };
    const ValueId sizes = b.sub(begins(/*isOwn=*/false), begins(/*isOwn=*/true));
    return b.broadcastTo(b.scale(sizes, 1 / double(examples)), type.dims);
  }

  // The mean over all examples of what is a row for each part; without `shares` parts are equal.
  static ValueId meanOfParts(Builder &b, ValueId rows, ValueId shares) {
    return shares ? b.sum(b.mul(rows, shares), {0}, /*keepDims=*/false)
                  : b.create("mean", {rows}, {{"axes", Ints{0}}});
  }

  Rebuilder r_;
  const int64_t parts_;
};

} // namespace

llvm::Expected<Graph> withMicroNorms(const Graph &g, int64_t parts) {
  return MicroNorms(g, parts).run();
}

} // namespace isthmus
