// Import of inputs, initializers, names and training mode.

#include "passes/differentiate/mode.h"
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
  EXPECT_EQ(m.errorOf({.dims = {{"M", 2}}}),
            "m.onnx: error: the model leaves the sizes 'N', 'H' open; give it (option dim = "
            "N=...), or give it (option dim = H=...)");
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
  EXPECT_NE(m.errorOf().find("dim = x.0=..."), std::string::npos);
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
    Graph g = m.graphOf({.dims = {{"N", 1}}, .note = [&](const Remark &r) { notes += r.text; }});
    EXPECT_EQ(rowsOf(g), "matmul add relu");
    EXPECT_EQ(notes.find("is of opset 99, newer than") != std::string::npos, opset == 99) << notes;
  }
}

// --- Parameters. tests/e2e checks with gradients which tensors are one parameter.

using Notes = std::vector<std::string>;

Graph graphWithNotes(const ModelMaker &m, Notes &notes, OnnxOptions options = {}) {
  options.note = [&](const Remark &r) { notes.push_back(r.text); };
  return m.graphOf(std::move(options));
}

bool areAbout(const Notes &notes, std::vector<std::string> subjects) {
  bool all = notes.size() == subjects.size();
  for (size_t i = 0; all && i < subjects.size(); ++i)
    all = notes[i].find(subjects[i]) != std::string::npos;
  EXPECT_TRUE(all) << testing::PrintToString(notes);
  return all;
}

void setSignature(ModelMaker &m, const std::string &inputs) {
  auto &p = *m.graph().add_metadata_props();
  p.set_key("pkg.torch.export.ExportedProgram.graph_signature");
  p.set_value("\n# inputs\n" + inputs + "x: USER_INPUT\n\n# outputs\nmul: USER_OUTPUT\n");
}

void setFoldedFrom(ModelMaker &m, const std::string &name, const std::string &list) {
  auto &v = *m.graph().add_value_info();
  v.set_name(name);
  auto &p = *v.add_metadata_props();
  p.set_key("pkg.onnxscript.optimizer.folded_from");
  p.set_value(list);
}

TEST(Parameters, MasksAndNumbersAreConstants) {
  ModelMaker m;
  m.input("x", {2, 2});
  m.init("w", {2, 2});
  m.init("logit_scale", {}, {2});                   // a scalar with a name of the model's own
  m.init("onnx::Mul_7", {1}, {3});                  // a scalar with a generated name
  m.init("additive", {2, 2}, {0, -INFINITY, 0, 0}); // an additive mask
  m.init("masked_bias", {}, {-10000});              // the value that replaces an infinity
  m.init("byCast", {2, 2}, {1, 0, 1, 1});           // a mask that is float only in the file
  m.init("table", {2}, {1, 0}, Proto::INT64);       // positions
  m.node("MatMul", {"x", "w"}, {"a"});
  m.node("Mul", {"a", "logit_scale"}, {"b"});
  m.node("Mul", {"b", "onnx::Mul_7"}, {"c"});
  m.node("Add", {"c", "additive"}, {"d"});
  m.node("Cast", {"byCast"}, {"mask"}, {{"to", int(Proto::BOOL)}});
  m.node("Where", {"mask", "d", "masked_bias"}, {"e"});
  m.node("Gather", {"e", "table"}, {"y"});
  m.output("y");
  Notes notes;
  Graph g = graphWithNotes(m, notes);
  EXPECT_EQ(inputsOf(g, InputKind::Param), "w:f32[2, 2] logit_scale:f32[]");
  EXPECT_EQ(inputsOf(g, InputKind::Const),
            "additive:f32[2, 2] mask:bool[2, 2] masked_bias:f32[] table:i64[2]");
  areAbout(notes, {"'logit_scale'", "'onnx::Mul_7'",
                   "'additive'; the same holds for 1 other: 'masked_bias'"});
  // Tensors that `learn` names are parameters, whatever the rules say.
  Graph asked = m.graphOf({.learn = parseNameList("onnx::Mul_*,w")});
  EXPECT_EQ(inputsOf(asked, InputKind::Param), "w:f32[2, 2] logit_scale:f32[] onnx::Mul_7:f32[1]");
}

TEST(Parameters, MadeUpNamesAreParametersWhereWeightsAreRead) {
  ModelMaker m;
  m.input("x", {2, 2});
  m.init("onnx::MatMul_1", {2, 2});
  m.init("onnx::Cast_2", {2, 2}, {1, 2, 3, 4});
  m.init("onnx::Add_3", {2, 2});
  m.node("MatMul", {"x", "onnx::MatMul_1"}, {"a"});
  m.node("Cast", {"onnx::Cast_2"}, {"cast"}, {{"to", int(Proto::FLOAT)}});
  m.node("MatMul", {"a", "cast"}, {"b"});
  m.node("Add", {"b", "onnx::Add_3"}, {"y"});
  m.output("y");
  Notes notes;
  EXPECT_EQ(inputsOf(graphWithNotes(m, notes), InputKind::Param),
            "onnx::MatMul_1:f32[2, 2] onnx::Cast_2:f32[2, 2]");
  areAbout(notes, {"'onnx::Add_3'"});
}

// Exporters write a group norm in this form, and fold the reshapes of its scale and shift.
TEST(Parameters, ScaleAndShiftBehindANormAreWeights) {
  ModelMaker m;
  m.input("x", {1, 4, 2});
  m.init("ones", {2}, {1, 1});
  m.init("zeros", {2}, {0, 0});
  m.init("grouped", {3}, {1, 2, -1}, Proto::INT64);
  m.init("whole", {3}, {1, 4, 2}, Proto::INT64);
  m.init("onnx::Mul_7", {4, 1}, {1, 2, 3, 4});
  m.init("onnx::Add_8", {4, 1}, {1, 2, 3, 5});
  m.init("onnx::Add_9", {4, 1}, {1, 2, 3, 6});
  m.node("Reshape", {"x", "grouped"}, {"a"});
  m.node("InstanceNormalization", {"a", "ones", "zeros"}, {"b"});
  m.node("Reshape", {"b", "whole"}, {"c"});
  m.node("Mul", {"c", "onnx::Mul_7"}, {"d"});
  m.node("Add", {"d", "onnx::Add_8"}, {"e"});
  m.node("Add", {"e", "onnx::Add_9"}, {"y"});
  m.output("y");
  Graph g = m.graphOf();
  EXPECT_EQ(inputsOf(g, InputKind::Param),
            "ones:f32[2] zeros:f32[2] onnx::Mul_7:f32[4, 1] onnx::Add_8:f32[4, 1]");
}

