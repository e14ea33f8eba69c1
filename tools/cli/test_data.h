// Test data of ONNX models, inputs and expected outputs, in the layout of the ONNX project's
// backend tests (folders `test_data_set_N` with `input_K.pb` and `output_K.pb`).
#pragma once

#include "ir/onnx/tensor_file.h"
#include "runtime/session.h"
#include "tools/cli/feeds.h"

namespace isthmus {

struct TestSet {
  std::string dir;
  std::vector<NamedTensor> inputs, outputs; // by their number K
};

// The sets in `dir`, or `dir` itself as a set. An error if there is none.
llvm::Expected<std::vector<TestSet>> readTestData(const std::string &dir);

// The set's inputs, by name; input K has the name in its file, or that of the graph's input K.
GivenInputs givenBy(const TestSet &set, llvm::ArrayRef<std::string> inputNames);

// The allowed difference from expected results: |got - want| <= absolute + relative * |want|, as in
// the backend tests; integers and bools must be equal, and NaN is close to NaN.
struct Tolerance {
  double relative = 1e-3, absolute = 1e-7;
};

// Compares the graph's first outputs with the set's. An error with exit code 4 says where they
// differ, and by how much.
llvm::Error checkOutputs(const TestSet &set, const Graph &g, Session &s, Tolerance t);

} // namespace isthmus
