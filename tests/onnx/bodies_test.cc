// Functions, branches, loops and sequences: the importer translates bodies where they are called.

#include "ir/element.h"
#include "passes/differentiate/mode.h"
#include "tests/onnx/model_maker.h"
#include <cstring>
#include <gtest/gtest.h>

namespace isthmus {
namespace {

using Proto = onnx::TensorProto;
using testing::Test;

// A function of domain "own" with the nodes of `body`.
onnx::FunctionProto &addFunction(ModelMaker &m, const std::string &name,
                                 std::vector<std::string> in, std::vector<std::string> out,
                                 ModelMaker body, int64_t opset = 17) {
  onnx::FunctionProto &f = *m.model.add_functions();
  f.set_domain("own");
  f.set_name(name);
  for (std::string &s : in)
    f.add_input(s);
  for (std::string &s : out)
    f.add_output(s);
  *f.mutable_node() = body.graph().node();
  f.add_opset_import()->set_version(opset);
  return f;
}

onnx::NodeProto &call(ModelMaker &m, const std::string &name, std::vector<std::string> in,
                      std::vector<std::string> out, std::vector<ModelMaker::AttrItem> attrs = {}) {
  onnx::NodeProto &n = m.node(name, std::move(in), std::move(out), std::move(attrs));
  n.set_domain("own");
  return n;
}

// Adds an attribute that takes its value from the function's attribute `to`.
void refer(onnx::NodeProto &n, const std::string &name, const std::string &to, int type) {
  onnx::AttributeProto &a = *n.add_attribute();
  a.set_name(name);
  a.set_ref_attr_name(to);
  a.set_type(onnx::AttributeProto::AttributeType(type));
}

void holdGraph(onnx::NodeProto &n, const std::string &name, ModelMaker body) {
  onnx::AttributeProto &a = *n.add_attribute();
  a.set_name(name);
  a.set_type(onnx::AttributeProto::GRAPH);
  *a.mutable_g() = body.graph();
}

// The values of inputs, for OnnxOptions::inputValue.
auto giving(std::map<std::string, Tensor> values) {
  return [values = std::move(values)](llvm::StringRef input) {
    auto it = values.find(input.str());
    return it == values.end() ? nullptr : &it->second;
  };
}

std::vector<std::string> valueNames(const Graph &g) {
  std::vector<std::string> names;
  for (uint32_t i = 0; i < g.numNodes(); ++i)
    names.push_back(g.nodeName(NodeId(i)).str());
  return names;
}
using Names = std::vector<std::string>;
using Numbers = std::vector<double>;

Numbers run(const ModelMaker &m, Numbers x, OnnxOptions options = {}) {
  Graph g = m.graphOf(std::move(options));
  const Type &t = g.type(g.inputs()[0].value);
  auto all = outputsOf(g, {{"x", floats({t.dims.begin(), t.dims.end()}, x)}});
  return all.empty() ? Numbers() : numbers(all[0]);
}

// --- Functions

// block(x, w, b?) = leaky(x w + b) with slope `slope`, 0.5 by default
ModelMaker withBlock() {
  ModelMaker m, body;
  m.input("x", {1, 2});
  body.node("MatMul", {"X", "W"}, {"h"});
  refer(body.node("LeakyRelu", {"h"}, {"Y"}), "alpha", "slope", onnx::AttributeProto::FLOAT);
  onnx::AttributeProto &a = *addFunction(m, "block", {"X", "W"}, {"Y"}, body).add_attribute_proto();
  a.set_name("slope");
  a.set_type(onnx::AttributeProto::FLOAT);
  a.set_f(0.5);
  m.init("w", {2, 2}, {1, 0, 0, 1});
  m.init("v", {2, 2}, {2, 0, 0, 2});
  return m;
}

TEST(Functions, AreTranslatedWhereTheyAreCalled) {
  ModelMaker m = withBlock();
  call(m, "block", {"x", "w"}, {"a"});
  call(m, "block", {"a", "v"}, {"y"}, {{"slope", 0.25}});
  m.output("y");
  Graph g = m.graphOf();
  EXPECT_EQ(valueNames(g), (Names{"a.h", "a", "y.h", "y"}));
  EXPECT_EQ(inputsOf(g, InputKind::Param), "w:f32[2, 2] v:f32[2, 2]");
  EXPECT_EQ(g.node(NodeId(3)).loc.line, 2u);    // the call is node #1 of the file
  EXPECT_EQ(run(m, {4, -4}), (Numbers{8, -1})); // -4 * 0.5 * 2 * 0.25
}

TEST(Functions, CallFunctionsAndPassAttributesOn) {
  ModelMaker m = withBlock(), body;
  onnx::NodeProto &inner = call(body, "block", {"p", "q"}, {"r"});
  refer(inner, "slope", "outer", onnx::AttributeProto::FLOAT);
  addFunction(m, "twice", {"p", "q"}, {"r"}, body).add_attribute("outer");
  call(m, "twice", {"x", "w"}, {"a"}); // neither call gives the slope: it is 0.5
  call(m, "twice", {"a", "w"}, {"y"}, {{"outer", 2.0}});
  m.output("y");
  EXPECT_EQ(valueNames(m.graphOf()), (Names{"a.r.h", "a", "y.r.h", "y"}));
  EXPECT_EQ(run(m, {1, -1}), (Numbers{1, -1}));
}

TEST(Functions, InputsMayBeLeftOut) {
  ModelMaker m, body;
  m.input("x", {2});
  body.node("Clip", {"X", "low", "high"}, {"Y"});
  addFunction(m, "clip", {"X", "low", "high"}, {"Y"}, body);
  m.init("one", {}, {1});
  call(m, "clip", {"x", "", "one"}, {"a"});
  call(m, "clip", {"a"}, {"y"});
  m.output("y");
  EXPECT_EQ(run(m, {-3, 3}), (Numbers{-3, 1}));
}

TEST(Functions, HaveOpsetsOfTheirOwn) {
  ModelMaker m(17), body;
  m.input("x", {2, 1});
  body.node("Squeeze", {"X"}, {"Y"}, {{"axes", std::vector<int64_t>{1}}}); // for opsets below 13
  addFunction(m, "old", {"X"}, {"Y"}, body, /*opset=*/11);
  call(m, "old", {"x"}, {"y"});
  m.output("y");
  EXPECT_EQ(m.graphOf().type(m.graphOf().find("y")).str(), "f32[2]");
}

TEST(Functions, OverloadsAreFunctionsOfTheirOwn) {
  ModelMaker m, a, b;
  m.input("x", {2});
  a.node("Neg", {"X"}, {"Y"});
  b.node("Relu", {"X"}, {"Y"});
  addFunction(m, "f", {"X"}, {"Y"}, a).set_overload("a");
  addFunction(m, "f", {"X"}, {"Y"}, b).set_overload("b");
  call(m, "f", {"x"}, {"y"}).set_overload("b");
  m.output("y");
  EXPECT_EQ(rowsOf(m.graphOf()), "relu");
}

TEST(Functions, AveragesAreStateWithinThemToo) {
  ModelMaker m, body;
  m.input("x", {4, 2});
  body.node("BatchNormalization", {"X", "s", "b", "m", "v"}, {"Y"});
  addFunction(m, "norm", {"X", "s", "b", "m", "v"}, {"Y"}, body);
  for (const char *name : {"scale", "bias", "mean", "var"})
    m.init(name, {2}, {1, 2});
  call(m, "norm", {"x", "scale", "bias", "mean", "var"}, {"y"});
  m.output("y");
  Graph g = m.graphOf();
  EXPECT_EQ(inputsOf(g, InputKind::Param), "scale:f32[2] bias:f32[2]");
  EXPECT_EQ(inputsOf(g, InputKind::State), "mean:f32[2] var:f32[2]");
  EXPECT_TRUE(withMode(g, Mode::Training).find("state.mean"));
}

TEST(Functions, ErrorsNameTheCallPath) {
  ModelMaker m = withBlock(), body;
  call(body, "block", {"p", "q"}, {"r"});
  addFunction(m, "outer", {"p", "q"}, {"r"}, body);
  m.init("bad", {3, 2});
  call(m, "outer", {"x", "bad"}, {"y"});
  m.output("y");
  EXPECT_EQ(m.errorOf().find(R"(m.onnx: node "n0" (MatMul, #0) in function "block" called by )"
                             R"(node "n0" (own.block, #0) in function "outer" called by )"
                             R"(node "n0" (own.outer, #0): error: )"),
            0u)
      << m.errorOf();
}

TEST(Functions, RecursionIsAnError) {
  ModelMaker m, a, b;
  m.input("x", {2});
  call(a, "b", {"X"}, {"Y"});
  call(b, "a", {"X"}, {"Y"});
  addFunction(m, "a", {"X"}, {"Y"}, a);
  addFunction(m, "b", {"X"}, {"Y"}, b);
  call(m, "a", {"x"}, {"y"});
  m.output("y");
  EXPECT_NE(m.errorOf().find("function 'a' calls itself, directly or through others"),
            std::string::npos)
      << m.errorOf();
}

TEST(Functions, DoNotBlowUp) { // f0 calls f1 twice, f1 f2, ...: 2^40 nodes
  ModelMaker m;
  m.input("x", {2});
  for (int i = 0; i < 40; ++i) {
    ModelMaker body;
    std::string next = "f" + std::to_string(i + 1);
    call(body, next, {"X"}, {"h"});
    call(body, next, {"h"}, {"Y"});
    addFunction(m, "f" + std::to_string(i), {"X"}, {"Y"}, body);
  }
  ModelMaker last;
  last.node("Neg", {"X"}, {"Y"});
  addFunction(m, "f40", {"X"}, {"Y"}, last);
  call(m, "f0", {"x"}, {"y"});
  m.output("y");
  std::string error = m.errorOf();
  EXPECT_NE(error.find("expand to more nodes than a file of"), std::string::npos) << error;
  EXPECT_EQ(error.find("error:", error.find("error:") + 1), std::string::npos) << "told once";
}

TEST(Functions, UnsupportedOperatorsAreToldOnceEach) {
  ModelMaker m, body;
  m.input("x", {2});
  body.node("Nothing", {"X"}, {"h"});
  body.node("Nothing", {"h"}, {"g"});
  body.node("Neither", {"g"}, {"Y"});
  addFunction(m, "f", {"X"}, {"Y"}, body);
  call(m, "f", {"x"}, {"a"});
  call(m, "f", {"a"}, {"b"});
  call(m, "absent", {"b"}, {"y"});
  m.output("y");
  std::string error = m.errorOf();
  for (const char *part :
       {"operator 'Nothing' of opset 17 is not supported", "the same holds for 1 other node",
        "operator 'Neither' of opset 17 is not supported",
        "operator 'absent' of domain 'own' is not supported, and the model has no function"})
    EXPECT_NE(error.find(part), std::string::npos) << part << "\n" << error;
}

TEST(Functions, NamesAreChecked) {
  ModelMaker m, body;
  m.input("x", {2});
  body.node("Add", {"X", "x"}, {"Y"}); // a body does not see the caller's names
  addFunction(m, "f", {"X"}, {"Y"}, body);
  call(m, "f", {"x"}, {"y"});
  m.output("y");
  EXPECT_NE(m.errorOf().find(R"((Add, #0) in function "f": error: reads 'x', which is no input)"),
            std::string::npos)
      << m.errorOf();
}

// --- Branches

ModelMaker branching(const char *condition) {
  ModelMaker m, yes, no;
  m.input("x", {2});
  m.init("w", {2}, {10, 20});
  yes.node("Add", {"x", "w"}, {"sum"});
  yes.output("sum");
  no.node("NoSuchOperator", {"x"}, {"out"}); // not taken, so it is no error
  no.output("out");
  if (condition)
    m.constant("c", {}, {condition[0] == '1' ? 1.0 : 0.0}, Proto::BOOL);
  else
    m.input("c", {}, Proto::BOOL);
  onnx::NodeProto &n = m.node("If", {"c"}, {"y"});
  holdGraph(n, "then_branch", yes);
  holdGraph(n, "else_branch", no);
  m.output("y");
  return m;
}

TEST(Branches, TheOneTakenIsTranslated) {
  Graph g = branching("1").graphOf();
  EXPECT_EQ(valueNames(g), Names{"y"});
  EXPECT_EQ(inputsOf(g, InputKind::Param), "w:f32[2]");
  EXPECT_EQ(run(branching("1"), {1, 2}), (Numbers{11, 22}));
  EXPECT_NE(branching("0").errorOf().find(
                R"((NoSuchOperator, #0) in else_branch of node "n1" (If, #1): error: operator)"),
            std::string::npos)
      << branching("0").errorOf();
}

TEST(Branches, AConditionMustBeKnown) {
  ModelMaker m = branching(nullptr);
  EXPECT_EQ(m.errorOf(), R"(m.onnx: node "n0" (If, #0): error: expects 'c' to be known at import, )"
                         "but it depends on the input 'c'; give its value with --inputs");
  Tensor yes = Tensor::make(Type(DType::Bool, {}), [](char *to) { *to = 1; });
  std::vector<std::string> notes;
  OnnxOptions options{.inputValue = giving({{"c", yes}}),
                      .note = [&](const Remark &r) { notes.push_back(r.text); }};
  EXPECT_EQ(rowsOf(m.graphOf(options)), "add");
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0].find("the value that is given for the input 'c' decides"), 0u);
}

