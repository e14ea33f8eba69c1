// An exported graph is read back as exactly the same graph, and as an equal one if another tool has
// removed our metadata.

#include "ir/equal_graphs.h"
#include "ir/onnx/export/exporter.h"
#include "ir/op_registry.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"
#include "ir/verifier.h"
#include "passes/differentiate/differentiate.h"
#include "passes/plan/checkpoint_schedule.h"
#include "passes/rewrite/rematerialize.h"
#include "passes/simplify/dce.h"
#include "tests/onnx/model_maker.h"
#include "tests/testing/example.h"
#include "tools/random/random_graph.h"
#include <fstream>
#include <gtest/gtest.h>

namespace isthmus {
namespace {

std::string bytesOf(const Graph &g, OnnxExportOptions options = {}) {
  auto bytes = onnxBytes(g, options);
  if (!bytes) {
    ADD_FAILURE() << llvm::toString(bytes.takeError());
    return "";
  }
  return *bytes;
}

Graph readBack(const std::string &bytes, std::string *notes = nullptr) {
  OnnxOptions options;
  options.note = [&](const Remark &remark) {
    const std::string &text = remark.text;
    if (notes)
      *notes += text;
    else
      ADD_FAILURE() << text;
  };
  auto g = importOnnxBytes(bytes, "m.onnx", options);
  if (!g) {
    ADD_FAILURE() << llvm::toString(g.takeError());
    return Graph();
  }
  return std::move(*g);
}

void expectRoundTrip(const Graph &g) {
  Graph back = readBack(bytesOf(g));
  std::string reason;
  EXPECT_TRUE(equalGraphs(g, back, &reason)) << reason << "\n"
                                             << graphText(g) << "\n"
                                             << graphText(back);
}

// A graph of one node, with inputs for its operands and outputs for its results.
Graph graphOf(const OpCall &call) {
  Graph g("example");
  llvm::SmallVector<ValueId, 4> operands;
  for (size_t i = 0; i < call.operands.size(); ++i)
    operands.push_back(
        cantFail(g.addInput(InputKind::Input, "in" + std::to_string(i), call.operands[i])));
  NodeId n = cantFail(g.addNode(*call.op, operands, *call.attrs));
  for (uint32_t i = 0; i < g.node(n).numResults; ++i)
    g.addOutput(g.node(n).result(i));
  return g;
}

TEST(Export, EveryRowsExamplesReadBack) {
  for (const OpDef *row : OpRegistry::get().computedRows())
    for (const std::string &text : row->examples) {
      SCOPED_TRACE(text);
      expectRoundTrip(graphOf(parseExample(text)->call));
    }
}

Graph training(uint64_t seed) {
  RandomGraphOptions o;
  o.seed = seed;
  o.steps = 10 + seed % 30;
  o.dtype = seed % 2 ? DType::F32 : DType::F64;
  Graph g = randomGraph(o);
  ValueList params;
  for (const Input &i : g.inputs())
    if (i.kind == InputKind::Param)
      params.push_back(i.value);
  ValueList grads = cantFail(gradients(g, {g.loss}, params));
  addGradientOutputs(g, params, grads);
  return withoutDeadNodes(g);
}

TEST(Export, RandomGraphsReadBack) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomGraphOptions o;
    o.seed = seed;
    expectRoundTrip(randomGraph(o));
    expectRoundTrip(training(seed));
    if (HasFailure())
      return;
  }
}

constexpr const char *kTransfers = R"(isthmus 2
graph @g {
  input %x : f32[8]
  %a = relu(%x) : f32[8]
  %a.host, %a.sent = copy_to_host(%a) : host f32[8], token[] from(transfer(%a))
  %m = is_positive(%a) : bool[8] from(encoding(%a))
  %a.kept = wait(%a.host, %a.sent, %a) : host f32[8] from(transfer(%a))
  %y = sum(%a) : f32[]
  %dy = broadcast(%y) {dims = [8]} : f32[8] backward
  %a.back, %a.got = copy_to_device(%a.kept) : f32[8], token[] backward from(transfer(%a), after(%dy))
  %da = relu_grad(%dy, %m) : f32[8] backward
  %a.again = wait(%a.back, %a.got, %a.kept) : f32[8] backward from(transfer(%a))
  %dx = mul(%da, %a.again) : f32[8] backward
  loss %y
  output %y
  output %dx gradient(%x)
}
)";