// Gemma's norms scale by 1 + weight, which both exporters fold. Another factor after the norm is a
// mask or a table, and constant.
TEST(Parameters, FactorsBehindAWrittenOutRmsNorm) {
  for (const char *form : {"root", "reciprocal", "power", "other"}) {
    const std::string_view f = form;
    ModelMaker m;
    m.input("x", {2, 3}).input("z", {2, 3});
    for (auto [name, value] :
         {std::pair("two", 2.0), {"one", 1.0}, {"less", -0.5}, {"epsilon", 1e-6}})
      m.constant(name, {}, {value});
    m.init("onnx::Mul_7", {3}, {1, 2, 3});
    m.init("onnx::Mul_8", {3}, {4, 5, 6});
    m.node("Pow", {"x", "two"}, {"square"});
    m.node("ReduceMean", {"square"}, {"mean"}, {{"axes", Ints{-1}}});
    m.node("Add", {"mean", "epsilon"}, {"sum"});
    m.node("Sqrt", {"sum"}, {"sqrt"});
    if (f == "power")
      m.node("Pow", {"sum", "less"}, {"inverse"});
    else if (f == "reciprocal")
      m.node("Reciprocal", {"sqrt"}, {"inverse"});
    else
      m.node("Div", {"one", "sqrt"}, {"inverse"});
    if (f == "root")
      m.node("Div", {"x", "sqrt"}, {"norm"});
    else
      m.node("Mul", {f == "other" ? "z" : "x", "inverse"}, {"norm"});
    m.node("Mul", {"norm", "onnx::Mul_7"}, {"scaled"});
    m.node("Mul", {"scaled", "onnx::Mul_8"}, {"y"});
    m.output("y");
    EXPECT_EQ(inputsOf(m.graphOf(), InputKind::Param), f == "other" ? "" : "onnx::Mul_7:f32[3]")
        << form;
  }
}

// Neither factor depends on an input, as for positions under learned projections.
TEST(Parameters, ProductsOfParametersReadWeights) {
  ModelMaker m;
  m.input("x", {2, 2});
  m.init("table.weight", {2, 2});
  m.init("onnx::MatMul_7", {2, 2}, {1, 2, 4, 3});
  m.node("MatMul", {"table.weight", "onnx::MatMul_7"}, {"a"});
  m.node("MatMul", {"x", "a"}, {"y"});
  m.output("y");
  EXPECT_EQ(inputsOf(m.graphOf(), InputKind::Param),
            "table.weight:f32[2, 2] onnx::MatMul_7:f32[2, 2]");
}

// The running averages of a batch norm that is written as single operators are no parameters.
TEST(Parameters, FrozenStatisticsAreConstants) {
  ModelMaker m;
  m.input("x", {2, 2});
  for (const char *name : {"n.weight", "n.running_mean", "n.running_var"})
    m.init(name, {2}, {1, 2});
  m.node("Sub", {"x", "n.running_mean"}, {"a"});
  m.node("Mul", {"a", "n.weight"}, {"b"});
  m.node("Div", {"b", "n.running_var"}, {"y"});
  m.output("y");
  Notes notes;
  EXPECT_EQ(inputsOf(graphWithNotes(m, notes), InputKind::Param), "n.weight:f32[2]");
  areAbout(notes, {"'n.weight'", "'n.running_mean'; the same holds for 1 other: 'n.running_var'"});
}

TEST(Parameters, FrequenciesAndTablesOfPositionsAreConstants) {
  ModelMaker m;
  m.input("x", {2, 4, 6});
  m.input("position", {4}, Proto::INT64);
  m.init("inv_freq", {1, 3}, {1, 0.1, 0.01});
  m.init("column", {2}, {-1, 1}, Proto::INT64);
  std::vector<double> sines, cosines, both;
  for (int t = 0; t < 4; ++t)
    for (int i = 0; i < 6; ++i) {
      sines.push_back(std::sin(t * std::pow(0.3, i)));
      cosines.push_back(std::cos(t * std::pow(0.3, i)));
      both.push_back(i % 2 ? std::cos(t * std::pow(0.3, i / 2))
                           : std::sin(t * std::pow(0.3, i / 2)));
    }
  m.init("sin_cached", {4, 6}, sines);
  m.init("cos_cached", {4, 6}, cosines);
  m.init("pe", {1, 4, 6}, both);
  m.init("learned_pe", {1, 4, 6});
  m.node("Cast", {"position"}, {"t"}, {{"to", int(Proto::FLOAT)}});
  m.node("Reshape", {"t", "column"}, {"t1"});
  m.node("MatMul", {"t1", "inv_freq"}, {"angle"});
  m.node("Concat", {"angle", "angle"}, {"angles"}, {{"axis", 1}});
  m.node("Cos", {"angles"}, {"cos"});
  m.node("Sin", {"angles"}, {"sin"});
  m.node("Mul", {"x", "cos"}, {"a"});
  m.node("Mul", {"a", "sin"}, {"b"});
  m.node("Add", {"b", "pe"}, {"c"});
  m.node("Mul", {"c", "sin_cached"}, {"d"});
  m.node("Mul", {"d", "cos_cached"}, {"e"});
  m.node("Add", {"e", "learned_pe"}, {"y"});
  m.output("y");
  Notes notes;
  EXPECT_EQ(inputsOf(graphWithNotes(m, notes), InputKind::Param), "learned_pe:f32[1, 4, 6]");
  areAbout(notes, {"'inv_freq'; the same holds for 3 others: "});
}

