// The examples of a run: arrays of an .npz file for the inputs of a graph.
#pragma once

#include "ir/safetensors.h"
#include "runtime/session.h"
#include "tools/cli/feeds.h"
#include "tools/cli/npz.h"

namespace isthmus {

// The names of a file's arrays. For the graph's first input `x` and its labels, Train reads `x`, or
// `x_train` and `y_train`; Test reads `x_test` and `y_test`; Own, a file of tests alone, reads the
// names of Test, or `x`.
enum class Split : uint8_t { Train, Test, Own };

struct DataOptions {
  uint64_t seed = 0;
  // The first input has whole numbers in [0, levels) and is fed (number + noise) / levels - 1/2,
  // with uniform noise in [0, 1): the likelihood of densities then bounds that of the numbers
  // (Theis et al. 2016). 0: it is fed unchanged.
  int64_t levels = 0;
};

class Dataset {
public:
  // Whether the file has an array for an input.
  static bool isIn(const Npz &file, const Graph &g, Split split);
  // Makes a data set for each input that is fed at every step, without those `given` once for the
  // whole run. Errors: an input without an array; an array of another shape or of a type that does
  // not convert; labels and levels out of range; too few examples for a batch.
  static llvm::Expected<Dataset> of(const Npz &file, const Graph &g, Split split,
                                    const GivenInputs &given, const DataOptions &o);

  int64_t examples() const { return examples_; }
  int64_t batch() const { return batch_; }
  int64_t elementsOfExample() const; // of the first input
  int64_t wholeBatches() const { return examples_ / batch_; }
  std::string digest() const; // of the arrays and of the inputs that take them
  // By array of the file: its digest.
  std::vector<std::pair<std::string, std::string>> digestsOfArrays() const;

  // One batch, of these examples: tensors of the inputs' types, by the inputs' names. The noise is
  // a function of the seed and `draw`.
  std::vector<NamedTensor> batchOf(llvm::ArrayRef<int64_t> examples, uint64_t draw) const;
  // Feeds them to `e`, which runs `g`.
  llvm::Error feed(Session &session, const Graph &g, llvm::ArrayRef<int64_t> examples,
                   uint64_t draw) const;

private:
  struct Array {
    std::string input; // its name
    Type type;         // the input's
    Tensor data;       // all examples
    std::string name;  // in the file
  };
  llvm::Error add(const Npz &file, const Graph &g, const Input &input, const std::string &array);
  llvm::Error checkFits(const std::string &path, const Array &a) const;
  llvm::Error checkLevels(const std::string &path) const;
  Tensor batchOf(const Array &a, llvm::ArrayRef<int64_t> examples, uint64_t draw) const;

  DataOptions o_;
  std::vector<Array> arrays_;
  int64_t examples_ = 0, batch_ = 0;
};

// The order of the examples in each epoch: drawn from the seed and the number of the epoch.
class Shuffle {
public:
  Shuffle(uint64_t seed, int64_t examples) : seed_(seed), order_(size_t(examples)) {}
  llvm::ArrayRef<int64_t> epoch(int64_t number);

private:
  uint64_t seed_;
  int64_t drawn_ = -1; // the epoch whose order is in `order_`
  std::vector<int64_t> order_;
};

} // namespace isthmus
