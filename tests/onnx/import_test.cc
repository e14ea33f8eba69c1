// What becomes of inputs, initializers and names, and of a training mode.

#include "tests/onnx/model_maker.h"
#include <fstream>
#include <gtest/gtest.h>

namespace isthmus {
namespace {

using Proto = onnx::TensorProto;

// x [N, 3] -> Gemm -> Relu -> y
ModelMaker layer() {
  ModelMaker m;
  m.input("x", {"N", 3});
  m.init("w", {2, 3});
  m.init("b", {2}, {0.5, -1});
  m.node("Gemm", {"x", "w", "b"}, {"h"}, {{"transB", 1}});
  m.node("Relu", {"h"}, {"y"});
  m.output("y");
  return m;
}

ModelMaker batchNorm(int64_t opset, std::vector<std::string> results = {"y"},
                     bool trainingMode = false) {
  ModelMaker m(opset);
  m.input("x", {4, 2, 3});
  for (const char *name : {"scale", "bias", "mean", "var"})
    m.init(name, {2}, {1, 2});
  auto &n = m.node("BatchNormalization", {"x", "scale", "bias", "mean", "var"}, results,
                   {{"momentum", 0.75}});
  if (trainingMode) {
    auto &a = *n.add_attribute();
    a.set_name("training_mode");
    a.set_type(onnx::AttributeProto::INT);
    a.set_i(1);
  }
  m.output("y");
  return m;
}

std::vector<std::string> outputNames(const Graph &g) {
  std::vector<std::string> names;
  for (ValueId v : g.outputs())
    names.push_back(g.valueName(v).str());
  return names;
}
using Names = std::vector<std::string>;

TEST(Import, KeepsNamesAndBindsSizes) {
  Graph g = layer().graphOf({.dims = {{"N", 5}}});
  EXPECT_EQ(rowsOf(g), "matmul add relu");
  EXPECT_EQ(inputsOf(g, InputKind::Input), "x:f32[5, 3]");
  EXPECT_EQ(inputsOf(g, InputKind::Param), "w:f32[2, 3] b:f32[2]");
  EXPECT_EQ(outputNames(g), Names{"y"});
  EXPECT_EQ(g.type(g.find("h")).str(), "f32[5, 2]");
  EXPECT_EQ(g.node(g.value(g.find("h")).def).op->name, "add");
  EXPECT_TRUE(g.fromOnnx);
  EXPECT_EQ(g.node(NodeId(2)).loc.line, 2u); // node #1 of the file
  // y = relu(x w^T + b): row of (1, 1, 1) is (3.5, 11)
  auto y = numbers(outputsOf(g, {{"x", floats({5, 3}, std::vector<double>(15, 1))}})[0]);
  EXPECT_EQ(y[0], 3.5);
  EXPECT_EQ(y[1], 11);
}

TEST(Import, NamesUnboundSizesAllAtOnce) {
  ModelMaker m = layer();
  m.input("z", {"N", "M", 2, "H"});
  EXPECT_EQ(
      m.errorOf({.dims = {{"M", 2}}}),
      "m.onnx: error: the model leaves the sizes 'N', 'H' open; give --dim N=... --dim H=...");
}

TEST(Import, RefusesSizesThatAreNotThere) {
  EXPECT_EQ(
      layer().errorOf({.dims = {{"N", 2}, {"n", 2}}}),
      "m.onnx: error: no open size of the model is called 'n'; there is 'N'; did you mean 'N'?");
  EXPECT_NE(
      layer().errorOf({.dims = {{"N", -2}}}).find("expects a size of 1 or more for 'N', got -2"),
      std::string::npos);
}

TEST(Import, UnnamedSizesAreCalledByInputAndAxis) {
  ModelMaker m = layer();
  m.graph()
      .mutable_input(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(0)
      ->clear_dim_param();
  EXPECT_NE(m.errorOf().find("--dim x.0=..."), std::string::npos);
  EXPECT_EQ(
      m.graphOf({.dims = {{"x.0", 2}}}).type(m.graphOf({.dims = {{"x.0", 2}}}).find("x")).str(),
      "f32[2, 3]");
}

TEST(Import, InitializersListedAsInputsAreNoInputs) {
  ModelMaker m = layer();
  m.input("w", {2, 3});
  EXPECT_EQ(inputsOf(m.graphOf({.dims = {{"N", 1}}}), InputKind::Input), "x:f32[1, 3]");
}

TEST(Import, OpsetsFromSevenToAnyLaterOneLoad) {
  for (int opset : {7, 8, 9, 10, 13, 22, 99}) {
    ModelMaker m = layer();
    m.model.mutable_opset_import(0)->set_version(opset);
    std::string notes;
    Graph g = m.graphOf({.dims = {{"N", 1}}, .note = [&](const std::string &s) { notes += s; }});
    EXPECT_EQ(rowsOf(g), "matmul add relu");
    EXPECT_EQ(notes.find("is of opset 99, newer than") != std::string::npos, opset == 99) << notes;
  }
}

// --- Parameters

TEST(Parameters, MasksAndScalesAreConstants) {
  ModelMaker m;
  m.input("x", {2, 2});
  m.init("w", {2, 2});
  m.init("scale", {});                              // a number
  m.init("onnx::Mul_7", {1}, {3});                  // a number with a made-up name
  m.init("additive", {2, 2}, {0, -INFINITY, 0, 0}); // an additive mask
  m.init("byCast", {2, 2}, {1, 0, 1, 1});           // a mask that is float only in the file
  m.init("table", {2}, {1, 0}, Proto::INT64);       // positions
  m.node("MatMul", {"x", "w"}, {"a"});
  m.node("Mul", {"a", "scale"}, {"b"});
  m.node("Mul", {"b", "onnx::Mul_7"}, {"c"});
  m.node("Add", {"c", "additive"}, {"d"});
  m.node("Cast", {"byCast"}, {"mask"}, {{"to", int(Proto::BOOL)}});
  m.node("Where", {"mask", "d", "c"}, {"e"});
  m.node("Gather", {"e", "table"}, {"y"});
  m.output("y");
  std::vector<std::string> notes;
  Graph g = m.graphOf({.note = [&](const std::string &s) { notes.push_back(s); }});
  EXPECT_EQ(inputsOf(g, InputKind::Param), "w:f32[2, 2]");
  EXPECT_EQ(inputsOf(g, InputKind::Const), "additive:f32[2, 2] mask:bool[2, 2] table:i64[2]");
  EXPECT_EQ(rowsOf(g), "matmul affine affine add where gather");
  EXPECT_EQ(notes.size(), 2u); // additive and onnx::Mul_7
}

TEST(Parameters, SignatureDecides) {
  ModelMaker m;
  m.input("x", {2, 2});
  m.init("temperature", {});
  m.init("buffer", {2, 2});
  m.init("val_3", {2, 2}); // not named: a weight that the exporter transposed
  m.node("Mul", {"x", "temperature"}, {"a"});
  m.node("Add", {"a", "buffer"}, {"b"});
  m.node("MatMul", {"b", "val_3"}, {"y"});
  m.output("y");
  auto &p = *m.graph().add_metadata_props();
  p.set_key("pkg.torch.export.ExportedProgram.graph_signature");
  p.set_value("\n# inputs\np_temperature: PARAMETER target='temperature'\n"
              "b_buffer: BUFFER target='buffer' persistent=True\nx: USER_INPUT\n\n# outputs\nmul: "
              "USER_OUTPUT\n");
  Graph g = m.graphOf();
  EXPECT_EQ(inputsOf(g, InputKind::Param), "temperature:f32[] val_3:f32[2, 2]");
  EXPECT_EQ(inputsOf(g, InputKind::Const), "buffer:f32[2, 2]");
}

TEST(Parameters, IdentityIsAParameterOfItsOwnAndTwoReadersAreTied) {
  ModelMaker m;
  m.input("x", {2, 2});
  m.init("w", {2, 2});
  m.node("Identity", {"w"}, {"v"});
  m.node("MatMul", {"x", "w"}, {"a"});
  m.node("MatMul", {"a", "v"}, {"b"});
  m.node("MatMul", {"b", "w"}, {"y"});
  m.output("y");
  std::vector<std::string> notes;
  Graph g = m.graphOf({.note = [&](const std::string &s) { notes.push_back(s); }});
  EXPECT_EQ(inputsOf(g, InputKind::Param), "w:f32[2, 2] v:f32[2, 2]");
  EXPECT_EQ(g.inputOf(g.find("w"))->init.data.data,
            g.inputOf(g.find("v"))->init.data.data); // stored once
  EXPECT_EQ(rowsOf(g), "matmul matmul matmul");
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("'v' of 'w'"), std::string::npos);
}

// A clone is an Identity too. Where the exporter tells the parameters, or made up the name, it is
// none of them.
TEST(Parameters, IdentityOfTheModelIsANode) {
  for (bool named : {false, true}) {
    SCOPED_TRACE(named);
    ModelMaker m;
    m.input("x", {2, 2});
    m.init("w", {2, 2});
    m.init("table", {2, 2});
    std::string clone = named ? "clone" : "/Identity_output_0";
    m.node("Identity", {"w"}, {clone});
    m.node("MatMul", {"x", clone}, {"a"});
    m.node("MatMul", {"a", "w"}, {"b"});
    m.node("Identity", {"table"}, {clone + ".2"});
    m.node("Mul", {"b", clone + ".2"}, {"y"});
    m.output("y");
    if (named) {
      auto &p = *m.graph().add_metadata_props();
      p.set_key("pkg.torch.export.ExportedProgram.graph_signature");
      p.set_value("\n# inputs\np_w: PARAMETER target='w'\n"
                  "c_table: CONSTANT_TENSOR target='table'\nx: USER_INPUT\n\n# outputs\n");
    }
    Graph g = m.graphOf();
    EXPECT_EQ(inputsOf(g, InputKind::Param), named ? "w:f32[2, 2]" : "w:f32[2, 2] table:f32[2, 2]");
    EXPECT_EQ(rowsOf(g), "matmul matmul mul");
    EXPECT_EQ(g.node(NodeId(0)).operands[1], g.find("w"));
  }
}

TEST(Parameters, TellsWhatTheExporterTookAway) {
  ModelMaker m;
  m.input("x", {2, 2});
  m.init("a", {2});
  m.node("Mul", {"x", "a"}, {"h"});
  m.node("Mul", {"h", "a"}, {"y"});
  m.output("y");
  auto &p = *m.graph().add_metadata_props();
  p.set_key("pkg.torch.export.ExportedProgram.graph_signature");
  p.set_value("\n# inputs\np_a: PARAMETER target='a'\np_c: PARAMETER target='c'\n"
              "p_b: PARAMETER target='b'\nb_d: BUFFER target='d'\n\n# outputs\n");
  std::vector<std::string> notes;
  m.graphOf({.note = [&](const std::string &s) { notes.push_back(s); }});
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("2 of the 3 parameters"), std::string::npos) << notes[0];
  EXPECT_NE(notes[0].find("such as 'b'"), std::string::npos) << notes[0];
}

TEST(Parameters, TransposeOfAParameterIsANode) {
  ModelMaker m;
  m.input("x", {2, 3});
  m.init("w", {4, 3});
  m.node("Transpose", {"w"}, {"wt"});
  m.node("MatMul", {"x", "wt"}, {"y"});
  m.output("y");
  EXPECT_EQ(rowsOf(m.graphOf()), "transpose matmul");
}

// --- Training

TEST(BatchNorm, TrainsByDefault) {
  Graph g = batchNorm(17).graphOf();
  EXPECT_EQ(rowsOf(g), "batch_norm running_average running_average");
  EXPECT_EQ(inputsOf(g, InputKind::Param), "scale:f32[2] bias:f32[2]");
  EXPECT_EQ(inputsOf(g, InputKind::State), "mean:f32[2] var:f32[2]");
  EXPECT_EQ(outputNames(g), (Names{"y", "state.mean", "state.var"}));
  const Node &bn = g.node(NodeId(0)), &update = g.node(NodeId(1));
  EXPECT_TRUE(bn.attrs.getBool("training"));
  EXPECT_EQ(update.phase, Phase::Update);
  EXPECT_EQ(update.attrs.getFloat("momentum"), 0.75);
  EXPECT_EQ(g.valueName(update.operands[0]), "mean");
  EXPECT_EQ(update.operands[1], bn.result(1));
}

TEST(BatchNorm, EvalAndAsWritten) {
  Graph eval = batchNorm(17, {"y"}, true).graphOf({.mode = OnnxMode::Eval});
  EXPECT_EQ(rowsOf(eval), "batch_norm");
  EXPECT_FALSE(eval.node(NodeId(0)).attrs.getBool("training"));
  EXPECT_EQ(rowsOf(batchNorm(17).graphOf({.mode = OnnxMode::AsWritten})), "batch_norm");
  EXPECT_EQ(rowsOf(batchNorm(17, {"y", "m", "v"}, true).graphOf({.mode = OnnxMode::AsWritten})),
            "batch_norm running_average running_average");
  // Below opset 14 more than one result meant training.
  EXPECT_EQ(rowsOf(batchNorm(9).graphOf({.mode = OnnxMode::AsWritten})), "batch_norm");
  EXPECT_EQ(rowsOf(batchNorm(9, {"y", "m", "v"}).graphOf({.mode = OnnxMode::AsWritten})),
            "batch_norm running_average running_average");
}

TEST(BatchNorm, UsedTwiceMovesItsAveragesTwice) {
  ModelMaker m = batchNorm(17);
  m.node("BatchNormalization", {"y", "scale", "bias", "mean", "var"}, {"z"});
  m.output("z");
  Graph g = m.graphOf();
  EXPECT_EQ(outputNames(g), (Names{"y", "z", "state.mean", "state.var"}));
  const Node &last = g.node(g.value(g.find("state.mean")).def);
  EXPECT_EQ(g.node(g.value(last.operands[0]).def).op->name, "running_average");
}

TEST(Dropout, DropsInTrainingWhateverTheFileSays) {
  ModelMaker m(17);
  m.input("x", {4});
  m.init("ratio", {}, {0.25});
  m.init("mode", {}, {0}, Proto::BOOL);
  m.node("Dropout", {"x", "ratio", "mode"}, {"a"});
  m.node("Dropout", {"a", "ratio", "mode"}, {"y"});
  m.output("y");
  Graph g = m.graphOf();
  EXPECT_EQ(rowsOf(g), "dropout dropout");
  EXPECT_EQ(g.node(NodeId(0)).attrs.getFloat("ratio"), 0.25);
  EXPECT_NE(g.node(NodeId(0)).attrs.getInt("stream"), g.node(NodeId(1)).attrs.getInt("stream"));
  EXPECT_EQ(rowsOf(m.graphOf({.mode = OnnxMode::Eval})), "identity"); // the output keeps its name
  EXPECT_EQ(rowsOf(m.graphOf({.mode = OnnxMode::AsWritten})), "identity");
}

// --- Outputs and names

TEST(Names, OutputsThatAreOtherValues) {
  ModelMaker m;
  m.input("x", {2});
  m.constant("c", {2}, {1, 2});
  m.node("Identity", {"x"}, {"same"});
  m.node("Relu", {"x"}, {"r"});
  m.node("Flatten", {"r"}, {"r.reshape"}, {{"axis", 0}});
  for (const char *name : {"same", "r", "c", "r.reshape"})
    m.output(name);
  EXPECT_EQ(outputNames(m.graphOf()), (Names{"same", "r", "c", "r.reshape"}));
}

// PyTorch's older exporter declares sizes from memory that nobody wrote: a note. Any other wrong
// shape is an error (broken_test.cc).
TEST(Names, SizesThatNobodyWroteAreNoted) {
  ModelMaker m;
  m.model.set_producer_name("pytorch");
  m.input("x", {2});
  m.node("Relu", {"x"}, {"y"});
  m.output("y");
  auto &t = *m.graph().mutable_output(0)->mutable_type()->mutable_tensor_type();
  t.set_elem_type(Proto::FLOAT);
  auto &size = *t.mutable_shape()->add_dim();
  size.set_dim_value(2297668033614959926);
  std::vector<std::string> notes;
  EXPECT_EQ(rowsOf(m.graphOf({.note = [&](const std::string &s) { notes.push_back(s); }})), "relu");
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("declares 'y' of size"), std::string::npos) << notes[0];
  size.set_dim_value(7);
  EXPECT_NE(m.errorOf().find("declares 'y' of size 7 on axis 0"), std::string::npos);
}