// Learned layers before a sine are no frequencies.
TEST(Parameters, WeightsInFrontOfASineAreLearned) {
  ModelMaker m;
  m.input("x", {2, 2});
  m.init("w", {2, 2});
  m.node("MatMul", {"x", "w"}, {"a"});
  m.node("Sin", {"a"}, {"y"});
  m.output("y");
  EXPECT_EQ(inputsOf(m.graphOf(), InputKind::Param), "w:f32[2, 2]");
}

// --- Parameters by the exporter's records

TEST(Parameters, SignatureDecides) {
  ModelMaker m;
  m.input("x", {2, 2});
  m.init("temperature", {});
  m.init("buffer", {2, 2});
  m.init("val_3", {2, 2}); // not named: a weight that the exporter transposed
  m.init("full", {2, 2});  // not named, and no weight
  m.node("Mul", {"x", "temperature"}, {"a"});
  m.node("Add", {"a", "buffer"}, {"b"});
  m.node("MatMul", {"b", "val_3"}, {"c"});
  m.node("Add", {"c", "full"}, {"y"});
  m.output("y");
  setSignature(m, "p_temperature: PARAMETER target='temperature'\n"
                  "b_buffer: BUFFER target='buffer' persistent=True\n");
  Notes notes;
  Graph g = graphWithNotes(m, notes);
  EXPECT_EQ(inputsOf(g, InputKind::Param), "temperature:f32[] val_3:f32[2, 2]");
  EXPECT_EQ(inputsOf(g, InputKind::Const), "buffer:f32[2, 2] full:f32[2, 2]");
  areAbout(notes, {"'val_3'", "'buffer' (BUFFER)", "'full'"});
}

TEST(Parameters, WhatIsFoldedFromParametersIsLearnedInTheirPlace) {
  ModelMaker m;
  m.input("x", {2, 2});
  for (const char *name : {"val_0", "t_1", "cos", "val_5"})
    m.init(name, {2, 2}, {1, 2, 3, 4});
  m.init("exp", {}, {2});
  m.node("MatMul", {"x", "val_0"}, {"a"});
  m.node("Add", {"a", "t_1"}, {"b"});
  m.node("Mul", {"b", "cos"}, {"c"});
  m.node("Mul", {"c", "exp"}, {"d"});
  m.node("MatMul", {"d", "val_5"}, {"y"});
  m.output("y");
  setSignature(m, "p_w: PARAMETER target='w'\np_b: PARAMETER target='b'\n"
                  "p_s: PARAMETER target='s'\np_g: PARAMETER target='g'\n"
                  "b_f: BUFFER target='f' persistent=True\n");
  setFoldedFrom(m, "val_0", "['w']");             // transposed
  setFoldedFrom(m, "t_1", "['b', 'val_9']");      // transposed by the program
  setFoldedFrom(m, "cos", "['f', 'mul']");        // a table
  setFoldedFrom(m, "exp", "['s']");               // computed, and no weight
  setFoldedFrom(m, "val_5", "['f', 'g', 'mul']"); // not from parameters alone
  Notes notes;
  EXPECT_EQ(inputsOf(graphWithNotes(m, notes), InputKind::Param), "val_0:f32[2, 2] t_1:f32[2, 2]");
  areAbout(notes, {"'val_0' of 'w'; the same holds for 1 other: 't_1'",
                   "'cos'; the same holds for 1 other: 'val_5'", "'exp' of 's'", "'g'"});
}

// The class token of a vision transformer, which precedes each picture's patches.
TEST(Parameters, WhatTheExporterRepeatedIsLearnedOnce) {
  ModelMaker m;
  m.input("x", {2, 3, 2});
  m.init("expand_1", {2, 1, 2}, {1, 2, 1, 2});
  m.init("expand", {2, 1, 2}, {1, 2, 3, 4}); // different rows, so the model has them
  m.node("Concat", {"expand_1", "x"}, {"h"}, {{"axis", 1}});
  m.node("Add", {"h", "expand"}, {"y"});
  m.output("y");
  setSignature(m, "p_t: PARAMETER target='token'\np_s: PARAMETER target='s'\n");
  setFoldedFrom(m, "expand_1", "['token', 'val_1']");
  setFoldedFrom(m, "expand", "['s', 'val_2']");
  Notes notes;
  Graph g = graphWithNotes(m, notes);
  EXPECT_EQ(inputsOf(g, InputKind::Param), "expand_1:f32[1, 1, 2] expand:f32[2, 1, 2]");
  EXPECT_EQ(rowsOf(g), "broadcast concat add");
  areAbout(notes, {"'expand' of 's'", "first axis: 'expand_1' of 'token'"});
  EXPECT_EQ(numbers(outputsOf(g, {{"x", floats({2, 3, 2}, ModelMaker::Values(12, 0))}})[0]),
            (ModelMaker::Values{2, 4, 1, 2, 1, 2, 1, 2, 4, 6, 3, 4, 3, 4, 3, 4}));
  EXPECT_EQ(inputsOf(m.graphOf({.untie = parseNameList("expand_1")}), InputKind::Param),
            "expand_1:f32[2, 1, 2] expand:f32[2, 1, 2]");
}

