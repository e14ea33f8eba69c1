// A step as a page draws it, whatever it was made from: a graph, a schedule of a problem, or a
// snapshot of an allocator.
#pragma once

#include "passes/inspect/module_tree.h"
#include "passes/inspect/timeline.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"

namespace isthmus {

struct StepTable {
  struct OpName {
    std::string text;
    bool isView = false;
  };
  struct StepNode {
    uint32_t op = 0; // of `ops`
    Phase phase = Phase::Forward;
    StandIn standIn = StandIn::None;
    uint32_t firstResult = 0;
    uint32_t source = 0; // of `sources`, from 1; 0: not known
  };
  struct StepValue {
    uint32_t type = 0;     // of `types`
    uint32_t maker = 0;    // a node, from 1; 0 for an input
    uint32_t original = 0; // the value before the plan
    std::string name;
  };

  std::vector<OpName> ops;
  std::vector<std::string> types, sources;
  std::vector<StepNode> nodes;
  std::vector<std::vector<uint32_t>> operands; // values, by node
  std::vector<StepValue> values;
  std::vector<std::pair<uint32_t, std::string>> inputs; // values, and what they are: "parameter"
  ModuleTree modules;
  Timeline timeline;
};

// Numbers texts in the order in which they first come.
class TextNumbers {
public:
  explicit TextNumbers(std::vector<std::string> &texts) : texts_(texts) {}
  uint32_t operator()(llvm::StringRef text) {
    const auto [at, isNew] = numbers_.try_emplace(text, uint32_t(texts_.size()));
    if (isNew)
      texts_.push_back(text.str());
    return at->second;
  }

private:
  std::vector<std::string> &texts_;
  llvm::StringMap<uint32_t> numbers_;
};

// The same for ops.
class OpNumbers {
public:
  explicit OpNumbers(std::vector<StepTable::OpName> &ops) : ops_(ops) {}
  uint32_t operator()(const OpDef &op) {
    const auto [at, isNew] = numbers_.try_emplace(&op, uint32_t(ops_.size()));
    if (isNew)
      ops_.push_back({std::string(op.name), op.is(kView)});
    return at->second;
  }

private:
  std::vector<StepTable::OpName> &ops_;
  llvm::DenseMap<const OpDef *, uint32_t> numbers_;
};

// `layout` is that of `g` on the target; null if offsets do not matter. Errors: a node that the
// target cannot run.
llvm::Expected<StepTable> stepTableOf(const Graph &g, const Layout *layout, const Target &target);

} // namespace isthmus
