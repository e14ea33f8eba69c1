// One call of an operator, and the result that ONNX defines.
#pragma once

#include "tests/onnx/model_maker.h"
#include <cmath>
#include <gtest/gtest.h>

namespace isthmus {

using Proto = onnx::TensorProto;
using Values = ModelMaker::Values;
using Sizes = std::vector<int64_t>;

struct Arg {
  Sizes dims;
  Values values;
  int type = Proto::FLOAT;
};
inline Arg ints(Values values) { return {{int64_t(values.size())}, values, Proto::INT64}; }
inline Arg number(double v) { return {{}, {v}}; }
inline const Arg kNone{{}, {}, 0}; // an omitted operand

struct Case {
  const char *op;
  int64_t opset;
  std::vector<Arg> args;
  std::vector<ModelMaker::AttrItem> attrs;
  Sizes dims;
  Values values; // of the first result
  size_t results = 1;
};

inline void PrintTo(const Case &c, std::ostream *os) { *os << c.op << " of opset " << c.opset; }

// With `asNodes`, the first operand is an input of the graph.
inline Tensor evaluate(const Case &c, bool asNodes, Graph &g) {
  ModelMaker m(c.opset);
  std::vector<std::string> in, out;
  std::map<std::string, Tensor> feed;
  for (size_t i = 0; i < c.args.size(); ++i) {
    const Arg &a = c.args[i];
    if (a.type == 0) {
      in.push_back("");
      continue;
    }
    in.push_back("in" + std::to_string(i));
    if (asNodes && a.type == Proto::FLOAT && i == 0) {
      std::vector<ModelMaker::Dim> dims;
      for (int64_t d : a.dims)
        dims.push_back(int(d));
      m.input(in[i], dims);
      feed[in[i]] = floats(a.dims, a.values);
    } else {
      m.constant(in[i], a.dims, a.values, a.type);
    }
  }
  for (size_t i = 0; i < c.results; ++i)
    out.push_back("out" + std::to_string(i));
  m.node(c.op, in, out, c.attrs);
  m.output("out0");
  g = m.graphOf();
  auto results = outputsOf(g, feed);
  return results.empty() ? Tensor() : results[0];
}

// Checks the operator as nodes and folded at import.
inline void checkCase(const Case &c) {
  for (bool asNodes : {true, false}) {
    SCOPED_TRACE(asNodes ? "as nodes" : "folded");
    Graph g;
    Tensor y = evaluate(c, asNodes, g);
    ASSERT_TRUE(y);
    EXPECT_EQ(Sizes(y.type.dims.begin(), y.type.dims.end()), c.dims);
    std::vector<double> got = numbers(y);
    ASSERT_EQ(got.size(), c.values.size());
    for (size_t i = 0; i < got.size(); ++i)
      if (got[i] != c.values[i]) { // the difference of two infinities is not a number
        EXPECT_NEAR(got[i], c.values[i], 1e-5) << "element " << i;
      }
    if (!asNodes) {
      EXPECT_EQ(rowsOf(g), "identity") << "nothing is left to compute";
    }
  }
}

} // namespace isthmus
