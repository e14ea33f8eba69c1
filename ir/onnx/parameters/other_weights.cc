#include "ir/onnx/parameters/other_weights.h"

#include "ir/onnx/tensor_data.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus::onnx_import {
namespace {

template <typename Each> void forEachGraphWithin(const onnx::GraphProto &g, Each each) {
  for (const onnx::NodeProto &n : g.node())
    for (const onnx::GraphProto *inner : graphsIn(n)) {
      each(*inner);
      forEachGraphWithin(*inner, each);
    }
}

const onnx::TensorProto *constantOf(const onnx::NodeProto &n) {
  if (n.op_type() == "Constant" && n.output_size() == 1 && isDefaultDomain(n.domain()))
    for (const onnx::AttributeProto &a : n.attribute())
      if (a.name() == "value" && a.has_t())
        return &a.t();
  return nullptr;
}

class Finder {
public:
  Finder(const Candidates &candidates, Decisions &decisions)
      : model_(candidates.model()), readers_(candidates.readers()),
        learn_(candidates.options().learn), decisions_(decisions) {
    hasWeights_ = llvm::any_of(candidates.all(), [&](const Candidate &c) {
      return c.role.role == Role::Parameter && readers_.weights.count(c.role.name);
    });
    forEachGraphWithin(model_.graph(), [&](const onnx::GraphProto &g) {
      for (const onnx::TensorProto &t : g.initializer())
        hasWeights_ |= isWeight(t, t.name());
    });
  }

  llvm::DenseSet<const void *> find() {
    lookAtConstants(model_.graph());
    forEachGraphWithin(model_.graph(), [&](const onnx::GraphProto &g) {
      for (const onnx::TensorProto &t : g.initializer())
        if (isWeight(t, t.name()) || matchesAny(learn_, t.name()))
          found_.insert(&t);
      lookAtConstants(g);
    });
    return std::move(found_);
  }

private:
  // Tensors only, not single numbers: a network without initializers keeps its weights in them.
  bool isWeight(const onnx::TensorProto &t, const std::string &name) const {
    return isFloatType(t.data_type()) && t.dims_size() > 0 && readers_.isUsed(name) &&
           readers_.weightsOfFed.count(name) && !readers_.frequencies.count(name);
  }

  void lookAtConstants(const onnx::GraphProto &g) {
    for (const onnx::NodeProto &n : g.node()) {
      const onnx::TensorProto *t = constantOf(n);
      bool asked = t && isFloatType(t->data_type()) && matchesAny(learn_, n.output(0));
      if (!asked && !(t && !hasWeights_ && isWeight(*t, n.output(0))))
        continue;
      found_.insert(&n);
      if (!asked)
        decisions_.add(Decision::LearnedConstantNode, n.output(0));
      if (const Readers::Stop *stop = readers_.stopOf(n.output(0)))
        decisions_.add(Decision::NoGradient, n.output(0), ": " + stop->why);
    }
  }

  const Model &model_;
  const Readers &readers_;
  const std::vector<NamePattern> &learn_;
  Decisions &decisions_;
  bool hasWeights_ = false; // some initializer is a weight
  llvm::DenseSet<const void *> found_;
};

} // namespace

llvm::DenseSet<const void *> otherWeights(const Candidates &candidates, Decisions &decisions) {
  return Finder(candidates, decisions).find();
}

} // namespace isthmus::onnx_import
