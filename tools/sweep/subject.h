// The model that a sweep plans, at each of its sizes.
#pragma once

#include "passes/train/updates.h"
#include "runtime/device.h"
#include "tools/cli/compiled.h"
#include "tools/cli/paths.h"
#include "tools/sweep/modes.h"
#include "tools/zoo/zoo.h"
#include <set>

namespace isthmus {

struct ModelSizes {
  std::optional<int64_t> batch, depth; // none: as the model has it
};

class SweepSubject {
public:
  // Opens a file, or "zoo:NAME" with the zoo's options. With an optimizer, the training step
  // includes the updates. The command's `paths` must outlive the subject.
  static llvm::Expected<SweepSubject> open(ModelOptions o, ZooOptions zoo,
                                           std::optional<OptimizerOptions> optimizer,
                                           CommandPaths &paths);

  // Makes graph() that of the given sizes. Errors: sizes that the model cannot have.
  llvm::Error resize(const ModelSizes &sizes);
  // The depths to try, from the least to `most`.
  llvm::Expected<std::vector<int64_t>> depths(int64_t batch, int64_t most) const;

  const Graph &graph() const { return graph_; }
  const GivenInputs &given() const { return given_; }
  const ModelOptions &options() const { return o_; }
  bool isZoo() const { return isZoo_; }
  // Notes of compilation are printed once, even if their figures differ.
  llvm::Expected<CompileOptions> compileOptions(const SweepMode &mode);

private:
  SweepSubject(ModelOptions o, ZooOptions zoo, std::optional<OptimizerOptions> optimizer,
               CommandPaths &paths);
  llvm::Expected<Graph> modelAt(const ModelSizes &sizes);
  llvm::Expected<Graph> zooModelAt(const ModelSizes &sizes);
  llvm::Expected<Graph> fileAt(const ModelSizes &sizes);
  llvm::Expected<bool> bindBatch(int64_t batch, ModelOptions &o) const;
  llvm::Error addUpdates();

  ModelOptions o_;
  ZooOptions zoo_;
  std::optional<OptimizerOptions> optimizer_;
  CommandPaths &paths_;
  bool isZoo_;
  GivenInputs given_;
  Graph graph_;
  std::set<std::string> told_; // notes, without their digits
};

} // namespace isthmus