// A run in another precision has files of that precision, and f32 serves for every one.
TEST(Branches, AConditionMayComeFromAnInputOfAnyPrecision) {
  ModelMaker m = branching(nullptr);
  ModelMaker asked, yes, no;
  asked.input("x", {2});
  asked.init("w", {2}, {10, 20});
  yes.node("Add", {"x", "w"}, {"sum"});
  yes.output("sum");
  no.node("NoSuchOperator", {"x"}, {"out"});
  no.output("out");
  asked.node("ReduceMax", {"x"}, {"most"}, {{"keepdims", 0}});
  asked.node("Cast", {"most"}, {"c"}, {{"to", int(Proto::BOOL)}});
  onnx::NodeProto &n = asked.node("If", {"c"}, {"y"});
  holdGraph(n, "then_branch", yes);
  holdGraph(n, "else_branch", no);
  asked.output("y");
  for (DType type : {DType::F32, DType::F64, DType::BF16, DType::F16}) {
    Tensor x = Tensor::make(Type(type, {2}), [&](char *to) { setElement(type, to, 1, 1.5); });
    OnnxOptions options{.inputValue = giving({{"x", x}})};
    // The sum still reads what is fed. (What was only asked for is not read by any output.)
    EXPECT_EQ(rowsOf(asked.graphOf(options)), "max cast add") << dtypeName(type).str();
  }
  Tensor ints = Tensor::make(Type(DType::I64, {2}), [](char *) {});
  EXPECT_NE(asked.errorOf({.inputValue = giving({{"x", ints}})}).find("is of type i64[2]"),
            std::string::npos);
}