// Gates mix two values by w and 1 - w, and some activations scale by w and 1 / w. The exporter
// computes the second factor, and removes leading axes of size 1.
TEST(Parameters, KnowsWhatWasComputedFromOneThatIsRead) {
  ModelMaker m;
  m.input("x", {2, 3});
  m.init("mix", {1, 1, 3}, {0.25, 0.1, 3});
  m.init("onnx::Mul_4", {1, 3}, {0.75, double(1 - 0.1f), -2});
  m.init("alpha", {3}, {2, 3, 0.1});
  m.init("onnx::Mul_5", {3}, {0.5, double(1 / 3.0f), double(1 / 0.1f)});
  m.init("onnx::Mul_6", {3}, {-2, -3, double(-0.1f)});
  m.node("Mul", {"x", "mix"}, {"a"});
  m.node("Mul", {"x", "onnx::Mul_4"}, {"b"});
  m.node("Add", {"a", "b"}, {"c"});
  m.node("Mul", {"c", "alpha"}, {"d"});
  m.node("Mul", {"d", "onnx::Mul_5"}, {"e"});
  m.node("Mul", {"e", "onnx::Mul_6"}, {"y"});
  m.output("y");
  Notes notes;
  Graph g = graphWithNotes(m, notes);
  EXPECT_EQ(inputsOf(g, InputKind::Param), "mix:f32[1, 1, 3] alpha:f32[3]");
  EXPECT_EQ(rowsOf(g), "affine reshape reciprocal mul mul add mul mul mul");
  areAbout(notes, {"'onnx::Mul_4' is 1 - 'mix'; the same holds for 1 other: 'onnx::Mul_5'",
                   "their names are made up"});
  EXPECT_EQ(inputsOf(m.graphOf({.untie = parseNameList("onnx::Mul_5")}), InputKind::Param),
            "mix:f32[1, 1, 3] alpha:f32[3]");
  EXPECT_EQ(rowsOf(m.graphOf({.untie = parseNameList("onnx::Mul_5")})),
            "affine reshape mul mul add mul mul mul");
}

// A tensor that the exporter records as a buffer or a parameter is not derived from another,
// whatever its values.
TEST(Parameters, OfTheModelAreNotComputed) {
  ModelMaker m;
  m.input("x", {2, 2});
  m.init("w", {2}, {0.25, 0.5});
  m.init("keep", {2}, {0.75, 0.5});
  m.init("other", {2}, {4, 2});
  m.node("Mul", {"x", "w"}, {"a"});
  m.node("Mul", {"a", "keep"}, {"b"});
  m.node("Mul", {"b", "other"}, {"y"});
  m.output("y");
  EXPECT_EQ(inputsOf(m.graphOf(), InputKind::Param), "w:f32[2] keep:f32[2] other:f32[2]");
  setSignature(m, "p_w: PARAMETER target='w'\nb_keep: BUFFER target='keep'\n"
                  "p_other: PARAMETER target='other'\n");
  EXPECT_EQ(inputsOf(m.graphOf(), InputKind::Param), "w:f32[2] other:f32[2]");
  EXPECT_EQ(rowsOf(m.graphOf()), "mul mul mul");
}

TEST(Parameters, TellsWhatGradientsOfReadParametersLack) {
  ModelMaker m;
  m.input("x", {2, 2});
  m.init("alpha", {2}, {2, 4});
  m.init("reciprocal", {2}, {4, 16});
  m.init("exp", {2}, {3, 5});
  m.node("Mul", {"x", "alpha"}, {"a"});
  m.node("Mul", {"a", "reciprocal"}, {"b"});
  m.node("Mul", {"b", "exp"}, {"y"});
  m.output("y");
  setSignature(m, "p_alpha: PARAMETER target='alpha'\np_s: PARAMETER target='s'\n");
  setFoldedFrom(m, "reciprocal", "['alpha', 'add']");
  setFoldedFrom(m, "exp", "['s']");
  Notes notes;
  EXPECT_EQ(inputsOf(graphWithNotes(m, notes), InputKind::Param), "alpha:f32[2]");
  areAbout(notes, {"parameters that are not in the file (exported with optimize=False they are): "
                   "'exp' of 's'",
                   "whose gradients lack what these would add (exported with optimize=False they "
                   "are whole): 'reciprocal' of 'alpha'"});
}

TEST(Parameters, TellsWhatTheExporterTookAway) {
  ModelMaker m;
  m.input("x", {2, 2});
  m.init("a", {2});
  m.node("Mul", {"x", "a"}, {"h"});
  m.node("Mul", {"h", "a"}, {"y"});
  m.output("y");
  setSignature(m, "p_a: PARAMETER target='a'\np_c: PARAMETER target='c'\n"
                  "p_b: PARAMETER target='b'\nb_d: BUFFER target='d'\n");
  Notes notes;
  graphWithNotes(m, notes);
  areAbout(notes, {"does not hold"});
  EXPECT_NE(notes[0].find("'c'; the same holds for 1 other: 'b'"), std::string::npos) << notes[0];
}

// The optimizer of PyTorch's newer exporter lets all readers of equal parameters read one of them.
// Each node's metadata say which parameter the program read.
TEST(Parameters, MergedParametersAreToldApartByRecords) {
  ModelMaker m;
  m.input("x", {2, 2});
  m.init("a", {2}, {1, 1});
  m.init("val_0", {2, 2});
  auto call = [&](onnx::NodeProto &n, const std::string &name, const std::string &args) {
    auto &p = *n.add_metadata_props();
    p.set_key("pkg.torch.onnx.fx_node");
    p.set_value("%" + name + " : [num_users=1] = call_function[target=torch.ops.aten.op](args = (" +
                args + "), kwargs = {})");
  };
  call(m.node("MatMul", {"x", "val_0"}, {"h1"}), "linear", "%x, %p_w, %p_a");
  call(m.node("Add", {"h1", "a"}, {"h2"}), "linear", "%x, %p_w, %p_a");
  call(m.node("MatMul", {"h2", "val_0"}, {"h3"}), "linear_1", "%linear, %p_v, %p_b");
  call(m.node("Add", {"h3", "a"}, {"h4"}), "linear_1", "%linear, %p_v, %p_b");
  call(m.node("Mul", {"h4", "a"}, {"h5"}), "mul", "%linear_1, %p_b");
  call(m.node("Mul", {"h5", "a"}, {"y"}), "mul_1", "%mul, %p_a");
  m.output("y");
  setSignature(m, "p_a: PARAMETER target='a'\np_b: PARAMETER target='b'\n"
                  "p_w: PARAMETER target='w'\np_v: PARAMETER target='v'\n"
                  "p_tied: PARAMETER target='tied'\n");
  setFoldedFrom(m, "val_0", "['w']");
  Notes notes;
  Graph g = graphWithNotes(m, notes);
  EXPECT_EQ(inputsOf(g, InputKind::Param), "a:f32[2] val_0:f32[2, 2] val_0.2:f32[2, 2] b:f32[2]");
  auto reads = [&](const char *node) {
    return g.valueName(g.node(g.value(g.find(node)).def).operands[1]).str();
  };
  EXPECT_EQ(reads("h3"), "val_0.2");
  EXPECT_EQ(reads("h4"), "b");
  EXPECT_EQ(reads("h5"), "b");
  EXPECT_EQ(reads("y"), "a");
  areAbout(notes, {"'v', as 'val_0.2' beside 'val_0'; the same holds for 1 other: 'b'", "'tied'",
                   "'val_0' of 'w'"});
}