// On import, the rows restore memories and tokens. Other tools know neither, so for them a transfer
// is an Identity.
TEST(Export, TransfersReadBackAndRunElsewhere) {
  Graph g = cantFail(parseGraph(kTransfers, "test"));
  ASSERT_EQ(toString(verify(g)), "");
  OnnxExportOptions options;
  options.note = [](const std::string &note) { ADD_FAILURE() << note; };
  onnx::ModelProto m;
  ASSERT_TRUE(m.ParseFromString(bytesOf(g, options)));
  Graph back = readBack(m.SerializeAsString());
  EXPECT_EQ(graphText(back), kTransfers);
  for (const auto &info : m.graph().value_info())
    EXPECT_NE(info.type().tensor_type().elem_type(), onnx::TensorProto::UNDEFINED) << info.name();
  for (const auto &f : m.functions())
    if (f.name() == "copy_to_host") {
      ASSERT_EQ(f.node_size(), 3);
      EXPECT_EQ(f.node(1).op_type(), "Identity");
    }
}

TEST(Export, RewrittenGraphsReadBack) {
  size_t clones = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Graph g = training(seed);
    GraphProblem p = cantFail(extractProblem(g, Target()));
    Random random(seed);
    std::vector<std::vector<bool>> keep;
    for (const plan::Op &op : p.problem.ops)
      keep.emplace_back(std::max<size_t>(1, op.outputBytes.size()), random.oneIn(3));
    Graph rewritten = rematerialize(g, p, plan::checkpointSchedule(p.problem, keep));
    for (uint32_t i = 0; i < rewritten.numNodes(); ++i)
      clones += rewritten.node(NodeId(i)).isClone();
    expectRoundTrip(rewritten);
    if (HasFailure())
      return;
  }
  EXPECT_GT(clones, 100u);
}

// --- A small graph with a parameter, a mark and an operator that ONNX does not have

Graph small() {
  Graph g("small");
  ValueId x = cantFail(g.addInput(InputKind::Input, "x", Type(DType::F32, {2, 3})));
  Initializer normal;
  normal.kind = Initializer::Kind::Normal;
  normal.args = {{"std", 0.1}, {"seed", int64_t(5)}};
  ValueId w = cantFail(g.addInput(InputKind::Param, "w", Type(DType::F32, {3}), normal));
  const OpRegistry &ops = OpRegistry::get();
  NodeId a = cantFail(g.addNode(ops.at("mul"), {x, w}, {}, std::string("a")));
  g.editNode(a).marks = {"checkpoint", "mine"};
  NodeId y = cantFail(g.addNode(ops.at("square"), {g.node(a).result(0)}, {}, std::string("y")));
  NodeId z = cantFail(g.addNode(ops.at("sum"), {g.node(y).result(0)},
                                {{"axes", Ints{1}}, {"keepdims", true}}, std::string("z")));
  g.addOutput(g.node(z).result(0));
  g.loss = g.node(z).result(0);
  g.record.policy = PlannedBy::Memory;
  return g;
}

Tensor drawn(const Input &in) { return floats({3}, {0.5, -1, 2}); }

TEST(Export, StandardOperatorsAndFunctions) {
  onnx::ModelProto m;
  ASSERT_TRUE(m.ParseFromString(bytesOf(small())));
  ASSERT_EQ(m.graph().node_size(), 3);
  EXPECT_EQ(m.graph().node(0).op_type(), "Mul");
  EXPECT_EQ(m.graph().node(0).domain(), "");
  EXPECT_EQ(m.graph().node(1).op_type(), "square");
  EXPECT_EQ(m.graph().node(1).domain(), "ai.isthmus");
  EXPECT_EQ(m.graph().node(2).op_type(), "ReduceSum");
  ASSERT_EQ(m.functions_size(), 1);
  EXPECT_EQ(m.functions(0).name(), "square");
  EXPECT_EQ(m.functions(0).node(0).op_type(), "Mul");
  EXPECT_EQ(m.graph().input_size(), 2); // without a function that draws w, w is fed
  EXPECT_EQ(m.graph().value_info_size(), 2);
}