// --- Loops

// carried = carried * 2 + turn; the loop also returns the values of all turns.
ModelMaker looping(int turns, const char *most = nullptr) {
  ModelMaker m, body;
  m.input("x", {2});
  m.constant("n", {}, {double(turns)}, Proto::INT64);
  body.input("i", {}, Proto::INT64);
  body.input("go", {}, Proto::BOOL);
  body.input("v", {2});
  body.constant("two", {}, {2});
  body.node("Mul", {"v", "two"}, {"d"});
  body.node("Cast", {"i"}, {"f"}, {{"to", int(Proto::FLOAT)}});
  body.node("Add", {"d", "f"}, {"next"});
  if (most) {
    body.constant("limit", {}, {std::atof(most)}, Proto::INT64);
    body.node("Less", {"i", "limit"}, {"more"});
  } else {
    body.node("Identity", {"go"}, {"more"});
  }
  body.output("more").output("next").output("next");
  auto &t = *body.graph().mutable_output(2)->mutable_type()->mutable_tensor_type();
  t.set_elem_type(Proto::FLOAT);
  t.mutable_shape()->add_dim()->set_dim_value(2);
  onnx::NodeProto &n = m.node("Loop", {turns < 0 ? "" : "n", "", "x"}, {"last", "all"});
  holdGraph(n, "body", body);
  m.output("all").output("last");
  return m;
}