// Notes of PyTorch's newer exporter on the call behind a node, and on the modules around it.
void setCall(onnx::NodeProto &n, const std::string &name, const std::string &op,
             const std::string &args, const std::string &modules) {
  auto set = [&](const std::string &key, const std::string &value) {
    auto &p = *n.add_metadata_props();
    p.set_key(key);
    p.set_value(value);
  };
  set("pkg.torch.onnx.fx_node", "%" + name +
                                    " : [num_users=1] = call_function[target=torch.ops.aten." + op +
                                    "](args = (" + args + "), kwargs = {})");
  set("pkg.torch.onnx.name_scopes", "['', " + modules + "'" + name + "']");
}

TEST(Import, ValuesAreCalledByTheirModules) {
  ModelMaker m;
  m.input("x", {3, 2});
  m.init("w", {2, 2});
  setCall(m.node("MatMul", {"x", "w"}, {"a"}), "linear", "linear.default", "%x, %p_w",
          "'l', 'l.v', ");
  setCall(m.node("Relu", {"a"}, {"b"}), "relu", "relu.default", "%linear", "");
  setCall(m.node("Neg", {"b"}, {"y"}), "neg", "neg.default", "%relu", "'l', ");
  m.output("y");
  Graph g = m.graphOf();
  for (const char *name : {"l.v.a", "b", "y"})
    EXPECT_TRUE(g.find(name)) << name;
}

