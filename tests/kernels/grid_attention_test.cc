// Attention on a GPU is split into chunks: several heads, or rows of one head. These tests make
// chunks small, and compare every way to split with the plain kernel.

#include "kernels/cuda/attention.h"
#include "tests/kernels/compare.h"

namespace isthmus::testing {
namespace {

template <int64_t mostScores>
std::unique_ptr<PreparedKernel> prepareIn(const OpCall &call, const KernelOptions &options) {
  return cuda::prepareAttention(call, options, mostScores);
}
template <int64_t mostScores> const KernelTable &chunksOf() {
  static const KernelTable *table = [] {
    auto *t = new KernelTable;
    for (const char *op : {"attention", "attention_grad"})
      t->add({op, "cuda", prepareIn<mostScores>});
    return t;
  }();
  return *table;
}

std::vector<std::pair<const char *, const KernelTable *>> tables() {
  return {{"a row", &chunksOf<1>()},
          {"700 scores", &chunksOf<700>()},
          {"20000 scores", &chunksOf<20000>()},
          {"the device's size", &gridKernels()}};
}

struct Case {
  std::string lead; // "2, 3, "
  int64_t queries, keys, depth, width;
  std::string mask; // the mask's sizes; empty if there is no mask
  bool causal;

  // The call of "attention(...)" or "attention_grad(...)" in a type.
  std::string text(bool grad, DType type) const {
    std::string t = dtypeName(type).str(), statistics = type == DType::F64 ? "f64" : "f32";
    auto tensor = [&](int64_t rows, int64_t columns) {
      return t + "[" + lead + std::to_string(rows) + ", " + std::to_string(columns) + "], ";
    };
    std::string s = tensor(queries, depth) + tensor(keys, depth) + tensor(keys, width);
    if (grad)
      s = tensor(queries, width) + s + tensor(queries, width) + statistics + "[" + lead +
          std::to_string(queries) + "], ";
    s = mask.empty() ? s.substr(0, s.size() - 2) : s + t + mask;
    return (grad ? "attention_grad(" : "attention(") + s + ") {scale = 0.4" +
           (causal ? ", causal = true}" : "}");
  }
};

// Sets large elements to -inf, except in the first column, so that every row has a key.
Tensor withHoles(const Tensor &mask) {
  std::vector<double> v = toDoubles(mask);
  size_t columns = mask.type.rank() ? size_t(mask.type.dims.back()) : 1;
  for (size_t i = 0; i < v.size(); ++i)
    if (v[i] > 0.5 && i % columns != 0)
      v[i] = -INFINITY;
  return fromDoubles(mask.type, v);
}

void expectLikePlain(const Case &c, DType type) {
  auto e = parseExample(c.text(false, type)), grad = parseExample(c.text(true, type));
  SCOPED_TRACE(c.text(false, type));
  auto operands = drawOperands(*e), upstream = drawOperands(*grad);
  if (!c.mask.empty())
    operands[3] = withHoles(operands[3]);
  auto results = llvm::cantFail(interpretCall(plainKernels(), e->call, operands, kOptions));
  for (size_t i = 0; i < 3; ++i)
    upstream[1 + i] = operands[i];
  for (size_t i = 0; i < 2; ++i)
    upstream[4 + i] = results[i];
  if (!c.mask.empty())
    upstream[6] = operands[3];
  for (auto [size, table] : tables()) {
    SCOPED_TRACE(std::string("chunks of ") + size);
    expectWhatPlainGives(e->call, operands, *table);
    expectSameInPlace(e->call, operands, *table);
    expectWhatPlainGives(grad->call, upstream, *table);
    expectSameInPlace(grad->call, upstream, *table);
  }
}

TEST(GridAttention, InChunks) {
  const Case cases[] = {
      {"", 33, 47, 8, 5, "", false},
      {"3, ", 40, 40, 16, 16, "", true},
      {"2, 3, ", 65, 70, 7, 7, "[65, 70]", false},
      {"2, 3, ", 31, 90, 4, 9, "[2, 1, 1, 90]", true},
      {"5, ", 90, 31, 6, 3, "[5, 90, 1]", true},
      {"2, ", 20, 600, 3, 3, "[600]", false},
      {"2, 1, ", 7, 9, 1, 1, "[]", false},
  };
  for (const Case &c : cases)
    for (DType type : kFloats)
      expectLikePlain(c, type);
}

TEST(GridAttention, OfLongRowsThatSeeTheirPast) { // the first chunks have fewer keys
  expectLikePlain({"", 300, 300, 4, 4, "", true}, DType::F32);
  expectLikePlain({"", 300, 300, 4, 4, "[300]", true}, DType::BF16);
}

TEST(GridAttention, OfNothing) {
  for (const Case &c : {Case{"2, ", 0, 5, 4, 3, "", false}, Case{"2, ", 5, 0, 4, 3, "", true},
                        Case{"0, ", 3, 5, 4, 3, "[5]", false}, Case{"2, ", 3, 5, 0, 2, "", false},
                        Case{"2, ", 3, 5, 2, 0, "", false}})
    for (DType type : {DType::F64, DType::F16})
      expectLikePlain(c, type);
}

TEST(GridAttention, OfARowThatSeesNoKeyIsZero) {
  auto e = parseExample("attention(f32[2, 3], f32[4, 3], f32[4, 2], f32[2, 4]) {scale = 1}");
  auto operands = drawOperands(*e);
  const double inf = INFINITY;
  operands[3] = fromDoubles(operands[3].type, {-inf, -inf, -inf, -inf, 0, -inf, 0, 0});
  for (auto [size, table] : tables()) {
    SCOPED_TRACE(size);
    expectWhatPlainGives(e->call, operands, *table);
    auto y = llvm::cantFail(interpretCall(*table, e->call, operands, kOptions));
    EXPECT_TRUE(toDoubles(y[0])[0] == 0 && toDoubles(y[0])[1] == 0);
    EXPECT_NE(toDoubles(y[0])[2], 0);
    EXPECT_EQ(toDoubles(y[1])[0], -inf);
  }
}

// If a library's product fails, our own product runs instead. The result must be the same, and a
// note is given.
class Failing : public PreparedKernel {
public:
  explicit Failing(const cuda::Queue &queue) : queue_(queue) { library = "a library"; }
  void run(const KernelArgs &) override { queue_.failure = "no"; }

private:
  const cuda::Queue &queue_;
};

TEST(GridAttention, RunsOnOurOwnProductsWhereALibrarysFail) {
  auto e = parseExample("attention(f32[2, 5, 3], f32[2, 4, 3], f32[2, 4, 2]) {scale = 1}");
  auto operands = drawOperands(*e);
  auto want = llvm::cantFail(interpretCall(plainKernels(), e->call, operands, kOptions));
  cuda::Queue queue;
  queue.prepareProduct = [](const OpCall &, const cuda::Queue &q,
                            int64_t) -> std::unique_ptr<PreparedKernel> {
    return std::make_unique<Failing>(q);
  };
  KernelOptions options;
  options.queue = &queue;
  auto kernel = llvm::cantFail(gridKernels().prepare(e->call, options));
  EXPECT_FALSE(kernel->isSubstitute());
  std::vector<Tensor> results;
  llvm::SmallVector<const void *, 4> in;
  llvm::SmallVector<void *, 4> out;
  for (const Tensor &t : operands)
    in.push_back(t.data);
  for (const Tensor &t : want) {
    results.push_back(Tensor::make(t.type, [](char *) {}));
    out.push_back(const_cast<char *>(results.back().data));
  }
  Tensor workspace = Tensor::make(Type(DType::U8, {kernel->workspaceBytes()}), [](char *) {});
  kernel->run({in, out, const_cast<char *>(workspace.data), nullptr});
  for (size_t r = 0; r < want.size(); ++r)
    expectClose(results[r], want[r]);
  EXPECT_TRUE(kernel->isSubstitute());
  EXPECT_EQ(queue.failure, nullptr);
  ASSERT_EQ(queue.notes.size(), 2u); // for the scores, and for the weighted values
  EXPECT_EQ(queue.notes[0], "matmul(f32[2, 5, 3], f32[2, 4, 3]): a library fails (no), so our own "
                            "kernel, which is slow, runs");
}

} // namespace
} // namespace isthmus::testing