TEST(Loops, AreUnrolled) {
  Graph g = looping(3).graphOf();
  EXPECT_EQ(g.type(g.find("all")).str(), "f32[3, 2]");
  EXPECT_EQ(run(looping(3), {1, 0}), (Numbers{2, 0, 5, 1, 12, 4}));
  EXPECT_TRUE(g.find("last.1.d")); // from turn 1
}

TEST(Loops, GiveSeveralResultsOfAllTurns) {
  ModelMaker m, body;
  m.input("x", {2});
  m.constant("n", {}, {2}, Proto::INT64);
  body.input("i", {}, Proto::INT64);
  body.input("go", {}, Proto::BOOL);
  body.input("v", {2});
  body.constant("two", {}, {2});
  body.node("Mul", {"v", "two"}, {"next"});
  body.node("Neg", {"v"}, {"minus"});
  body.node("Identity", {"go"}, {"more"});
  body.output("more").output("next").output("next").output("minus");
  holdGraph(m.node("Loop", {"n", "", "x"}, {"last", "all", "negated"}), "body", body);
  m.node("Concat", {"all", "negated"}, {"both"}, {{"axis", 0}});
  m.output("both").output("last");
  EXPECT_EQ(run(m, {1, 3}), (Numbers{2, 6, 4, 12, -1, -3, -2, -6}));
}