TEST(Names, OutputListedTwiceIsOne) {
  ModelMaker m;
  m.input("x", {2});
  m.node("Relu", {"x"}, {"y"});
  m.output("y");
  m.output("y");
  std::vector<std::string> notes;
  EXPECT_EQ(outputNames(m.graphOf({.note = [&](const std::string &s) { notes.push_back(s); }})),
            Names{"y"});
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("'y' is listed twice"), std::string::npos) << notes[0];
}

TEST(Names, OddOnesStay) {
  ModelMaker m;
  m.input("in:0", {2});
  m.node("Relu", {"in:0"}, {"/layer1/layer1.0/conv1/Conv_output_0"});
  m.node("Neg", {"/layer1/layer1.0/conv1/Conv_output_0"}, {"out put"});
  m.output("out put");
  Graph g = m.graphOf();
  EXPECT_TRUE(g.find("/layer1/layer1.0/conv1/Conv_output_0"));
  EXPECT_EQ(outputNames(g), Names{"out put"});
}

TEST(Dead, NodesThatNoOutputNeedsAreLeftOut) {
  ModelMaker m = layer();
  m.node("NoSuchOperator", {"h"}, {"unused"});
  EXPECT_EQ(rowsOf(m.graphOf({.dims = {{"N", 1}}})), "matmul add relu");
}