// Attention's output has a bias of zeros at first, which the exporter removes.
TEST(Parameters, BiasesOfZerosThatWereRemovedAreThereAgain) {
  ModelMaker m;
  m.input("x", {3, 2});
  m.init("o.weight", {4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  auto product = [&](const char *x, const char *y, const std::string &args) {
    onnx::NodeProto &n = m.node("Gemm", {x, "o.weight"}, {y}, {{"transB", 1}});
    auto &p = *n.add_metadata_props();
    p.set_key("pkg.onnxscript.rewriter.rule_name");
    p.set_value("RemoveOptionalBiasFromGemm");
    setCall(n, y, "linear.default", args, "");
  };
  product("x", "a", "%x, %p_w, %p_b");
  product("x", "b", "%x, %p_w, None"); // the program has none
  product("x", "c", "%x, %p_w, %b_s"); // a buffer
  product("x", "d", "%x, %p_w, %p_b");
  m.node("Sum", {"a", "b", "c", "d"}, {"y"});
  m.output("y");
  setSignature(m, "p_w: PARAMETER target='o.weight'\np_b: PARAMETER target='o.bias'\n"
                  "b_s: BUFFER target='s'\n");
  Notes notes;
  Graph g = graphWithNotes(m, notes);
  EXPECT_EQ(inputsOf(g, InputKind::Param), "o.weight:f32[4, 2] o.bias:f32[4]");
  areAbout(notes, {"'o.bias'"});
  EXPECT_EQ(numbers(outputsOf(g, {{"x", floats({3, 2}, {1, 0, 0, 1, 0, 0})}})[0]),
            (ModelMaker::Values{4, 12, 20, 28, 8, 16, 24, 32, 0, 0, 0, 0}));
}

// --- One tensor, one parameter

// Three products read a tensor, one of them through an Identity. By default its elements differ.
ModelMaker shared(ModelMaker::Values values = {}) {
  ModelMaker m;
  m.input("x", {2, 2});
  m.init("w", {2, 2}, std::move(values));
  m.node("Identity", {"w"}, {"v"});
  m.node("MatMul", {"x", "w"}, {"a"});
  m.node("MatMul", {"a", "v"}, {"b"});
  m.node("MatMul", {"b", "w"}, {"y"});
  m.output("y");
  return m;
}

TEST(Ties, IdentityIsTheSameParameter) {
  Notes notes;
  Graph g = graphWithNotes(shared(), notes);
  EXPECT_EQ(inputsOf(g, InputKind::Param), "w:f32[2, 2]");
  EXPECT_EQ(rowsOf(g), "matmul matmul matmul");
  areAbout(notes, {"'v' is 'w'"});
}

TEST(Ties, WhatIsEqualThroughoutIsSplit) {
  Notes notes;
  Graph g = graphWithNotes(shared({1, 1, 1, 1}), notes);
  EXPECT_EQ(inputsOf(g, InputKind::Param), "w:f32[2, 2] v:f32[2, 2]");
  EXPECT_EQ(g.inputOf(g.find("w"))->init.data.data,
            g.inputOf(g.find("v"))->init.data.data); // stored once
  areAbout(notes, {"'v' beside 'w'"});
  EXPECT_EQ(inputsOf(shared({1, 1, 1, 1}).graphOf({.ties = {{"w", "v"}}}), InputKind::Param),
            "w:f32[2, 2]");
}

TEST(Ties, UntieSplitsByNameAndByReader) {
  EXPECT_EQ(inputsOf(shared().graphOf({.untie = parseNameList("v")}), InputKind::Param),
            "w:f32[2, 2] v:f32[2, 2]");
  // The Identity is the first reader, and two products follow.
  Graph g = shared().graphOf({.untie = parseNameList("w")});
  EXPECT_EQ(inputsOf(g, InputKind::Param), "w:f32[2, 2] w.2:f32[2, 2] w.3:f32[2, 2]");
  EXPECT_EQ(g.valueName(g.node(NodeId(0)).operands[1]), "w.2");
  EXPECT_NE(shared().errorOf({.untie = parseNameList("W")}).find("did you mean 'w'"),
            std::string::npos);
}

// The exporter may write the model's clone of a parameter as an Identity. If it records the
// parameters, or if the Identity's name is generated, the clone is no parameter of its own.
TEST(Ties, IdentityOfTheModelIsNoParameter) {
  for (bool named : {false, true}) {
    SCOPED_TRACE(named);
    ModelMaker m;
    m.input("x", {2, 2});
    m.init("w", {2, 2});
    m.init("table", {2, 2}, {1, 1, 1, 1});
    std::string clone = named ? "clone" : "/Identity_output_0";
    m.node("Identity", {"w"}, {clone});
    m.node("MatMul", {"x", clone}, {"a"});
    m.node("MatMul", {"a", "w"}, {"b"});
    m.node("Identity", {"table"}, {clone + ".2"});
    m.node("Mul", {"b", clone + ".2"}, {"y"});
    m.output("y");
    if (named)
      setSignature(m, "p_w: PARAMETER target='w'\nc_table: CONSTANT_TENSOR target='table'\n");
    Graph g = m.graphOf();
    EXPECT_EQ(inputsOf(g, InputKind::Param), named ? "w:f32[2, 2]" : "w:f32[2, 2] table:f32[2, 2]");
    EXPECT_EQ(rowsOf(g), "matmul matmul mul");
    EXPECT_EQ(g.node(NodeId(0)).operands[1], g.find("w"));
  }
}

// An embedding, and a head that is its transpose and that the exporter has folded.
ModelMaker tiedHead() {
  ModelMaker m;
  m.input("x", {2}, Proto::INT64);
  m.init("embed.weight", {3, 2}, {1, 2, 3, 4, 5, 6});
  m.init("onnx::MatMul_9", {2, 3}, {1, 3, 5, 2, 4, 6});
  m.node("Gather", {"embed.weight", "x"}, {"h"});
  m.node("MatMul", {"h", "onnx::MatMul_9"}, {"y"});
  m.output("y");
  return m;
}

TEST(Ties, TransposedCopyIsTheSameParameter) {
  Notes notes;
  Graph g = graphWithNotes(tiedHead(), notes);
  EXPECT_EQ(inputsOf(g, InputKind::Param), "embed.weight:f32[3, 2]");
  // The product reads the table itself; nothing reads the transpose.
  EXPECT_EQ(rowsOf(g), "transpose gather matmul");
  EXPECT_EQ(g.node(NodeId(2)).operands[1], g.find("embed.weight"));
  areAbout(notes, {"'onnx::MatMul_9' is 'embed.weight' transposed"});
  EXPECT_EQ(
      inputsOf(tiedHead().graphOf({.untie = parseNameList("onnx::MatMul_9")}), InputKind::Param),
      "embed.weight:f32[3, 2] onnx::MatMul_9:f32[2, 3]");
}

TEST(Ties, ReshapedAndCastCopiesAreTheSameParameter) {
  ModelMaker m;
  m.input("x", {2, 1, 2});
  m.init("gamma", {2}, {0.1, 0.7});
  m.init("onnx::Mul_3", {2, 1, 1},
         {0.1, 0.7}); // the name is generated, and it is no weight, but it is a parameter
  m.init("half", {2, 1}, {}, Proto::FLOAT16);
  auto &half = *m.graph().mutable_initializer(2);
  half.clear_raw_data();
  for (int bits : {0x2e66, 0x399a}) // 0.1 and 0.7
    half.add_int32_data(bits);
  m.init("other", {2, 1}, {0.1, 0.8});
  m.node("Mul", {"x", "gamma"}, {"a"});
  m.node("Mul", {"a", "onnx::Mul_3"}, {"b"});
  m.node("Cast", {"half"}, {"wide"}, {{"to", int(Proto::FLOAT)}});
  m.node("Mul", {"b", "wide"}, {"c"});
  m.node("Mul", {"c", "other"}, {"y"});
  m.output("y");
  Notes notes;
  Graph g = graphWithNotes(m, notes);
  EXPECT_EQ(inputsOf(g, InputKind::Param), "gamma:f32[2] other:f32[2, 1]");
  areAbout(notes, {"'half' is 'gamma' as f16; the same holds for 1 other: 'onnx::Mul_3'"});
  auto y = numbers(outputsOf(g, {{"x", floats({2, 1, 2}, {1, 1, 1, 1})}})[0]);
  EXPECT_NEAR(y[0], 0.1 * 0.1 * 0.1 * 0.1, 1e-6); // gamma[0], onnx::Mul_3[0], half[0], other[0]
}

TEST(Ties, TieTakesEqualTensorsOnly) {
  ModelMaker m = tiedHead();
  EXPECT_NE(m.errorOf({.ties = {{"embed.weight", "head"}}})
                .find("no tensor of the file is called 'head'"),
            std::string::npos);
  m.init("z", {2, 3});
  m.node("Add", {"y", "z"}, {"y2"});
  m.output("y2");
  EXPECT_NE(m.errorOf({.ties = {{"embed.weight", "z"}}}).find("their numbers differ"),
            std::string::npos);
}

// Layers with equal initial values are separate layers.
TEST(Ties, EqualTensorsOfOneShapeAreNotTied) {
  ModelMaker m;
  m.input("x", {2, 2});
  m.init("a", {2, 2});
  m.init("b", {2, 2});
  m.node("MatMul", {"x", "a"}, {"h"});
  m.node("MatMul", {"h", "b"}, {"y"});
  m.output("y");
  EXPECT_EQ(inputsOf(m.graphOf(), InputKind::Param), "a:f32[2, 2] b:f32[2, 2]");
  EXPECT_EQ(inputsOf(m.graphOf({.ties = {{"a", "b"}}}), InputKind::Param), "a:f32[2, 2]");
}

// Tensors that the exporter made from one parameter in several places are one parameter.
TEST(Ties, CopiesMadeOfOneParameterAreTied) {
  ModelMaker m;
  m.input("x", {2, 2});
  for (const char *name : {"val_0", "val_1"})
    m.init(name, {2, 2});
  m.node("MatMul", {"x", "val_0"}, {"a"});
  m.node("MatMul", {"a", "val_1"}, {"y"});
  m.output("y");
  setSignature(m, "p_w: PARAMETER target='w'\n");
  for (const char *name : {"val_0", "val_1"})
    setFoldedFrom(m, name, "['w']");
  Notes notes;
  EXPECT_EQ(inputsOf(graphWithNotes(m, notes), InputKind::Param), "val_0:f32[2, 2]");
  areAbout(notes, {"'val_1' is 'val_0'", "'val_0' of 'w'"});
}

// --- Weights that are not initializers

TEST(Parameters, ConstantNodesAreLearnedWhereNothingElseIs) {
  ModelMaker m;
  m.input("x", {2, 2});
  m.constant("w", {2, 2}, {1, 2, 3, 4});
  m.constant("shift", {2}, {1, 2});
  m.node("MatMul", {"x", "w"}, {"a"});
  m.node("Add", {"a", "shift"}, {"y"});
  m.output("y");
  Notes notes;
  Graph g = graphWithNotes(m, notes);
  EXPECT_EQ(inputsOf(g, InputKind::Param), "w:f32[2, 2]");
  EXPECT_EQ(inputsOf(g, InputKind::Const), "shift:f32[2]");
  areAbout(notes, {"'w'"});
  EXPECT_EQ(inputsOf(m.graphOf({.learn = parseNameList("shift")}), InputKind::Param),
            "w:f32[2, 2] shift:f32[2]");
  // If an initializer is a weight, Constant nodes are constants.
  m.init("v", {2, 2});
  m.node("MatMul", {"y", "v"}, {"z"});
  m.output("z");
  EXPECT_EQ(inputsOf(m.graphOf(), InputKind::Param), "v:f32[2, 2]");
}

// A weight of a loop's body is one parameter for all turns.
TEST(Parameters, InitializersOfBodiesAreLearned) {
  ModelMaker m;
  m.input("x", {2, 2});
  m.init("turns", {}, {3}, Proto::INT64);
  auto &n = m.node("Loop", {"turns", "", "x"}, {"y"});
  auto &a = *n.add_attribute();
  a.set_name("body");
  a.set_type(onnx::AttributeProto::GRAPH);
  ModelMaker body;
  body.input("i", {}, Proto::INT64);
  body.input("on", {}, Proto::BOOL);
  body.input("h", {2, 2});
  body.init("cell.weight", {2, 2});
  body.node("MatMul", {"h", "cell.weight"}, {"next"});
  body.node("Identity", {"on"}, {"goes"});
  body.output("goes");
  body.output("next");
  *a.mutable_g() = body.graph();
  m.output("y");
  Graph g = m.graphOf();
  EXPECT_EQ(rowsOf(g), "matmul matmul matmul");
  EXPECT_EQ(inputsOf(g, InputKind::Param), "cell.weight:f32[2, 2]");
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

// --- Training. Layers are imported as the file has them; a mode can change them.

bool isTraining(const Graph &g, uint32_t node) {
  return g.node(NodeId(node)).attrs.getBool("training");
}

TEST(BatchNorm, IsAsWritten) {
  Graph g = batchNorm(17).graphOf();
  EXPECT_EQ(rowsOf(g), "batch_norm");
  EXPECT_FALSE(isTraining(g, 0));
  EXPECT_EQ(inputsOf(g, InputKind::Param), "scale:f32[2] bias:f32[2]");
  EXPECT_EQ(inputsOf(g, InputKind::State), "mean:f32[2] var:f32[2]");
  EXPECT_EQ(rowsOf(batchNorm(17, {"y", "m", "v"}, true).graphOf()),
            "batch_norm running_average running_average");
  // Below opset 14 more than one result meant training.
  EXPECT_EQ(rowsOf(batchNorm(9).graphOf()), "batch_norm");
  EXPECT_EQ(rowsOf(batchNorm(9, {"y", "m", "v"}).graphOf()),
            "batch_norm running_average running_average");
}

TEST(BatchNorm, CanBeMadeToTrain) {
  Graph g = withMode(batchNorm(17).graphOf(), Mode::Training);
  EXPECT_EQ(rowsOf(g), "batch_norm running_average running_average");
  EXPECT_EQ(outputNames(g), (Names{"y", "state.mean", "state.var"}));
  const Node &bn = g.node(NodeId(0)), &update = g.node(NodeId(1));
  EXPECT_TRUE(isTraining(g, 0));
  EXPECT_EQ(update.phase, Phase::Update);
  EXPECT_EQ(update.attrs.getFloat("momentum"), 0.75);
  EXPECT_EQ(g.valueName(update.operands[0]), "mean");
  EXPECT_EQ(update.operands[1], bn.result(1));
  // A layer that is written for training updates its averages once.
  Graph trains = batchNorm(17, {"y"}, true).graphOf();
  EXPECT_EQ(rowsOf(trains), rowsOf(g));
  EXPECT_EQ(rowsOf(withMode(trains, Mode::Training)), rowsOf(g));
  Graph eval = withMode(trains, Mode::Eval);
  EXPECT_EQ(rowsOf(eval), "batch_norm");
  EXPECT_FALSE(isTraining(eval, 0));
}

TEST(BatchNorm, UsedTwiceMovesItsAveragesTwice) {
  ModelMaker m = batchNorm(17);
  m.node("BatchNormalization", {"y", "scale", "bias", "mean", "var"}, {"z"});
  m.output("z");
  Graph g = withMode(m.graphOf(), Mode::Training);
  EXPECT_EQ(outputNames(g), (Names{"y", "z", "state.mean", "state.var"}));
  const Node &last = g.node(g.value(g.find("state.mean")).def);
  EXPECT_EQ(g.node(g.value(last.operands[0]).def).op->name, "running_average");
}

TEST(Dropout, WaitsForTraining) {
  ModelMaker m(17);
  m.input("x", {4});
  m.init("ratio", {}, {0.25});
  m.init("mode", {}, {0}, Proto::BOOL);
  m.node("Dropout", {"x", "ratio", "mode"}, {"a"});
  m.node("Dropout", {"a", "ratio", "mode"}, {"y"});
  m.output("y");
  Graph written = m.graphOf();
  EXPECT_EQ(rowsOf(written), "dropout dropout");
  EXPECT_FALSE(isTraining(written, 0));
  EXPECT_EQ(rowsOf(withoutIdleDrops(written)), "dropout"); // the output keeps its name
  Graph g = withMode(written, Mode::Training);
  EXPECT_TRUE(isTraining(g, 0));
  EXPECT_EQ(rowsOf(withoutIdleDrops(g)), "dropout dropout");
  EXPECT_EQ(g.node(NodeId(0)).attrs.getFloat("ratio"), 0.25);
  EXPECT_NE(g.node(NodeId(0)).attrs.getInt("stream"), g.node(NodeId(1)).attrs.getInt("stream"));
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

TEST(Names, OutputsThatAreInputs) {
  ModelMaker m;
  m.input("x", {2});
  m.init("w", {2}, {1, 2});
  m.init("places", {2}, {1, 2}, Proto::INT64);
  m.node("Mul", {"x", "w"}, {"y"});
  for (const char *name : {"x", "w", "places", "y"})
    m.output(name);
  EXPECT_EQ(outputNames(m.graphOf()), (Names{"x", "w", "places", "y"}));
}

// PyTorch's older exporter writes sizes from uninitialized memory, which give a note. Any other
// wrong shape is an error (broken_test.cc).
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
  EXPECT_EQ(rowsOf(m.graphOf({.note = [&](const Remark &r) { notes.push_back(r.text); }})), "relu");
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("declares 'y' of size"), std::string::npos) << notes[0];
  size.set_dim_value(7);
  EXPECT_NE(m.errorOf().find("declares 'y' of size 7 on axis 0"), std::string::npos);
}

// Its shape inference also fails at a Reshape to computed sizes if some sizes are open.
TEST(Names, RanksThatPyTorchGuessesAreNoted) {
  ModelMaker m;
  m.input("x", {"N", 3});
  m.node("Relu", {"x"}, {"y"});
  m.output("y");
  auto &t = *m.graph().mutable_output(0)->mutable_type()->mutable_tensor_type();
  t.set_elem_type(Proto::FLOAT);
  t.mutable_shape()->add_dim()->set_dim_param("N");
  EXPECT_NE(m.errorOf({.dims = {{"N", 2}}}).find("of rank 1, but it is 'f32[2, 3]'"),
            std::string::npos);
  m.model.set_producer_name("pytorch");
  EXPECT_EQ(rowsOf(m.graphOf({.dims = {{"N", 2}}})), "relu");
  t.mutable_shape()->add_dim()->set_dim_value(4);
  EXPECT_NE(m.errorOf({.dims = {{"N", 2}}}).find("of size 4 on axis 1"), std::string::npos);
}

TEST(LayerNormalization, StatisticsAreOfTheTypeThatTheNodeNames) {
  ModelMaker m;
  m.input("x", {2, 3}, Proto::DOUBLE);
  m.constant("ones", {3}, {1, 1, 1});
  m.node("CastLike", {"ones", "x"}, {"scale"});
  m.node("LayerNormalization", {"x", "scale", ""}, {"y", "mean", "deviation"});
  for (const char *name : {"y", "mean", "deviation"})
    m.output(name);
  Graph g = m.graphOf();
  EXPECT_EQ(g.type(g.find("y")).str(), "f64[2, 3]");
  EXPECT_EQ(g.type(g.find("mean")).str(), "f32[2, 1]");
  EXPECT_EQ(g.type(g.find("deviation")).str(), "f32[2, 1]");
}

// 4 elements times 1.7 are 6.8. ONNX's reference aligns the corners of 6.8 elements, and PyTorch
// those of 6.
TEST(Resize, PyTorchAlignsCornersOfWholeSizes) {
  ModelMaker m;
  m.input("x", {4});
  m.constant("scale", {1}, {1.7});
  m.node("Resize", {"x", "", "scale"}, {"y"},
         {{"mode", "linear"}, {"coordinate_transformation_mode", "align_corners"}});
  m.output("y");
  auto last = [&] {
    return numbers(outputsOf(m.graphOf(), {{"x", floats({4}, {0, 1, 2, 3})}})[0]).back();
  };
  EXPECT_NEAR(last(), 5 * 3 / 5.8, 1e-6);
  m.model.set_producer_name("pytorch");
  EXPECT_NEAR(last(), 3, 1e-6);
}

TEST(Names, OutputListedTwiceIsOne) {
  ModelMaker m;
  m.input("x", {2});
  m.node("Relu", {"x"}, {"y"});
  m.output("y");
  m.output("y");
  std::vector<std::string> notes;
  EXPECT_EQ(outputNames(m.graphOf({.note = [&](const Remark &r) { notes.push_back(r.text); }})),
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
    EXPECT_NE(error().find("file beside the model, got"), std::string::npos) << error();
  }
  w->clear_external_data();
  set("location", "none.data");
  EXPECT_NE(error().find("its external data: cannot read"), std::string::npos) << error();
  EXPECT_NE(m.errorOf().find("was not read from a folder"), std::string::npos);
}

} // namespace
} // namespace isthmus