TEST(Loops, EndByTheirCondition) {
  EXPECT_EQ(run(looping(100, "1"), {1, 0}), (Numbers{2, 0, 5, 1}));
  EXPECT_EQ(run(looping(-1, "1"), {1, 0}), (Numbers{2, 0, 5, 1})); // no number of turns
}

TEST(Loops, MayMakeNoTurn) {
  Graph g = looping(0).graphOf();
  EXPECT_EQ(g.type(g.outputs()[0]).str(), "f32[0, 2]");
  EXPECT_EQ(rowsOf(g), "identity identity");
}

TEST(Loops, WithoutAnEndAreAnError) {
  EXPECT_NE(looping(-1).errorOf().find("expand to more nodes than a file of"), std::string::npos);
}

TEST(Loops, ErrorsNameTheTurn) {
  ModelMaker m, body;
  m.input("x", {2});
  m.constant("n", {}, {3}, Proto::INT64);
  body.input("i", {}, Proto::INT64);
  body.input("go", {}, Proto::BOOL);
  body.input("v", {2});
  body.constant("table", {1}, {7}, Proto::INT64);
  body.node("Gather", {"table", "i"}, {"at"}); // in turn 1 the index is out of range
  body.node("Cast", {"at"}, {"f"}, {{"to", int(Proto::FLOAT)}});
  body.node("Add", {"v", "f"}, {"next"});
  body.output("go").output("next");
  holdGraph(m.node("Loop", {"n", "", "x"}, {"y"}), "body", body);
  m.output("y");
  EXPECT_NE(m.errorOf().find(R"((Gather, #1) in turn 1 of node "n1" (Loop, #1): error:)"),
            std::string::npos)
      << m.errorOf();
}

// A running sum over the rows of x, which are read in reverse order if `backwards`.
ModelMaker scanning(bool backwards) {
  ModelMaker m, body;
  m.input("x", {3, 2});
  m.constant("zero", {2}, {0, 0});
  body.input("s", {2});
  body.input("row", {2});
  body.node("Add", {"s", "row"}, {"t"});
  body.node("Identity", {"t"}, {"u"});
  body.output("t").output("u");
  std::vector<int64_t> one = {1}, flag = {backwards};
  onnx::NodeProto &n = m.node("Scan", {"zero", "x"}, {"", "y"},
                              {{"num_scan_inputs", 1},
                               {"scan_input_directions", flag},
                               {"scan_output_directions", flag},
                               {"scan_output_axes", one}});
  holdGraph(n, "body", body);
  m.output("y");
  return m;
}

TEST(Loops, ScanGoesAlongAnAxis) {
  EXPECT_EQ(run(scanning(false), {1, 10, 2, 20, 3, 30}), (Numbers{1, 3, 6, 10, 30, 60}));
  EXPECT_EQ(run(scanning(true), {1, 10, 2, 20, 3, 30}), (Numbers{6, 5, 3, 60, 50, 30}));
}

// --- Sequences and optional values