// --- External data

class ExternalData : public testing::Test {
protected:
  ModelMaker m;
  onnx::TensorProto *w;

  void SetUp() override {
    m.input("x", {1, 2});
    w = &m.init("w", {2, 2});
    m.node("MatMul", {"x", "w"}, {"y"});
    m.output("y");
    w->clear_raw_data();
    w->set_data_location(Proto::EXTERNAL);
    std::string data(8, '\0');
    for (float f : {1.f, 2.f, 3.f, 4.f})
      data.append(reinterpret_cast<char *>(&f), 4);
    std::ofstream(testing::TempDir() + "/w.data", std::ios::binary) << data;
  }
  void set(const char *key, const std::string &value) {
    auto &e = *w->add_external_data();
    e.set_key(key);
    e.set_value(value);
  }
  llvm::Expected<Graph> import() {
    std::string path = testing::TempDir() + "/m.onnx";
    std::ofstream(path, std::ios::binary) << m.bytes();
    return importOnnx(path, {});
  }
  std::string error() {
    auto g = import();
    return g ? "none" : llvm::toString(g.takeError());
  }
};

TEST_F(ExternalData, IsRead) {
  set("location", "w.data");
  set("offset", "8");
  set("length", "16");
  auto g = import();
  ASSERT_TRUE(bool(g)) << llvm::toString(g.takeError());
  EXPECT_EQ(numbers(g->inputOf(g->find("w"))->init.data), (std::vector<double>{1, 2, 3, 4}));
}

TEST_F(ExternalData, IsCutShort) {
  set("location", "w.data");
  set("offset", "12");
  EXPECT_NE(
      error().find(
          "initializer \"w\": error: its external data ends at byte 28 of 'w.data', which has 24"),
      std::string::npos)
      << error();
}

TEST_F(ExternalData, LiesBesideTheModelOnly) {
  for (const char *bad : {"/etc/passwd", "../w.data", "a/../../w.data", ""}) {
    w->clear_external_data();
    set("location", bad);
    EXPECT_NE(error().find("expects external data in a file beside the model"), std::string::npos)
        << error();
  }
  w->clear_external_data();
  set("location", "none.data");
  EXPECT_NE(error().find("is not there"), std::string::npos) << error();
  EXPECT_NE(m.errorOf().find("was not read from a folder"), std::string::npos);
}

} // namespace
} // namespace isthmus
