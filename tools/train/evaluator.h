// How good a model is while it trains: its loss on examples that it does not learn from, and the
// share of labels that it finds.
#pragma once

#include "tools/cli/compiled.h"
#include "tools/train/dataset.h"

namespace isthmus {

struct Evaluation {
  int64_t epoch = 0, step = 0;                      // done until then
  std::optional<double> loss;                       // the mean over whole batches
  std::optional<double> accuracy, bitsPerDimension; // over all examples; of likelihoods
};

// Bits that one number of an example takes, of a negative log-likelihood in nats of examples that
// were dequantised.
double bitsPerDimension(double nats, int64_t elements, int64_t levels);

class Evaluator {
public:
  // `forward`: see evaluationOf; its loss counts, and where whole numbers are read as labels what
  // is scored by them. `device` must outlive the evaluator.
  static llvm::Expected<std::unique_ptr<Evaluator>> create(Graph forward, CompileOptions o,
                                                           const GivenInputs &given, Dataset data,
                                                           int64_t levels, Device &device);

  // With the parameters and states of `trained`, which runs `g`.
  llvm::Expected<Evaluation> run(Executor &trained, const Graph &g) const;
  int64_t arenaBytes() const { return c_.layout.arenaBytes; }

private:
  // Where labels are compared with scores: values of the graph.
  struct Scored {
    ValueId scores, labels;
    int64_t axis; // of the classes
  };
  static std::optional<Scored> findScored(const Graph &g);

  Evaluator(Dataset data, int64_t levels, Device &device)
      : data_(std::move(data)), levels_(levels), device_(device) {}
  llvm::Error feedCarried(Executor &to, Executor &from, const Graph &g) const;
  llvm::Expected<int64_t> countRight(Executor &e, int64_t examples) const;

  Compiled c_;
  std::vector<Tensor> inputs_; // of the graph, what stays
  std::optional<Scored> scored_;
  Dataset data_;
  int64_t levels_;
  uint64_t seed_ = 0;
  Device &device_;
};

} // namespace isthmus