TEST(Sequences, SplitTakeInsertAndJoin) {
  ModelMaker m;
  m.input("x", {4, 2});
  m.constant("last", {}, {-1}, Proto::INT64);
  m.constant("first", {}, {0}, Proto::INT64);
  m.constant("sizes", {2}, {1, 3}, Proto::INT64);
  m.node("SplitToSequence", {"x", "sizes"}, {"parts"});
  m.node("SequenceAt", {"parts", "last"}, {"b"});
  m.node("SequenceErase", {"parts"}, {"a"});
  m.node("SequenceInsert", {"a", "b", "first"}, {"turned"});
  m.node("ConcatFromSequence", {"turned"}, {"y"}, {{"axis", 0}});
  m.node("SequenceLength", {"turned"}, {"n"});
  m.output("y").output("n");
  Graph g = m.graphOf();
  EXPECT_EQ(rowsOf(g), "split concat identity");
  EXPECT_EQ(run(m, {0, 1, 2, 3, 4, 5, 6, 7}), (Numbers{2, 3, 4, 5, 6, 7, 0, 1}));
  EXPECT_EQ(numbers(outputsOf(g, {{"x", floats({4, 2}, Numbers(8))}})[1]), Numbers{2});
}

TEST(Sequences, OfPartsWithoutTheirAxis) {
  ModelMaker m;
  m.input("x", {2, 3});
  m.node("SplitToSequence", {"x"}, {"rows"}, {{"axis", 1}, {"keepdims", 0}});
  m.node("ConcatFromSequence", {"rows"}, {"y"}, {{"axis", 0}, {"new_axis", 1}});
  m.output("y");
  EXPECT_EQ(run(m, {0, 1, 2, 3, 4, 5}), (Numbers{0, 3, 1, 4, 2, 5}));
}

TEST(Sequences, MapRunsItsBodyOnEachElement) {
  ModelMaker m, body;
  m.input("x", {2});
  m.node("SequenceConstruct", {"x", "x"}, {"s"});
  body.input("e", {2}).input("t", {2});
  body.node("Add", {"e", "t"}, {"sum"});
  body.output("sum");
  holdGraph(m.node("SequenceMap", {"s", "x"}, {"sums"}), "body", body);
  m.node("ConcatFromSequence", {"sums"}, {"y"}, {{"axis", 0}});
  m.output("y");
  EXPECT_EQ(run(m, {1, 2}), (Numbers{2, 4, 2, 4}));
}

TEST(Sequences, GrowInLoops) {
  ModelMaker m, body;
  m.input("x", {2});
  m.constant("n", {}, {3}, Proto::INT64);
  m.node("SequenceEmpty", {}, {"none"});
  body.graph().add_input()->set_name("i");
  body.graph().add_input()->set_name("go");
  body.graph().add_input()->set_name("s");
  body.node("SequenceInsert", {"s", "x"}, {"more"});
  body.output("go").output("more");
  holdGraph(m.node("Loop", {"n", "", "none"}, {"all"}), "body", body);
  m.node("ConcatFromSequence", {"all"}, {"y"}, {{"axis", 0}});
  m.output("y");
  EXPECT_EQ(run(m, {1, 2}), (Numbers{1, 2, 1, 2, 1, 2}));
}

TEST(Sequences, AreNoTensors) {
  ModelMaker m;
  m.input("x", {2});
  m.node("SequenceConstruct", {"x"}, {"s"});
  m.node("Relu", {"s"}, {"y"});
  m.output("y").output("s");
  EXPECT_NE(m.errorOf().find("(Relu, #1): error: expects a tensor in 's', got a sequence"),
            std::string::npos)
      << m.errorOf();
  m.graph().mutable_node()->RemoveLast();
  m.graph().mutable_output()->DeleteSubrange(0, 1);
  EXPECT_NE(m.errorOf().find("the output 's' is a sequence of 1 tensors; only tensors can be"),
            std::string::npos)
      << m.errorOf();
}

TEST(Optionals, AreThereOrNot) {
  ModelMaker m;
  m.input("x", {2});
  m.node("Optional", {"x"}, {"some"});
  m.node("OptionalHasElement", {"some"}, {"has"});
  m.node("OptionalHasElement", {""}, {"hasNot"});
  m.node("OptionalGetElement", {"some"}, {"y"});
  m.output("y").output("has").output("hasNot");
  Graph g = m.graphOf();
  auto out = outputsOf(g, {{"x", floats({2}, {3, 4})}});
  EXPECT_EQ(numbers(out[0]), (Numbers{3, 4}));
  EXPECT_EQ(numbers(out[1]), Numbers{1});
  EXPECT_EQ(numbers(out[2]), Numbers{0});
}

// --- Inputs that must be known

