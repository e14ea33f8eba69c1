#include "passes/stages/programs.h"

#include "ir/builder.h"
#include "ir/check.h"
#include "ir/storage.h"
#include "llvm/ADT/DenseMap.h"

namespace isthmus {
namespace {

class Splitting {
public:
  explicit Splitting(const Graph &g) : g_(g), places_(g), isOfGradients_(valuesOfGradients(g)) {}

  std::vector<Program> run() {
    for (const std::string &device : places_.names()) {
      programs_.push_back({device, Graph(g_.name), {}, {}});
      Graph &p = programs_.back().graph;
      p.record = g_.record;
      p.sourceFile = g_.sourceFile;
      p.fromOnnx = g_.fromOnnx;
    }
    now_.resize(programs_.size());
    for (uint32_t i = 0; i < g_.numNodes(); ++i)
      addInputs(NodeId(i));
    for (uint32_t i = 0; i < g_.numNodes(); ++i)
      addNode(NodeId(i));
    for (size_t i = 0; i < g_.outputs().size(); ++i)
      addOutput(i);
    return std::move(programs_);
  }

private:
  // Inputs come first in the whole's order, so that a program prints and parses.
  void addInputs(NodeId id) {
    for (ValueId v : g_.node(id).operands)
      if (!g_.value(v).def)
        input(places_.of(id), v);
  }

  ValueId input(uint32_t place, ValueId v) {
    ValueId &now = now_[place][v];
    if (now)
      return now;
    const Input &i = *g_.inputOf(v);
    Program &p = programs_[place];
    now = llvm::cantFail(
        p.graph.addInput(i.kind, g_.valueName(v), g_.type(v), i.init, g_.value(v).loc));
    p.inputs.push_back(g_.value(v).resultIndex);
    return now;
  }

  void addNode(NodeId id) {
    const Node &n = g_.node(id);
    const uint32_t place = places_.of(id);
    Program &p = programs_[place];
    ValueList operands;
    if (!n.op->is(kReceive))
      for (ValueId v : n.operands) {
        const ValueId now = now_[place].lookup(v);
        ISTHMUS_CHECK(now, "'" + g_.nodeName(id).str() + "' reads '" + g_.valueName(v).str() +
                               "' of another device without a message");
        operands.push_back(now);
      }
    llvm::SmallVector<std::string, 2> names;
    for (uint32_t r = 0; r < n.numResults; ++r)
      names.push_back(g_.valueName(n.result(r)).str());
    const NodeId made =
        llvm::cantFail(p.graph.addNode(*n.op, operands, n.attrs, names, phaseOf(n)));
    Node &copy = p.graph.editNode(made);
    copy.device = n.device;
    copy.marks = n.marks;
    copy.loc = n.loc;
    for (uint32_t r = 0; r < n.numResults; ++r)
      now_[place][n.result(r)] = copy.result(r);
  }

  // A clone or a stand-in of a forward value runs in the backward phase, and a message may bring
  // what an update made of gradients. A program does not say what its nodes stand for, so the phase
  // tells whether such a value depends on gradients.
  Phase phaseOf(const Node &n) const {
    if (!n.isStandIn() || n.numResults == 0)
      return n.phase;
    if (!isOfGradients_.test(n.firstResult.index))
      return n.phase == Phase::Backward ? Phase::Forward : n.phase;
    return n.phase == Phase::Update ? Phase::Backward : n.phase;
  }

  void addOutput(size_t output) {
    const ValueId v = g_.outputs()[output];
    const NodeId def = g_.value(v).def;
    uint32_t place = 0;
    if (def)
      place = places_.of(def);
    else
      while (place + 1 < programs_.size() && !now_[place].count(v))
        ++place;
    OutputRole role = g_.role(output);
    // A role names an input or a value of the same program, else the whole graph alone knows it.
    if (role.kind != OutputKind::Result) {
      role.of = now_[place].lookup(role.of);
      if (!role.of)
        role = {.isRounded = role.isRounded};
    }
    Program &p = programs_[place];
    p.graph.addOutput(def ? now_[place].lookup(v) : input(place, v), role);
    p.outputs.push_back(uint32_t(output));
    if (v == g_.loss)
      p.graph.loss = p.graph.outputs().back();
  }

  const Graph &g_;
  const Places places_;
  const llvm::BitVector isOfGradients_; // by value
  std::vector<Program> programs_;
  std::vector<llvm::DenseMap<ValueId, ValueId>> now_; // by place: values of the whole
};

} // namespace

std::vector<Program> programsOf(const Graph &g) { return Splitting(g).run(); }

} // namespace isthmus
