// Evaluates a model while it trains: its loss on examples from which it does not learn, and the
// share of labels that it predicts.
#pragma once

#include "runtime/session.h"
#include "tools/cli/compiled.h"
#include "tools/train/dataset.h"

namespace isthmus {

struct Evaluation {
  int64_t epoch = 0, step = 0; // at the time of the evaluation
  // The mean over whole batches; those of which no label counts are left out.
  std::optional<double> loss;
  std::optional<double> accuracy, bitsPerDimension; // over all examples; of likelihoods
};

// Converts a negative log-likelihood of dequantised examples, in nats, to bits for each number of
// an example.
double bitsPerDimension(double nats, int64_t elements, int64_t levels);

class Evaluator {
public:
  // `forward`: see evaluationOf. Its loss is evaluated, and, if it reads whole numbers as labels,
  // the accuracy of its scores. `device` must outlive the evaluator.
  static llvm::Expected<std::unique_ptr<Evaluator>> create(Graph forward, CompileOptions o,
                                                           const GivenInputs &given, Dataset data,
                                                           int64_t levels, Device &device);

  // Evaluates with the parameters and states of `trained`, which runs `g`.
  llvm::Expected<Evaluation> run(Session &trained, const Graph &g) const;
  int64_t arenaBytes() const { return c_.layout.arenaBytes; }

private:
  // The values of the graph whose labels are compared with scores.
  struct Scored {
    ValueId scores, labels;
    int64_t axis;                 // of the classes
    std::vector<int64_t> ignored; // labels that do not count
  };
  struct Count {
    int64_t right = 0, labels = 0;
  };
  static std::optional<Scored> findScored(const Graph &g);

  Evaluator(Dataset data, int64_t levels, Device &device)
      : data_(std::move(data)), levels_(levels), device_(device) {}
  llvm::Expected<std::vector<Tensor>> carriedFrom(Session &trained, const Graph &g) const;
  llvm::Expected<Count> countRight(Session &e, int64_t examples) const;

  Compiled c_;
  std::vector<Tensor> inputs_; // of the graph; those that are not fed keep their values
  std::optional<Scored> scored_;
  Dataset data_;
  int64_t levels_;
  uint64_t seed_ = 0;
  Device &device_;
};

} // namespace isthmus