Tensor ints(std::vector<int64_t> values) {
  return Tensor::make(Type(DType::I64, {int64_t(values.size())}),
                      [&](char *to) { std::memcpy(to, values.data(), values.size() * 8); });
}

ModelMaker reshaping() {
  ModelMaker m;
  m.input("x", {"N", 6}).input("shape", {2}, Proto::INT64).input("reps", {2}, Proto::INT64);
  m.node("Reshape", {"x", "shape"}, {"r"});
  m.node("Tile", {"r", "reps"}, {"y"});
  m.output("y");
  return m;
}

TEST(KnownInputs, DecideSizes) {
  std::vector<std::string> notes;
  Graph g =
      reshaping().graphOf({.inputValue = giving({{"x", Tensor{Type(DType::F32, {2, 6}), nullptr}},
                                                 {"shape", ints({3, 4})},
                                                 {"reps", ints({1, 2})}}),
                           .note = [&](const Remark &r) { notes.push_back(r.text); }});
  EXPECT_EQ(g.type(g.find("y")).str(), "f32[3, 8]");
  EXPECT_EQ(inputsOf(g, InputKind::Input), "x:f32[2, 6] shape:i64[2] reps:i64[2]"); // not read
  ASSERT_EQ(notes.size(), 1u); // one note for both inputs
  EXPECT_NE(notes[0].find("the same holds for 1 other: 'reps'"), std::string::npos) << notes[0];
}

// How many elements an operator finds depends on the values; what is computed from the input is
// computed from what is fed.
TEST(KnownInputs, DecideWhatIsFound) {
  auto given = [](const char *op) {
    ModelMaker m;
    m.input("x", {4}, Proto::INT64);
    if (op == std::string("Range")) {
      m.constant("zero", {}, {0}, Proto::INT64);
      m.constant("one", {}, {1}, Proto::INT64);
      m.node("ReduceMax", {"x"}, {"most"}, {{"keepdims", 0}});
      m.node(op, {"zero", "most", "one"}, {"found"});
    } else {
      m.node(op, {"x"}, {"found"});
    }
    m.node("Neg", {"found"}, {"y"});
    m.node("Neg", {"x"}, {"z"});
    m.output("y");
    m.output("z");
    Graph g = m.graphOf({.inputValue = giving({{"x", ints({0, 3, 0, 5})}})});
    EXPECT_EQ(g.node(g.value(g.find("z")).def).operands[0], g.find("x")) << op;
    return g.type(g.find("y")).str();
  };
  EXPECT_EQ(given("NonZero"), "i64[1, 2]");
  EXPECT_EQ(given("Unique"), "i64[3]");
  EXPECT_EQ(given("Range"), "i64[5]");
}

TEST(KnownInputs, AreNamedWhereTheirValuesAreMissing) {
  std::string error = reshaping().errorOf({.dims = {{"N", 2}}});
  EXPECT_NE(error.find("expects 'shape' to be known at import, but it depends on the input "
                       "'shape'; give its value with --inputs"),
            std::string::npos)
      << error;
}

TEST(KnownInputs, MustBeOfTheDeclaredType) {
  std::string error =
      reshaping().errorOf({.dims = {{"N", 2}}, .inputValue = giving({{"shape", ints({1, 2, 6})}})});
  EXPECT_NE(error.find("the value given for the input 'shape' is of type i64[3], and it is "
                       "declared i64[2]"),
            std::string::npos)
      << error;
}

TEST(KnownInputs, ParametersAreNoneOfThem) {
  ModelMaker m;
  m.input("x", {2, 2});
  m.init("w", {2});
  m.node("Mul", {"x", "w"}, {"p"});
  m.node("Cast", {"p"}, {"i"}, {{"to", int(Proto::INT64)}});
  m.node("Add", {"x", "w"}, {"q"});
  m.node("ReduceMax", {"i"}, {"shape"}, {{"axes", std::vector<int64_t>{0}}, {"keepdims", 0}});
  m.node("Reshape", {"q", "shape"}, {"y"});
  m.output("y");
  EXPECT_NE(m.errorOf().find("it depends on the parameter 'w', which training changes; sizes and "
                             "branches that a step decides are not supported"),
            std::string::npos)
      << m.errorOf();
}

} // namespace
} // namespace isthmus
