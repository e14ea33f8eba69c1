// Invalid files: each gives an error that names the fault, and none crashes the process.

#include "tests/onnx/model_maker.h"
#include <gtest/gtest.h>

namespace isthmus {
namespace {

using Proto = onnx::TensorProto;

// x [2, 3] -> MatMul w [3, 4] -> Relu -> y
ModelMaker good() {
  ModelMaker m;
  m.input("x", {2, 3});
  m.init("w", {3, 4});
  m.node("MatMul", {"x", "w"}, {"h"});
  m.node("Relu", {"h"}, {"y"});
  m.output("y");
  return m;
}

struct Broken {
  const char *what;
  void (*spoil)(ModelMaker &);
  const char *error; // part of the message
};
void PrintTo(const Broken &b, std::ostream *os) { *os << b.what; }

class BrokenFile : public testing::TestWithParam<Broken> {};

TEST_P(BrokenFile, IsAnError) {
  ModelMaker m = good();
  GetParam().spoil(m);
  std::string error = m.errorOf();
  EXPECT_NE(error.find(GetParam().error), std::string::npos) << error;
  EXPECT_EQ(error.find("m.onnx"), 0u) << error;
}

void setDim(ModelMaker &m, int64_t size) { m.graph().mutable_initializer(0)->set_dims(0, size); }
onnx::TensorProto &weights(ModelMaker &m) { return *m.graph().mutable_initializer(0); }
onnx::NodeProto &node(ModelMaker &m, int i) { return *m.graph().mutable_node(i); }
void declare(ModelMaker &m, int type, std::vector<int64_t> dims) {
  auto &t = *m.graph().mutable_output(0)->mutable_type()->mutable_tensor_type();
  t.set_elem_type(type);
  for (int64_t d : dims)
    t.mutable_shape()->add_dim()->set_dim_value(d);
}

const Broken kBroken[] = {
    {"no graph", [](ModelMaker &m) { m.model.clear_graph(); }, "the model has no graph"},
    {"no opset", [](ModelMaker &m) { m.model.clear_opset_import(); }, "names no version"},
    {"operator of a later opset",
     [](ModelMaker &m) {
       m.model.mutable_opset_import(0)->set_version(12);
       m.node("LayerNormalization", {"y", "y"}, {"z"});
       m.output("z");
     },
     "operator 'LayerNormalization' of opset 12 is not supported"},
    {"no outputs", [](ModelMaker &m) { m.graph().clear_output(); }, "no outputs"},
    {"output of nothing", [](ModelMaker &m) { m.output("z"); }, "output 'z' is no input"},
    {"dangling operand", [](ModelMaker &m) { m.graph().clear_initializer(); },
     R"(m.onnx: node "n0" (MatMul, #0): error: reads 'w', which is no input, initializer or result)"},
    {"unsorted", [](ModelMaker &m) { m.graph().mutable_node()->SwapElements(0, 1); },
     R"((Relu, #0): error: reads 'h', which node #1 defines later)"},
    {"a cycle", [](ModelMaker &m) { node(m, 0).set_input(0, "y"); },
     "reads 'y', which node #1 defines later"},
    {"a node that reads itself", [](ModelMaker &m) { node(m, 1).set_input(0, "y"); },
     "which node #1 defines later"},
    {"result twice", [](ModelMaker &m) { node(m, 1).set_output(0, "h"); },
     "'h' is defined twice: by node #0 and by node #1"},
    {"result named as an input", [](ModelMaker &m) { node(m, 0).set_output(0, "x"); },
     "'x' is defined twice"},
    {"input twice",
     [](ModelMaker &m) {
       m.input("x", {2, 3});
     },
     "'x' is defined twice"},
    {"initializer twice",
     [](ModelMaker &m) {
       m.init("w", {3, 4});
     },
     "'w' is defined twice"},
    {"too few bytes", [](ModelMaker &m) { weights(m).mutable_raw_data()->pop_back(); },
     R"(initializer "w": error: expects 12 elements (48 bytes) for 'f32[3, 4]', got 47 bytes)"},
    {"too many values",
     [](ModelMaker &m) { weights(m).clear_raw_data(), weights(m).add_float_data(1); },
     "got 1 values"},
    {"negative size", [](ModelMaker &m) { setDim(m, -3); }, "negative size"},
    {"huge size", [](ModelMaker &m) { setDim(m, int64_t(1) << 62); }, "2^60 bytes"},
    {"sizes whose product overflows",
     [](ModelMaker &m) { setDim(m, int64_t(1) << 40), weights(m).set_dims(1, int64_t(1) << 40); },
     "2^60 bytes"},
    {"a thousand axes",
     [](ModelMaker &m) {
       for (int i = 0; i < 1000; ++i)
         weights(m).add_dims(1);
     },
     "at most 32 dimensions"},
    {"strings", [](ModelMaker &m) { weights(m).set_data_type(Proto::STRING); },
     "element type 'string' is not supported"},
    {"8-bit floats", [](ModelMaker &m) { weights(m).set_data_type(Proto::FLOAT8E5M2); },
     "element type 'float8e5m2' is not supported"},
    {"unknown type", [](ModelMaker &m) { weights(m).set_data_type(77); }, "element type number 77"},
    {"segments", [](ModelMaker &m) { weights(m).mutable_segment(); }, "segments"},
    {"shapes that do not fit", [](ModelMaker &m) { setDim(m, 4), weights(m).set_dims(1, 3); },
     "(MatMul, #0): error: 'matmul' expects"},
    {"no operand", [](ModelMaker &m) { node(m, 0).clear_input(); },
     "expects operand 0, which is left out"},
    {"empty operand", [](ModelMaker &m) { node(m, 0).set_input(1, ""); },
     "expects operand 1, which is left out"},
    {"many operands", [](ModelMaker &m) { node(m, 1).add_input("x"); },
     "expects at most 1 operands, got 2"},
    {"many results", [](ModelMaker &m) { node(m, 1).add_output("z"); },
     "expects at most 1 results, got 2"},
    {"unknown attribute", [](ModelMaker &m) { node(m, 1).add_attribute()->set_name("slope"); },
     "attribute 'slope' is not supported"},
    {"attribute of another kind",
     [](ModelMaker &m) {
       m.node("Flatten", {"h"}, {"f"}, {{"axis", "one"}});
       m.output("f");
     },
     "expects an integer as attribute 'axis'"},
    {"input without shape",
     [](ModelMaker &m) {
       m.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->clear_shape();
     },
     "input 'x' has no shape"},
    {"input that is a sequence",
     [](ModelMaker &m) { m.graph().mutable_input(0)->mutable_type()->mutable_sequence_type(); },
     "input 'x' is no tensor"},
    {"output of a wrong shape",
     [](ModelMaker &m) {
       declare(m, Proto::FLOAT, {2, 5});
     },
     "declares 'y' of size 5 on axis 1, but it is 'f32[2, 4]'"},
    {"output of a wrong rank", [](ModelMaker &m) { declare(m, Proto::FLOAT, {2}); },
     "declares 'y' of rank 1"},
    {"output of a wrong type",
     [](ModelMaker &m) {
       declare(m, Proto::DOUBLE, {2, 4});
     },
     "of element type f64"},
    {"another domain", [](ModelMaker &m) { node(m, 1).set_domain("com.example"); },
     R"((com.example.Relu, #1): error: operator 'Relu' of domain 'com.example' is not supported)"},
    {"the preview of training",
     [](ModelMaker &m) {
       node(m, 1).set_op_type("Gradient");
       node(m, 1).set_domain("ai.onnx.preview.training");
     },
     "`isthmus grad MODEL --ys=... --xs=...` adds the gradients"},
    {"a sparse initializer",
     [](ModelMaker &m) {
       m.graph().add_sparse_initializer()->mutable_values()->set_name("few");
       m.node("Add", {"h", "few"}, {"z"});
       m.output("z");
     },
     "sparse initializers are not supported; store them dense"},
    {"a first state of another shape",
     [](ModelMaker &m) {
       m.constant("steps", {3, 1, 2}, {});
       m.constant("both", {1, 6, 2}, {});
       m.constant("state", {1, 2}, {});
       m.node("GRU", {"steps", "both", "both", "", "", "state"}, {"z"});
       m.output("z");
     },
     "expects a first state 'f32[1, 1, 2]' as operand 5, got 'f32[1, 2]'"},
    {"peepholes of another number",
     [](ModelMaker &m) {
       m.constant("steps", {3, 1, 2}, {});
       m.constant("all", {1, 8, 2}, {});
       m.constant("holes", {1, 8}, {});
       m.node("LSTM", {"steps", "all", "all", "", "", "", "", "holes"}, {"z"});
       m.output("z");
     },
     "expects 6 peepholes for each direction, got 'f32[1, 8]'"},
    {"range of too many",
     [](ModelMaker &m) {
       for (auto [name, v] : {std::pair("a", 0.0), std::pair("b", 9e18), std::pair("c", 1.0)})
         m.constant(name, {}, {v}, Proto::INT64);
       m.node("Range", {"a", "b", "c"}, {"r"});
       m.output("r");
     },
     "more numbers than a model of"},
    {"shape that depends on the input",
     [](ModelMaker &m) {
       m.input("s", {2}, Proto::INT64);
       m.node("Reshape", {"h", "s"}, {"r"});
       m.output("r");
     },
     "expects 's' to be known at import"},
    {"index out of range",
     [](ModelMaker &m) {
       m.constant("i", {}, {2}, Proto::INT64);
       m.node("Gather", {"h", "i"}, {"r"});
       m.output("r");
     },
     "expects indices in [-2, 2), got 2"},
    {"integer division by zero",
     [](ModelMaker &m) {
       m.constant("i", {}, {2}, Proto::INT64);
       m.constant("o", {}, {0}, Proto::INT64);
       m.node("Div", {"i", "o"}, {"r"});
       m.output("r");
     },
     "by zero"},
    {"ratio of a dropout",
     [](ModelMaker &m) {
       m.constant("ratio", {}, {1});
       m.node("Dropout", {"h", "ratio"}, {"r"});
       m.output("r");
     },
     "ratio"},
    {"a depth that no integer holds",
     [](ModelMaker &m) {
       m.constant("i", {1}, {0}, Proto::INT64);
       m.constant("depth", {}, {1e30});
       m.constant("values", {2}, {0, 1});
       m.node("OneHot", {"i", "depth", "values"}, {"r"});
       m.output("r");
     },
     "expects a whole number in 'depth', got 1"},
    {"a part of a size that is no integer",
     [](ModelMaker &m) {
       m.constant("each", {}, {1.5});
       m.node("SplitToSequence", {"h", "each"}, {"s"});
       m.node("ConcatFromSequence", {"s"}, {"r"}, {{"axis", 0}});
       m.output("r");
     },
     "expects a whole number in 'each', got 1.5"},
};
INSTANTIATE_TEST_SUITE_P(All, BrokenFile, testing::ValuesIn(kBroken));

TEST(Broken, BytesThatAreNoModel) {
  auto errorOf = [](llvm::StringRef bytes) {
    auto g = importOnnxBytes(bytes, "m.onnx", {});
    return g ? "none" : llvm::toString(g.takeError());
  };
  EXPECT_EQ(errorOf(""), "m.onnx: error: the file is empty");
  EXPECT_EQ(errorOf("isthmus 1\n"),
            "m.onnx: error: this is no ONNX model, or it is damaged or cut short");
  std::string bytes = good().bytes();
  EXPECT_NE(errorOf(llvm::StringRef(bytes).drop_back(5)).find("cut short"), std::string::npos);
  // With any prefix and any flipped byte, the result is an error or a graph, and not a crash.
  for (size_t i = 0; i < bytes.size(); ++i) {
    errorOf(llvm::StringRef(bytes).take_front(i));
    std::string flipped = bytes;
    flipped[i] = char(flipped[i] ^ 0x55);
    errorOf(flipped);
  }
}

TEST(Broken, FilesThatCannotBeRead) {
  for (const std::string &path : {std::string("/no/such/file.onnx"), testing::TempDir()}) {
    auto g = importOnnx(path, {});
    ASSERT_FALSE(bool(g));
    EXPECT_NE(llvm::toString(g.takeError()).find("cannot read '" + path + "'"), std::string::npos);
  }
}

TEST(Broken, AllUnsupportedOperatorsAreTold) {
  ModelMaker m = good();
  m.node("Whatever", {"h"}, {"a"});
  m.node("Whatever", {"a"}, {"b"});
  m.node("Whatever", {"b"}, {"c"});
  m.node("Rellu", {"c"}, {"d"});
  m.node("Flatten", {"h"}, {"e"}, {{"axis", 9}});
  m.node("Relu", {"e"}, {"f"}); // it gives no error of its own, as its operand was not made
  for (const char *name : {"d", "f"})
    m.output(name);
  EXPECT_EQ(m.errorOf(),
            "m.onnx: node \"n2\" (Whatever, #2): error: operator 'Whatever' of opset 17 is not "
            "supported\n"
            "note: the same holds for 2 other nodes\n"
            "m.onnx: node \"n5\" (Rellu, #5): error: operator 'Rellu' of opset 17 is not "
            "supported; did you mean 'Relu', "
            "'Celu' or 'Gelu'?\n"
            "m.onnx: node \"n6\" (Flatten, #6): error: expects an axis in [-2, 2), got 9");
}

} // namespace
} // namespace isthmus