TEST(Export, DrawnParametersAreData) {
  OnnxExportOptions options;
  options.draw = [](const Input &in) -> llvm::Expected<Tensor> { return drawn(in); };
  std::string bytes = bytesOf(small(), options);
  onnx::ModelProto m;
  ASSERT_TRUE(m.ParseFromString(bytes));
  EXPECT_EQ(m.graph().input_size(), 1);
  EXPECT_EQ(m.graph().initializer(0).name(), "w");
  // The graph still has the initializers ...
  std::string reason;
  EXPECT_TRUE(equalGraphs(small(), readBack(bytes), &reason)) << reason;
  // ... unless the data were changed, for example by training.
  (*m.mutable_graph()->mutable_initializer(0)->mutable_raw_data())[0] ^= 1;
  Graph trained = readBack(m.SerializeAsString());
  EXPECT_EQ(trained.inputOf(trained.find("w"))->init.kind, Initializer::Kind::Data);
}

TEST(Export, WhatAnotherToolChangedIsReadAsItStands) {
  onnx::ModelProto m;
  ASSERT_TRUE(m.ParseFromString(bytesOf(small())));
  m.mutable_graph()->mutable_node(0)->set_op_type("Add");
  std::string notes;
  Graph g = readBack(m.SerializeAsString(), &notes);
  EXPECT_EQ(rowsOf(g), "add square sum");
  EXPECT_EQ(g.inputOf(g.find("x"))->kind, InputKind::Input);
  EXPECT_NE(notes.find("was changed since it was written here"), std::string::npos) << notes;
}

TEST(Export, WithoutMetadataTheNumbersAreTheSame) {
  for (const OpDef *row : OpRegistry::get().computedRows()) {
    if (row->effect == Effect::Draws || row->examples.empty())
      continue;
    SCOPED_TRACE(row->examples[0]);
    auto example = parseExample(row->examples[0]);
    Graph g = graphOf(example->call);
    onnx::ModelProto m;
    ASSERT_TRUE(m.ParseFromString(bytesOf(g)));
    m.clear_metadata_props();
    for (auto &n : *m.mutable_graph()->mutable_node())
      n.clear_metadata_props();
    Graph other = readBack(m.SerializeAsString());
    std::map<std::string, Tensor> inputs;
    std::vector<Tensor> operands = drawOperands(*example);
    for (size_t i = 0; i < operands.size(); ++i)
      inputs["in" + std::to_string(i)] = operands[i];
    auto want = outputsOf(g, inputs), got = outputsOf(other, inputs);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) {
      auto a = numbers(want[i]), b = numbers(got[i]);
      ASSERT_EQ(a.size(), b.size());
      for (size_t e = 0; e < a.size(); ++e)
        EXPECT_NEAR(a[e], b[e], 1e-9 * (1 + std::abs(a[e]))) << i << " " << e;
    }
  }
}

TEST(Export, LargeDataLiesBesideTheFile) {
  Graph g("large");
  ValueId x = cantFail(g.addInput(InputKind::Input, "x", Type(DType::F32, {600})));
  Initializer init;
  init.kind = Initializer::Kind::Data;
  init.data = draw(Type(DType::F32, {600, 600}), 3);
  ValueId w = cantFail(g.addInput(InputKind::Param, "w", Type(DType::F32, {600, 600}), init));
  ValueId v = cantFail(g.addInput(InputKind::Param, "v", Type(DType::F32, {600, 600}), init));
  const OpRegistry &ops = OpRegistry::get();
  NodeId s = cantFail(g.addNode(ops.at("add"), {w, v}, {}));
  NodeId y = cantFail(g.addNode(ops.at("mul"), {g.node(s).result(0), x}, {}));
  g.addOutput(g.node(y).result(0));
  std::string path = testing::TempDir() + "/large.onnx";
  ASSERT_FALSE(bool(saveOnnx(g, path)));
  std::ifstream data(path + ".data", std::ios::binary | std::ios::ate);
  EXPECT_EQ(data.tellg(), 600 * 600 * 4); // both tensors are stored once
  std::ifstream model(path, std::ios::binary | std::ios::ate);
  EXPECT_LT(model.tellg(), 4096);
  auto back = importOnnx(path, {});
  ASSERT_TRUE(bool(back)) << llvm::toString(back.takeError());
  std::string reason;
  EXPECT_TRUE(equalGraphs(g, *back, &reason)) << reason;
}

} // namespace
} // namespace isthmus
