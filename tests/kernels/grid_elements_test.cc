// Kernels that compute or move single elements, for shapes that are larger than the op table's
// examples.

#include "tests/kernels/compare.h"

namespace isthmus::testing {
namespace {

using Texts = std::vector<std::string>;

constexpr DType kWide[] = {DType::F64, DType::F32};

void expectAllLikePlain(const std::string &before, const Texts &calls, const std::string &after,
                        llvm::ArrayRef<DType> types = kFloats) {
  for (const std::string &call : calls)
    expectLikePlain(before + call + after, types);
}

// Replaces element `at` of operand `i` of the random operands.
struct Change {
  size_t i;
  size_t at;
  double value;
};
void expectLikePlainWith(const std::string &text, llvm::ArrayRef<Change> changes) {
  SCOPED_TRACE(text);
  auto e = parseExample(text);
  std::vector<Tensor> operands = drawOperands(*e);
  for (const Change &c : changes) {
    std::vector<double> values = toDoubles(operands[c.i]);
    values.at(c.at) = c.value;
    operands[c.i] = fromDoubles(operands[c.i].type, values);
  }
  expectWhatPlainGives(e->call, operands);
  expectSameInPlace(e->call, operands);
}

void expectBitsOfPlain(const std::string &text) {
  for (DType t : kFloats) {
    SCOPED_TRACE(text + " in " + dtypeName(t).str());
    auto e = inType(text, t);
    auto operands = drawOperands(*e);
    auto want = llvm::cantFail(interpretCall(plainKernels(), e->call, operands, kOptions));
    auto got = llvm::cantFail(interpretCall(gridKernels(), e->call, operands, kOptions));
    EXPECT_TRUE(sameBits(got[0], want[0]));
    expectSameInPlace(e->call, operands);
  }
}

// --- Elementwise functions

TEST(GridMap, Functions) {
  const Texts shapes = {"(f64[1003])", "(f64[7, 3, 5])", "(f64[])", "(f64[0])"};
  for (const char *op : {"neg",        "abs",
                         "sign",       "exp",
                         "log",        "sqrt",
                         "rsqrt",      "reciprocal",
                         "sin",        "cos",
                         "erf",        "relu",
                         "square",     "tanh",
                         "silu",       "sigmoid",
                         "gelu",       "softplus",
                         "softsign",   "mish",
                         "elu",        "swish",
                         "log1p",      "leaky_relu",
                         "tan",        "hard_swish",
                         "expm1",      "asin",
                         "acos",       "atan",
                         "sinh",       "thresholded_relu",
                         "cosh",       "asinh",
                         "acosh",      "atanh",
                         "floor",      "ceil",
                         "round",      "hard_sigmoid",
                         "logit",      "softplus_inverse",
                         "elu_inverse"})
    expectAllLikePlain(op, shapes, "");
  expectAllLikePlain("gelu", shapes, " {approximate = tanh}");
  expectAllLikePlain("shrink", shapes, " {lambda = 0.3, bias = 0.1}");
}

TEST(GridMap, Gradients) {
  for (const char *op :
       {"relu_grad", "tanh_grad", "sigmoid_grad", "silu_grad", "gelu_grad", "leaky_relu_grad",
        "softsign_grad", "mish_grad", "hard_swish_grad", "elu_grad", "swish_grad"})
    expectAllLikePlain(op, {"(f64[1003], f64[1003])", "(f64[9, 4], f64[9, 4])"}, "");
  expectLikePlain("gelu_grad(f64[1003], f64[1003]) {approximate = tanh}");
  expectLikePlain("clamp_grad(f64[1003], f64[1003]) {min = -0.5, max = 0.25}");
  expectAllLikePlain("prelu", {"(f64[9, 40, 5], f64[40, 1])", "(f64[1003], f64[1003])"}, "");
}

TEST(GridMap, IntegersAndBits) {
  for (const char *type : {"i32", "i64", "u8"}) {
    std::string one = std::string("(") + type + "[1003])";
    for (const char *op : {"neg", "abs", "sign", "square", "relu", "not"})
      expectLikePlain(op + one, DType::F64);
    std::string two = std::string("(") + type + "[7, 40], " + type + "[40])";
    for (const char *op : {"and", "or", "xor", "shift_left", "shift_right", "mod"})
      expectLikePlain(op + two, DType::F64);
  }
  expectLikePlain("xor(bool[1003], bool[1003])", DType::F64);
  expectLikePlain("not(bool[1003])", DType::F64);
  expectAllLikePlain("mod(f64[7, 40], f64[7, 1])", {"", " {fmod = true}"}, "");
}

TEST(GridMap, NotNumbers) {
  for (const char *op : {"relu", "sign", "tanh", "erf", "gelu", "is_nan", "is_inf", "softplus"})
    for (const char *type : {"f64", "f32", "bf16", "f16"})
      expectLikePlainWith(std::string(op) + "(" + type + "[40])",
                          {{0, 3, NAN}, {0, 17, INFINITY}, {0, 39, -INFINITY}});
}

TEST(GridRandom, DrawsAsPlain) {
  for (const char *text :
       {"dropout(f64[4096]) {ratio = 0.3, stream = 5}", "dropout(f64[1003]) {stream = 1}",
        "dropout(f64[2]) {stream = 1}", "dropout(f64[77]) {stream = 1, training = false}"})
    expectBitsOfPlain(text);
  for (const char *type : {"f64", "f32", "bf16", "f16"}) {
    std::string rest = std::string(", stream = 3, type = ") + type + "}";
    for (const char *n : {"4099", "1", "512"}) {
      expectBitsOfPlain(std::string("uniform() {low = -2.0, dims = [") + n + "]" + rest);
      expectBitsOfPlain(std::string("normal() {std = 3.0, dims = [") + n + "]" + rest);
    }
  }
}

TEST(GridOptimizer, Steps) {
  expectAllLikePlain("sgd(f64[1003], f64[1003], f64[])", {"", " {weight_decay = 0.1}"}, "");
  expectLikePlain("momentum(f64[1003], f64[1003], f64[1003], f64[])");
  for (const char *op : {"adam", "adamw"})
    for (const char *n : {"1003", "5", "0"}) {
      std::string text = op;
      for (int i = 0; i < 4; ++i)
        text += (i == 0 ? "(f64[" : ", f64[") + std::string(n) + "]";
      expectLikePlain(text + ", f64[], i64[])");
    }
  expectLikePlain("adagrad(f64[1003], f64[1003], f64[1003], f64[], i32[])");
  for (const char *type : {"bf16", "f16"}) { // states are floats
    std::string of = std::string(type) + "[1003], ";
    std::string text = "(" + of + of + "f32[1003], ";
    expectLikePlain("adam" + text + "f32[1003], f32[], i64[])", DType::F64);
    expectLikePlain("momentum" + text + "f32[])", DType::F64);
  }
  for (double step : {0.0, 1.0, 1000.0}) {
    expectLikePlainWith("adam(f32[9], f32[9], f32[9], f32[9], f32[], i64[]) {epsilon_hat = true}",
                        Change{5, 0, step});
    expectLikePlainWith("momentum(f32[9], f32[9], f32[9], f32[], i64[]) {gain = 0.5}",
                        Change{4, 0, step});
  }
}

// --- Movement

TEST(GridShape, Transpose) {
  for (const char *type : {"f64", "f32", "bf16", "u8", "bool"})
    for (const char *rest :
         {"[100, 70]) {perm = [1, 0]}", "[16, 16]) {perm = [1, 0]}", "[65, 64]) {perm = [1, 0]}",
          "[3, 40, 33]) {perm = [0, 2, 1]}", "[2, 5, 6, 7]) {perm = [0, 2, 1, 3]}",
          "[2, 3, 17, 19]) {perm = [0, 2, 3, 1]}", "[3, 17, 19, 5, 20]) {perm = [4, 1, 0, 3, 2]}",
          "[4, 32, 8, 32]) {perm = [2, 3, 0, 1]}", "[1, 40, 1, 20]) {perm = [3, 2, 1, 0]}",
          "[2, 16, 3, 17]) {perm = [3, 0, 2, 1]}", "[0, 5]) {perm = [1, 0]}", "[]) {perm = []}"})
      expectLikePlain(std::string("transpose(") + type + rest, DType::F64);
}

TEST(GridShape, Copies) {
  for (const char *type : {"f64", "f32", "bf16", "u8"}) {
    std::string t = std::string("(") + type;
    expectAllLikePlain("broadcast" + t,
                       {"[3, 1, 7]) {dims = [5, 3, 40, 7]}", "[40, 1]) {dims = [40, 64]}",
                        "[]) {dims = [100]}", "[64]) {dims = [3, 64]}", "[1]) {dims = [0]}"},
                       "", DType::F64);
    expectAllLikePlain("slice" + t,
                       {"[40, 64]) {starts = [3, 0], limits = [21, 64]}",
                        "[40, 64]) {starts = [3, 16], limits = [21, 48]}",
                        "[40, 67]) {starts = [39, 66], limits = [-1, 2], steps = [-3, -1]}",
                        "[3, 40, 6]) {starts = [0, 5, 1], limits = [3, 38, 6], steps = [1, 2, 2]}",
                        "[40]) {starts = [7], limits = [7]}"},
                       "", DType::F64);
    std::string of = std::string(", ") + type;
    expectLikePlain("concat" + t + "[40, 16]" + of + "[40, 0]" + of + "[40, 33]" + of +
                        "[40, 8]) {axis = 1}",
                    DType::F64);
    expectLikePlain("concat" + t + "[3, 5, 4]" + of + "[3, 9, 4]) {axis = 1}", DType::F64);
    expectLikePlain("split" + t + "[30, 64]) {axis = 1, sizes = [16, 0, 15, 33]}", DType::F64);
    expectLikePlain("split" + t + "[64, 3]) {sizes = [31, 33]}", DType::F64);
    expectLikePlain("trilu" + t + "[3, 20, 33]) {k = 2}", DType::F64);
    expectLikePlain("trilu" + t + "[33, 20]) {k = -9, upper = false}", DType::F64);
    expectLikePlain("trilu" + t + "[5, 4]) {k = 9223372036854775807}", DType::F64);
  }
  for (const char *type : {"f64", "f32", "bf16", "f16", "i64", "u8", "bool"})
    expectLikePlain(std::string("full() {dims = [1003], value = 1.0, type = ") + type + "}",
                    DType::F64);
}

TEST(GridShape, Pads) {
  for (const char *mode : {"constant", "reflect", "edge", "wrap"})
    for (const char *call :
         {"(f64[9, 40]) {low = [3, 5], high = [1, 7]", "(f64[40]) {low = [0], high = [39]",
          "(f64[5, 3, 8, 4]) {low = [0, 2, 0, 0], high = [0, 0, 0, 0]",
          "(f64[2, 3, 4, 5, 6]) {low = [1, 0, 0, 4, 0], high = [1, 0, 2, 0, 0]"})
      expectLikePlain(std::string("pad") + call + ", value = -1.5, mode = " + mode + "}");
  expectLikePlain("pad(bool[9]) {low = [3], high = [2], value = 1.0}", DType::F64);
}

TEST(GridShape, Gather) {
  for (const char *type : {"f64", "f32", "bf16", "u8", "i64"})
    for (const char *rest :
         {"[300, 64], i64[70])", "[300, 33], i32[7, 10])", "[5, 300, 4], i64[90]) {axis = 1}",
          "[40, 300], i64[400]) {axis = 1}", "[40, 5], i64[])", "[40, 5], i64[0])"})
      expectLikePlain(std::string("gather(") + type + rest, DType::F64);
  for (const char *type : {"f64", "f32", "bf16", "f16", "i32"})
    expectLikePlainWith(std::string("gather(") + type + "[30, 8], i64[9])",
                        {{1, 0, -1}, {1, 4, 30}, {1, 7, -31}, {1, 8, -30}});
}

// --- Updates at the same place

TEST(GridScatter, Rows) {
  for (const char *call :
       {"(i64[200], f64[200, 33]) {size = 500}", "(i64[300], f64[300, 8]) {size = 7}",
        "(i32[3, 100], f64[4, 3, 100, 5]) {axis = 1, size = 9}", "(i64[40], f64[40]) {size = 1}",
        "(i64[0], f64[0, 4]) {size = 3}"})
    expectLikePlain(std::string("scatter_rows") + call, kWide);
  // More updates than one team sorts.
  expectLikePlain("scatter_rows(i64[5000], f64[5000, 3]) {size = 700}", kWide);
  expectLikePlain("scatter_rows(i64[9000], f64[9000], f64[3]) {size = 3}", kWide);
  for (const char *type : {"bf16", "f16"})
    expectLikePlain(std::string("scatter_rows(i64[90], ") + type + "[90, 6], " + type +
                        "[50, 6]) {size = 50}",
                    DType::F64);
  for (const char *type : {"i32", "i64", "u8"})
    expectLikePlain(std::string("scatter_rows(i64[900], ") + type + "[900, 2]) {size = 4}",
                    DType::F64);
  expectLikePlainWith("scatter_rows(i64[6], f32[6, 40], f32[5, 40]) {size = 5}",
                      {{0, 0, -1}, {0, 2, 5}, {0, 4, -6}});
  expectLikePlainWith("scatter_rows(i64[2], f32[2, 4]) {size = 5}", {{0, 0, 7}, {0, 1, 7}});
}

TEST(GridScatter, Elements) {
  for (const char *how : {"none", "add", "mul", "max", "min"}) {
    std::string attrs = std::string(", reduction = ") + how + "}";
    for (const char *call :
         {"(f64[50], i64[3000], f64[3000]) {axis = 0",         // sorted, in pieces
          "(f64[900, 3], i64[300, 3], f64[300, 3]) {axis = 0", // sorted, with several columns
          "(f64[4, 60], i64[3, 300], f64[3, 300]) {axis = 1",  // the indices have fewer columns
          "(f64[40, 30], i32[20, 30], f64[20, 30]) {axis = 0"})
      expectLikePlain("scatter_elements" + (call + attrs), kWide);
    expectLikePlain("scatter_elements(i64[9], i64[400], i64[400]) {axis = 0" + attrs, DType::F64);
    expectLikePlain("scatter_elements(bf16[40], i64[10], bf16[10]) {axis = 0" + attrs, DType::F64);
    expectLikePlainWith("scatter_elements(f32[9], i64[300], f32[300]) {axis = 0" + attrs,
                        {{1, 0, -1}, {1, 40, 9}, {1, 299, -10}, {2, 200, NAN}});
  }
  expectLikePlain("scatter_elements(bool[9], i64[400], bool[400])", DType::F64);
}

TEST(GridScatter, Nd) {
  for (const char *how : {"none", "add", "mul", "max", "min"}) {
    std::string attrs = std::string("reduction = ") + how + "}";
    for (const char *call :
         {"(f64[50, 7], i64[300, 1], f64[300, 7]) {",
          "(f64[5, 6, 2], i64[2, 40, 2], f64[2, 40, 2]) {",
          "(f64[3, 9, 4], i32[3, 50, 1], f64[3, 50, 4]) {batch_dims = 1, ",
          "(f64[6], i64[5000, 1], f64[5000]) {", "(f64[4], i64[0, 1], f64[0]) {"})
      expectLikePlain("scatter_nd" + (call + attrs), kWide);
    expectLikePlainWith("scatter_nd(f32[5, 6], i64[4, 2], f32[4]) {" + attrs,
                        {{1, 0, -1}, {1, 3, 6}, {1, 4, -6}});
  }
}

TEST(GridGather, ElementsAndNd) {
  for (const char *last : {"false", "true"}) {
    std::string attrs = std::string("last_only = ") + last + "}";
    for (const char *call :
         {"_elements(f64[50, 7], i64[300, 7]) {", "_elements(f64[4, 90], i64[3, 200]) {axis = 1, ",
          "_elements(f64[500], i64[6000]) {", "_nd(f64[50, 7], i64[300, 1]) {",
          "_nd(f64[9, 8, 4], i64[70, 2]) {", "_nd(f64[3, 9, 5], i64[3, 40, 1]) {batch_dims = 1, ",
          "_nd(f64[9, 3], i64[6000, 1]) {", "_nd(u8[9, 8], i32[40, 2]) {"})
      expectLikePlain("gather" + (call + attrs));
    for (const char *type : {"f32", "bf16", "i64"}) {
      std::string of = std::string("(") + type;
      expectLikePlainWith("gather_elements" + of + "[9], i64[40]) {" + attrs,
                          {{1, 0, -1}, {1, 20, 9}, {1, 39, -10}, {1, 30, -1}});
      expectLikePlainWith("gather_nd" + of + "[9, 4], i64[40, 1]) {" + attrs,
                          {{1, 0, -1}, {1, 20, 9}, {1, 39, -10}, {1, 30, -1}});
    }
  }
}

// --- Sorting along an axis

TEST(GridOrder, TopK) {
  for (const char *largest : {"true", "false"}) {
    std::string attrs = std::string(", largest = ") + largest + "}";
    for (const char *call :
         {"(f64[30, 300]) {k = 3", "(f64[300, 5]) {axis = 0, k = 20",
          "(f64[3, 200, 4]) {axis = 1, k = 200", "(f64[70]) {k = 70", "(f64[2, 9000]) {k = 9000",
          "(f64[2, 5000]) {k = 65", "(i64[300]) {k = 300", "(i32[40, 50]) {k = 7",
          "(u8[5000]) {k = 5000", "(f64[0, 5]) {k = 2"})
      expectLikePlain("top_k" + (call + attrs));
    for (const char *k : {"5", "100"})
      expectLikePlainWith(std::string("top_k(f32[100]) {k = ") + k + attrs,
                          {{0, 3, NAN}, {0, 50, NAN}, {0, 51, INFINITY}, {0, 52, -INFINITY}});
  }
}

TEST(GridOrder, Extrema) {
  for (const char *op : {"argmax", "argmin"})
    for (const char *last : {"false", "true"}) {
      std::string attrs = std::string(", last = ") + last + "}";
      for (const char *call :
           {"(f64[30, 300]) {axis = 1", "(f64[300, 30]) {axis = 0", "(f64[20000]) {axis = 0",
            "(i64[5, 600]) {axis = 1", "(u8[600, 5]) {axis = 0", "(i32[20000]) {axis = 0",
            "(f64[4, 50, 3]) {axis = 1, keepdims = true"})
        expectLikePlain(op + (call + attrs));
      for (const char *call :
           {"(f32[2, 300]) {axis = 1", "(f32[40, 15]) {axis = 0", "(f32[1, 20000]) {axis = 1"})
        expectLikePlainWith(op + (call + attrs), {{0, 33, NAN}, {0, 303, NAN}, {0, 400, INFINITY}});
    }
}

TEST(GridScan, SumsAndProducts) {
  for (const char *op : {"cumsum", "cumprod"})
    for (const char *reverse : {"false", "true"})
      for (const char *exclusive : {"false", "true"}) {
        std::string attrs =
            std::string(", reverse = ") + reverse + ", exclusive = " + exclusive + "}";
        for (const char *call :
             {"(f64[5000]) {axis = 0", "(f64[3, 1000]) {axis = 1", "(f64[1000, 3]) {axis = 0",
              "(f64[4, 77, 5]) {axis = 1", "(f64[2, 20000]) {axis = 0", "(i64[3000]) {axis = 0",
              "(i32[7, 100]) {axis = 1", "(u8[100, 7]) {axis = 0", "(f64[0, 7]) {axis = 0"})
          expectLikePlain(op + (call + attrs));
      }
}

TEST(GridScan, Recurrences) {
  for (const char *attrs :
       {"{axis = 1}", "{axis = 1, reverse = true}", "{axis = 1, previous = true}",
        "{axis = 0, reverse = true, previous = true}"}) {
    expectLikePlain(std::string("recurrence(f64[7, 40], f64[7, 40]) ") + attrs);
    expectLikePlain(std::string("recurrence(f64[7, 40], f64[7, 40], bool[7, 40]) ") + attrs);
  }
}

TEST(GridInterpolate, Forms) {
  for (const char *type : {"i64", "i32"}) {
    std::string at = std::string(type) + "[2, 40, 3]", shared = std::string(type) + "[1, 700, 4]";
    for (const char *inner : {"1]", "37]"}) {
      std::string x = std::string("f64[2, 5, 31, ") + inner,
                  g = std::string("f64[2, 5, 40, ") + inner;
      std::string more = std::string("f64[2, 5, 700, ") + inner;
      expectLikePlain("interpolate(" + x + ", " + at + ", f64[2, 40, 3])");
      expectLikePlain("interpolate(" + x + ", " + shared + ", f64[1, 700, 4])");
      expectLikePlain("interpolate_transpose(" + g + ", " + at + ", f64[2, 40, 3]) {size = 31}");
      expectLikePlain("interpolate_transpose(" + more + ", " + shared +
                      ", f64[1, 700, 4]) {size = 31}");
      expectLikePlain("interpolate_weights(" + g + ", " + x + ", " + at + ") {type = f64}",
                      DType::F64);
      expectLikePlain("interpolate_weights(" + more + ", " + x + ", " + shared + ") {type = f64}",
                      DType::F64);
    }
  }
  // Weights in f32; one thread for each of many taps; more taps than one team sorts; no taps
  // inside.
  expectLikePlain("interpolate(bf16[2, 3, 9, 4], i64[2, 7, 2], f32[2, 7, 2])", DType::F64);
  expectLikePlain("interpolate_transpose(bf16[2, 3, 7, 4], i64[2, 7, 2], f32[2, 7, 2]) {size = 9}",
                  DType::F64);
  expectLikePlain(
      "interpolate_weights(f16[1, 3, 2100, 1], f16[1, 3, 9, 1], i64[1, 2100, 2]) {type = f32}",
      DType::F64);
  expectLikePlain(
      "interpolate_transpose(f64[2, 1, 2100, 1], i64[2, 2100, 4], f64[2, 2100, 4]) {size = 90}",
      kWide);
  for (const char *call :
       {"interpolate(f32[1, 2, 9, 1], i64[1, 3, 2], f32[1, 3, 2])",
        "interpolate_transpose(f32[1, 2, 3, 1], i64[1, 3, 2], f32[1, 3, 2]) {size = 9}"})
    expectLikePlainWith(call, {{1, 0, -1}, {1, 1, 9}, {1, 2, -9}, {1, 5, 100}});
}

} // namespace
} // namespace isthmus::testing
