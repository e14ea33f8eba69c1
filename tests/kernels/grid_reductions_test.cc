// Reductions, for shapes that are larger than the op table's examples.

#include "tests/kernels/compare.h"

namespace isthmus::testing {
namespace {

TEST(GridReduce, Rows) {
  for (const char *op : {"sum", "mean", "max", "min"})
    for (const char *rest :
         {"(f64[70, 300]) {axes = [1]}", "(f64[3, 257]) {axes = [1]}", "(f64[5, 31]) {axes = [1]}",
          "(f64[2, 33, 4, 65]) {axes = [1, 3]}", "(f64[7, 40, 3]) {axes = [0, 2]}",
          "(f64[4, 40, 9, 2]) {axes = [0, 3]}", "(f64[2, 3, 4, 5, 6]) {axes = [0, 2, 4]}",
          "(f64[2, 0]) {axes = [1]}", "(f64[0, 3]) {axes = [1]}", "(f64[1, 1]) {axes = [0]}",
          "(f64[1, 1, 1])"})
      expectLikePlain(std::string(op) + rest);
}

TEST(GridReduce, ColumnsInPieces) {
  for (const char *op : {"sum", "mean", "max", "min"})
    for (const char *rest : {"(f64[1000, 3]) {axes = [0]}", "(f64[257, 130]) {axes = [0]}",
                             "(f64[5, 200, 7]) {axes = [1]}", "(f64[9, 4, 33, 6]) {axes = [0, 2]}",
                             "(f64[3, 64, 2]) {axes = [0, 1]}", "(f64[0, 4]) {axes = [0]}"})
      expectLikePlain(std::string(op) + rest);
}

TEST(GridReduce, RowsInPieces) {
  for (const char *op : {"sum", "mean", "max", "min"})
    for (const char *rest :
         {"(f64[30011])", "(f64[3, 9001]) {axes = [1]}", "(f64[5, 2, 4000]) {axes = [0, 2]}",
          "(f64[17, 4, 33, 41]) {axes = "
          "[0, 2, 3]}"})
      expectLikePlain(std::string(op) + rest);
}

TEST(GridReduce, Products) {
  for (const char *rest :
       {"(f64[40, 50]) {axes = [1]}", "(f64[50, 40]) {axes = [0]}", "(f64[2, 9000]) {axes = [1]}",
        "(i64[3, 70]) {axes = [1]}", "(u8[70, 3]) {axes = [0]}", "(i32[2, 9000]) {axes = [1]}"})
    expectLikePlain(std::string("prod") + rest);
}

TEST(GridReduce, Integers) {
  for (const char *op : {"sum", "max", "min"})
    for (const char *type : {"i32", "i64", "u8"})
      for (const char *rest : {"[40, 300]) {axes = [1]}", "[300, 40]) {axes = [0]}", "[20000])"})
        expectLikePlain(std::string(op) + "(" + type + rest, DType::F64);
}

TEST(GridReduce, NaNIsTheExtremum) {
  for (const char *op :
       {"max(f32[3, 300]) {axes = [1]}", "min(f32[300, 3]) {axes = [0]}", "max(f32[20000])"}) {
    auto e = parseExample(op);
    std::vector<double> x = toDoubles(drawOperands(*e)[0]);
    x[x.size() / 2] = NAN;
    expectWhatPlainGives(e->call, {fromDoubles(e->call.operands[0], x)});
  }
}

// The result of the forward row is an operand, so that the extrema are found; some occur twice.
void checkExtremumGrad(const std::string &x, const std::string &attrs, bool share) {
  for (const char *op : {"max", "min"})
    for (DType t : kFloats) {
      SCOPED_TRACE(op + x + attrs);
      auto forward = inType(std::string(op) + "(" + x + ") {" + attrs + "}", t);
      Tensor in = drawOperands(*forward)[0];
      std::vector<double> few = toDoubles(in);
      for (double &v : few)
        v = std::round(v * 8) / 8;
      in = fromDoubles(in.type, few);
      Tensor y = llvm::cantFail(interpretCall(plainKernels(), forward->call, {in}))[0];
      std::string kept = y.type.str(), all = in.type.str();
      auto grad = parseExample(std::string(op) + "_grad(" + kept + ", " + all + ", " + kept +
                               ") {" + attrs + (share ? ", share_ties = true}" : "}"));
      std::vector<Tensor> operands = drawOperands(*grad);
      operands[1] = in;
      operands[2] = y;
      expectWhatPlainGives(grad->call, operands);
      expectSameInPlace(grad->call, operands);
    }
}

TEST(GridReduce, ExtremumGrads) {
  for (bool share : {false, true}) {
    checkExtremumGrad("f64[30, 300]", "axes = [1]", share);
    checkExtremumGrad("f64[300, 30]", "axes = [0]", share);
    checkExtremumGrad("f64[40, 5]", "axes = [1]", share);
    checkExtremumGrad("f64[2, 20000]", "axes = [1], keepdims = true", share);
    checkExtremumGrad("f64[5, 6, 7, 50]", "axes = [0, 2]", share);
    checkExtremumGrad("f64[9, 6, 50]", "axes = [0, 2]", share);
  }
}

TEST(GridSoftmax, RowsAndColumns) {
  for (const char *op : {"softmax", "log_softmax"})
    for (const char *rest :
         {"(f64[40, 300])", "(f64[7, 20])", "(f64[3, 130])", "(f64[3, 70, 50]) {axis = 1}",
          "(f64[200, 5]) {axis = 0}", "(f64[2, 20001])", "(f64[3, 5, 7, 2, 2]) {axis = 1}",
          "(f64[9000, 2]) {axis = 0}", "(f64[0, 3])", "(f64[3, 0])", "(f64[5]) {axis = 0}"})
      expectLikePlain(std::string(op) + rest);
  for (const char *op : {"softmax_grad", "log_softmax_grad"})
    for (const char *rest :
         {"(f64[40, 300], f64[40, 300])", "(f64[7, 20], f64[7, 20])",
          "(f64[3, 70, 50], f64[3, 70, 50]) {axis = 1}", "(f64[2, 20001], f64[2, 20001])",
          "(f64[9000, 2], f64[9000, 2]) {axis = 0}"})
      expectLikePlain(std::string(op) + rest);
  for (const char *rest : {"(f64[40, 300]) {axes = [1]}", "(f64[40, 300]) {axes = [0]}",
                           "(f64[40000])", "(f64[3, 4, 70]) {axes = [0, 2]}",
                           "(f64[3, 0]) {axes = [1]}", "(f64[3000, 4]) {axes = [0]}"})
    expectLikePlain(std::string("logsumexp") + rest);
}

// Infinities and NaN, in rows of one piece and of several pieces.
TEST(GridSoftmax, NumbersThatAreNone) {
  for (int64_t columns : {5, 40, 20000}) {
    std::string type = "f32[6, " + std::to_string(columns) + "]";
    for (const std::string &text :
         {"softmax(" + type + ")", "softmax(" + type + ") {zero_if_masked = true}",
          "log_softmax(" + type + ")", "logsumexp(" + type + ") {axes = [1]}"}) {
      SCOPED_TRACE(text);
      auto e = parseExample(text);
      std::vector<double> x = toDoubles(drawOperands(*e)[0]);
      x[1] = INFINITY;
      x[columns + 2] = -INFINITY;
      for (int64_t i = 0; i < columns; ++i) {
        x[2 * columns + i] = -INFINITY;
        x[3 * columns + i] += 1e4;
        x[4 * columns + i] = i < columns / 2 ? -1e4 : -INFINITY;
      }
      x[5 * columns + columns - 1] = NAN;
      expectWhatPlainGives(e->call, {fromDoubles(e->call.operands[0], x)});
    }
  }
}

// Ignored labels and labels that are no class: in pieces, rows and columns.
TEST(GridLoss, Labels) {
  for (const char *reduction : {"mean", "sum", "none"})
    for (const char *ignore : {"", ", ignore = [2]", ", ignore = [-1, 1, 5]"})
      for (bool wrong : {false, true})
        for (std::string x : {"300, 7", "5000, 3", "3, 500", "2, 17000", "2, 5, 60, 7", "0, 3"}) {
          llvm::StringRef dims = x;
          std::string labels =
              (dims.split(", ").first + (dims.count(',') > 1 ? ", 60, 7" : "")).str();
          std::string attrs = std::string(" {reduction = ") + reduction + ignore;
          std::string loss = reduction == std::string("none") ? "f64[" + labels + "]" : "f64[]";
          std::string classes =
              std::to_string(parseExample("exp(f64[" + x + "])")->call.results[0].dims[1]);
          std::string type = "i64[" + labels + "]", all = "f64[" + x + "]",
                      lse = "f64[" + labels + "]";
          for (const std::string &text : {"cross_entropy(" + all + ", " + type + ")" + attrs + "}",
                                          "nll(" + all + ", " + type + ")" + attrs + "}",
                                          "cross_entropy_grad(" + loss + ", " + all + ", " + type +
                                              ", " + lse + ")" + attrs + "}",
                                          "nll_grad(" + loss + ", " + type + ")" + attrs +
                                              ", classes = " + classes + ", type = f64}"}) {
            SCOPED_TRACE(text + (wrong ? ", some wrong" : ""));
            auto e = parseExample(text);
            std::vector<Tensor> operands = drawOperands(*e);
            size_t at = e->call.op->name == "cross_entropy_grad" ? 2 : 1;
            std::vector<double> values = toDoubles(operands[at]);
            for (size_t i = 0; i < values.size(); ++i)
              values[i] = wrong && i % 50 == 3 ? 100000 : i % 9 == 4 ? -1 : values[i];
            if (!wrong && ignore[0] == 0)
              continue;
            operands[at] = fromDoubles(operands[at].type, values);
            expectWhatPlainGives(e->call, operands);
            expectSameInPlace(e->call, operands);
          }
        }
}

TEST(GridLoss, Types) {
  for (const char *text :
       {"cross_entropy(f64[40, 300], i32[40])",
        "cross_entropy(f64[3, 40, 50], i64[3, 40]) {axis = -1}", "nll(f64[40, 300], i32[40])",
        "cross_entropy_grad(f64[], f64[2, 3, 70], i64[2, 70], f64[2, 70])",
        "cross_entropy(f64[4, 40000], i64[4]) {reduction = none}"})
    expectLikePlain(text);
}

TEST(GridNorm, Channels) {
  struct {
    const char *x, *channels;
  } shapes[] = {{"40, 5", "5"},        {"3, 7, 20", "7"},       {"2, 3, 33, 41", "3"},
                {"9, 40, 2, 2", "40"}, {"2, 2, 150, 151", "2"}, {"5000, 6", "6"},
                {"3, 300, 1", "300"},  {"2, 4, 3, 5, 7", "4"},  {"0, 3, 4", "3"}};
  for (auto [dims, channels] : shapes)
    for (const char *training : {"", " {training = false}"})
      for (DType t : kFloats)
        for (bool wide : {false, true}) { // vectors of the statistics' type
          std::string of = dtypeName(t).str(), vector = wide ? t == DType::F64 ? "f64" : "f32" : of;
          std::string x = of + "[" + dims + "]", c = ", " + vector + "[" + channels + "]";
          expectLikePlain("batch_norm(" + x + c + c + c + c + ")" + training, t);
          expectLikePlain("batch_norm_grad(" + x + ", " + x + c + c + c + ")" + training, t);
          expectLikePlain("batch_norm_inverse(" + x + c + c + c + c + ")", t);
        }
}

TEST(GridNorm, ChannelsLast) {
  struct {
    const char *x, *channels;
  } shapes[] = {{"3, 20, 7", "7"},    {"2, 33, 41, 3", "3"},  {"9, 2, 2, 40", "40"},
                {"3, 1, 300", "300"}, {"2, 3, 5, 7, 4", "4"}, {"2, 150, 151, 2", "2"},
                {"0, 4, 3", "3"}};
  for (auto [dims, channels] : shapes)
    for (const char *training : {"}", ", training = false}"})
      for (DType t : kFloats) {
        std::string of = dtypeName(t).str(), x = of + "[" + dims + "]";
        std::string c = ", " + of + "[" + channels + "]";
        std::string attrs = std::string(" {channels_last = true") + training;
        expectLikePlain("batch_norm(" + x + c + c + c + c + ")" + attrs, t);
        expectLikePlain("batch_norm_grad(" + x + ", " + x + c + c + c + ")" + attrs, t);
        expectLikePlain("batch_norm_inverse(" + x + c + c + c + c + ") {channels_last = true}", t);
      }
}

// Half a million elements whose mean is a thousand times their deviation.
TEST(GridNorm, LargeMeans) {
  auto e = parseExample("batch_norm(f32[2, 2, 400, 300], f32[2], f32[2], f32[2], f32[2])");
  std::vector<Tensor> operands = drawOperands(*e);
  std::vector<double> x = toDoubles(operands[0]);
  for (double &v : x)
    v += 1000;
  operands[0] = fromDoubles(operands[0].type, x);
  auto want = llvm::cantFail(interpretCall(plainKernels(), e->call, operands, kOptions));
  auto got = llvm::cantFail(interpretCall(gridKernels(), e->call, operands, kOptions));
  for (size_t r : {0, 1, 2}) {
    std::vector<double> a = toDoubles(got[r]), b = toDoubles(want[r]);
    for (size_t i = 0; i < a.size(); ++i) // the rounding of the mean affects y
      ASSERT_NEAR(a[i], b[i], r == 0 ? 2e-3 : std::fabs(b[i]) * 1e-5);
  }
}

TEST(GridNorm, Rows) {
  struct {
    const char *x, *inner, *outer, *axis;
  } shapes[] = {
      {"50, 768", "768", "50, 1", "-1"}, {"3, 4, 300", "4, 300", "3, 1, 1", "1"},
      {"9, 5", "5", "9, 1", "1"},        {"3, 20000", "20000", "3, 1", "1"},
      {"4000, 6", "6", "4000, 1", "1"},  {"2, 3, 5, 7, 11", "7, 11", "2, 3, 5, 1, 1", "3"},
      {"0, 4", "4", "0, 1", "1"},        {"70", "70", "1", "0"}};
  for (auto [dims, inner, outer, axis] : shapes)
    for (DType t : kFloats)
      for (bool wide : {false, true}) { // vectors of the statistics' type
        std::string of = dtypeName(t).str(), statistics = t == DType::F64 ? "f64" : "f32",
                    vector = wide ? statistics : of;
        std::string x = of + "[" + dims + "]", s = ", " + vector + "[" + inner + "]",
                    m = ", " + statistics + "[" + outer + "]",
                    attrs = std::string(") {axis = ") + axis + "}";
        expectLikePlain("layer_norm(" + x + s + s + attrs, t);
        expectLikePlain("layer_norm(" + x + s + attrs, t);
        expectLikePlain("layer_norm_grad(" + x + ", " + x + s + m + m + attrs, t);
        expectLikePlain("rms_norm(" + x + s + attrs, t);
        expectLikePlain("rms_norm_grad(" + x + ", " + x + s + m + attrs, t);
      }
}

TEST(GridNorm, Groups) {
  struct {
    const char *x, *channels, *statistics, *groups;
  } shapes[] = {{"3, 12, 40", "12", "3, 4", "4"},
                {"2, 6, 70, 60", "6", "2, 2", "2"},
                {"2, 6, 90, 130", "6", "2, 1", "1"},
                {"40, 8, 2", "8", "40, 8", "8"},
                {"300, 6", "6", "300, 3", "3"}};
  for (auto [dims, channels, statistics, groups] : shapes)
    for (DType t : kFloats)
      for (bool wide : {false, true}) {
        std::string of = dtypeName(t).str(), c = t == DType::F64 ? "f64" : "f32";
        std::string x = of + "[" + dims + "]", s = ", " + (wide ? c : of) + "[" + channels + "]",
                    m = ", " + c + "[" + statistics + "]",
                    attrs = std::string(") {groups = ") + groups + "}";
        expectLikePlain("group_norm(" + x + s + s + attrs, t);
        expectLikePlain("group_norm_grad(" + x + ", " + x + s + m + m + attrs, t);
      }
}

TEST(GridNorm, Responses) {
  for (const char *rest : {"f64[3, 40, 5, 7]", "f64[300, 2]", "f64[2, 9, 300]"})
    for (const char *size : {"1", "4", "5", "50"}) {
      std::string x = rest, attrs = std::string(") {size = ") + size + ", alpha = 0.5}";
      expectLikePlain("lrn(" + x + attrs);
      expectLikePlain("lrn_grad(" + x + ", " + x + attrs);
    }
}

} // namespace
} // namespace isthmus::testing
