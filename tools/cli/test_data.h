// Test data of ONNX models: inputs, and the outputs to expect, as the ONNX project's backend tests
// have them (folders `test_data_set_N` with `input_K.pb` and `output_K.pb`).
#pragma once

#include "ir/onnx/tensor_file.h"
#include "runtime/executor.h"
#include "tools/cli/feeds.h"

namespace isthmus {

struct TestSet {
  std::string dir;
  std::vector<NamedTensor> inputs, outputs; // by their numbers
};

// The sets in `dir`, or the one that `dir` itself is. An error if it holds none.
llvm::Expected<std::vector<TestSet>> readTestData(const std::string &dir);

// The set's inputs, by name; input K is called as in its file, or like the graph's input K.
GivenInputs givenBy(const TestSet &set, llvm::ArrayRef<std::string> inputNames);

// How far results may be from what is expected: |got - want| <= absolute + relative * |want|, as
// the backend tests have it; integers and bools must be equal, and NaN is close to NaN.
struct Tolerance {
  double relative = 1e-3, absolute = 1e-7;
};

// Holds the graph's first outputs against the set's. An error with exit code 4 says where they
// differ, and by how much.
llvm::Error checkOutputs(const TestSet &set, const Graph &g, Executor &e, Tolerance t);

} // namespace isthmus
