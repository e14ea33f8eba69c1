// Compares our GPU kernels, compiled for the CPU as loops or with emulated threads, with the plain
// kernels.
#pragma once

#include "kernels/cuda/register.h"
#include "kernels/cuda/threads.h"
#include "kernels/plain/register.h"
#include "tests/testing/example.h"
#include "tests/testing/interpret.h"
#include <cmath>
#include <gtest/gtest.h>

namespace isthmus::testing {

inline const KernelTable &gridKernels() {
  static const KernelTable *table = [] {
    auto *t = new KernelTable;
    cuda::registerGridKernels(*t);
    return t;
  }();
  return *table;
}

constexpr InterpretOptions kOptions = {1, {7, 3}};
constexpr DType kFloats[] = {DType::F64, DType::F32, DType::F16, DType::BF16};

// The tolerance for sums in another order, relative to the largest element of a result.
inline double toleranceOf(DType t) {
  switch (t) {
  case DType::F64:
    return 1e-12;
  case DType::F32:
    return 2e-5;
  case DType::F16:
    return 4e-3;
  case DType::BF16:
    return 3e-2;
  default:
    return 0;
  }
}

inline void expectClose(const Tensor &got, const Tensor &want) {
  ASSERT_EQ(got.type, want.type);
  if (sameBits(got, want))
    return;
  std::vector<double> a = toDoubles(got), b = toDoubles(want);
  double largest = 0;
  for (double v : b)
    largest = std::isfinite(v) ? std::max(largest, std::fabs(v)) : largest;
  for (size_t i = 0; i < a.size(); ++i)
    ASSERT_TRUE(a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])) ||
                std::fabs(a[i] - b[i]) <= toleranceOf(got.type.dtype) * largest)
        << "element " << i << ": " << a[i] << ", expected " << b[i];
}

// The call with f64 replaced by another type; null if the op does not accept that type.
inline std::unique_ptr<Example> inType(const std::string &text, DType t) {
  auto e = parseExample(text);
  for (Type &operand : e->text.operands)
    if (operand.dtype == DType::F64)
      operand = operand.with(t);
  e->call.operands.assign(e->text.operands.begin(), e->text.operands.end());
  auto results = inferTypes(*e->text.op, e->text.attrs, e->text.operands);
  if (!results) {
    llvm::consumeError(results.takeError());
    return nullptr;
  }
  e->call.results.assign(results->begin(), results->end());
  return e;
}

// If threads are emulated, runs blocks, and the threads of a block, in another order.
class ThreadsInOrder {
public:
  explicit ThreadsInOrder([[maybe_unused]] uint64_t order) {
#ifdef ISTHMUS_EMULATED_THREADS
    cuda::emulateInOrder(order);
#endif
  }
  ThreadsInOrder(const ThreadsInOrder &) = delete;
  ~ThreadsInOrder() {
#ifdef ISTHMUS_EMULATED_THREADS
    cuda::emulateInOrder(0);
#endif
  }
};
#ifdef ISTHMUS_EMULATED_THREADS
constexpr uint64_t kOrders = 3; // ascending, descending and random
#else
constexpr uint64_t kOrders = 1;
#endif

// The order in which threads run must not change a bit.
inline void expectNoOrder(const OpCall &call, llvm::ArrayRef<Tensor> operands,
                          llvm::ArrayRef<Tensor> want, const KernelTable &table) {
  for (uint64_t order = 1; order < kOrders; ++order) {
    ThreadsInOrder emulated(order);
    auto got = llvm::cantFail(interpretCall(table, call, operands, kOptions));
    for (size_t r = 0; r < want.size(); ++r)
      EXPECT_TRUE(sameBits(got[r], want[r]))
          << "result " << r << " with threads in order " << order;
  }
}

inline void expectWhatPlainGives(const OpCall &call, llvm::ArrayRef<Tensor> operands,
                                 const KernelTable &table = gridKernels()) {
  auto want = interpretCall(plainKernels(), call, operands, kOptions);
  if (!want) { // no device has a kernel for this type
    llvm::consumeError(want.takeError());
    return;
  }
  auto got = interpretCall(table, call, operands, kOptions);
  ASSERT_TRUE(bool(got)) << llvm::toString(got.takeError());
  for (size_t r = 0; r < want->size(); ++r)
    expectClose((*got)[r], (*want)[r]);
  expectNoOrder(call, operands, *got, table);
}

// Places each result over every operand that it may overwrite, and expects the same bits as with
// separate memory.
inline void expectSameInPlace(const OpCall &call, llvm::ArrayRef<Tensor> operands,
                              const KernelTable &table = gridKernels()) {
  for (const InPlace &place : call.op->inPlace) {
    if (place.operand >= call.operands.size() || place.result >= call.results.size() ||
        call.operands[place.operand].bytes() != call.results[place.result].bytes())
      continue;
    auto want = llvm::cantFail(interpretCall(table, call, operands, kOptions));
    auto kernel = llvm::cantFail(table.prepare(call, {}));
    std::vector<Tensor> results;
    llvm::SmallVector<const void *, 4> in;
    llvm::SmallVector<void *, 4> out;
    for (const Tensor &t : operands)
      in.push_back(t.data);
    for (size_t r = 0; r < want.size(); ++r) {
      results.push_back(Tensor::make(want[r].type, [&](char *p) {
        if (r == place.result)
          std::memcpy(p, operands[place.operand].data, size_t(operands[place.operand].bytes()));
      }));
      out.push_back(const_cast<char *>(results[r].data));
    }
    in[place.operand] = out[place.result];
    Tensor workspace = Tensor::make(Type(DType::U8, {kernel->workspaceBytes()}), [](char *) {});
    ThreadsInOrder emulated(kOrders - 1);
    kernel->run({in, out, const_cast<char *>(workspace.data), &kOptions.random});
    for (size_t r = 0; r < want.size(); ++r)
      EXPECT_TRUE(sameBits(results[r], want[r]))
          << "result " << place.result << " over operand " << place.operand;
  }
}

// Makes both checks for a call of the op table's examples, with f64 replaced by each of `types`.
inline void expectLikePlain(const std::string &text, llvm::ArrayRef<DType> types = kFloats) {
  for (DType t : types) {
    SCOPED_TRACE(text + " in " + dtypeName(t).str());
    auto e = inType(text, t);
    if (!e)
      continue;
    auto operands = drawOperands(*e);
    expectWhatPlainGives(e->call, operands);
    expectSameInPlace(e->call, operands);
  }
}

} // namespace isthmus::testing
