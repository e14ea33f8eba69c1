// One call of an op on host memory, for tests that run kernels directly.
#pragma once

#include "ir/op_registry.h"
#include "ir/ops/channels.h"
#include "runtime/kernel.h"
#include "gtest/gtest.h"
#include <cstring>
#include <random>

namespace isthmus::testing {

// Bytes on a 64-byte boundary between two guard regions, which show writes out of bounds.
class Guarded {
public:
  explicit Guarded(int64_t bytes)
      : bytes_(bytes), all_(static_cast<size_t>(bytes) + 2 * kWall + 64) {
    auto at = reinterpret_cast<uintptr_t>(all_.data()) + kWall;
    data_ = reinterpret_cast<char *>((at + 63) / 64 * 64);
    std::memset(data_ - kWall, 0x5a, kWall);
    std::memset(data_ + bytes_, 0x5a, kWall);
    // As floats these bytes are NaN, so that reads of unwritten elements are visible.
    std::memset(data_, 0xff, static_cast<size_t>(bytes));
  }
  Guarded(const Guarded &o) : Guarded(o.bytes_) { std::memcpy(data_, o.data_, size_t(bytes_)); }
  Guarded(Guarded &&) = default; // the bytes stay where they are
  char *data() { return data_; }
  const char *data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  template <typename T> T *as() { return reinterpret_cast<T *>(data_); }
  template <typename T> const T *as() const { return reinterpret_cast<const T *>(data_); }
  bool intact() const {
    for (int64_t i = 0; i < kWall; ++i)
      if (data_[-1 - i] != 0x5a || data_[bytes_ + i] != 0x5a)
        return false;
    return true;
  }
  bool sameBytes(const Guarded &o) const {
    return bytes_ == o.bytes_ && !std::memcmp(data_, o.data_, size_t(bytes_));
  }

private:
  static constexpr int64_t kWall = 256;
  int64_t bytes_;
  std::vector<char> all_;
  char *data_;
};

// Completes the attributes and infers the types. A call that the row rejects fails the test.
class Call {
public:
  Call(llvm::StringRef op, std::vector<Type> operands, Attrs given = {}) : attrs(std::move(given)) {
    call.op = &OpRegistry::get().at(op);
    if (llvm::Error e = completeAttrs(*call.op, attrs))
      ADD_FAILURE() << llvm::toString(std::move(e));
    call.attrs = &attrs;
    call.operands.assign(operands.begin(), operands.end());
    auto types = inferTypes(*call.op, attrs, operands);
    if (!types)
      ADD_FAILURE() << llvm::toString(types.takeError());
    else
      call.results = *types;
    for (const Type &t : call.operands)
      in.emplace_back(t.bytes());
    for (const Type &t : call.results)
      out.emplace_back(t.bytes());
  }
  Call(const Call &) = delete;

  Attrs attrs;
  OpCall call;
  std::vector<Guarded> in, out;
  RandomKey random; // that random ops draw by

  // Draws floats uniformly from [low, high), and integers from [0, bound).
  void draw(uint64_t seed, double low = -1, double high = 1) {
    std::mt19937_64 random(seed);
    for (size_t i = 0; i < in.size(); ++i) {
      auto bound = call.op->indexBound ? call.op->indexBound(call, i) : std::nullopt;
      for (int64_t k = 0; k < call.operands[i].elements(); ++k) {
        double v = std::uniform_real_distribution<double>(low, high)(random);
        int64_t n = int64_t(random() % uint64_t(bound ? std::max<int64_t>(1, *bound) : 8));
        switch (call.operands[i].dtype) {
        case DType::F32:
          in[i].as<float>()[k] = float(v);
          break;
        case DType::F64:
          in[i].as<double>()[k] = v;
          break;
        case DType::BF16:
          in[i].as<uint16_t>()[k] = uint16_t(std::bit_cast<uint32_t>(float(v)) >> 16);
          break;
        case DType::I32:
          in[i].as<int32_t>()[k] = int32_t(n);
          break;
        case DType::I64:
          in[i].as<int64_t>()[k] = n;
          break;
        default:
          ADD_FAILURE() << "drawing " << dtypeName(call.operands[i].dtype).str();
          return;
        }
      }
    }
  }

  // Runs the prepared kernel. The test fails if it writes out of bounds.
  void run(PreparedKernel &kernel) {
    Guarded workspace(kernel.workspaceBytes());
    llvm::SmallVector<const void *, 4> operands;
    llvm::SmallVector<void *, 4> results;
    for (Guarded &g : in)
      operands.push_back(g.data());
    for (Guarded &g : out)
      results.push_back(g.data());
    KernelArgs args;
    args.operands = operands;
    args.results = results;
    args.workspace = workspace.data();
    args.random = &random;
    kernel.run(args);
    EXPECT_TRUE(workspace.intact()) << text() << " writes beyond its workspace";
    for (Guarded &g : in)
      EXPECT_TRUE(g.intact()) << text();
    for (Guarded &g : out)
      EXPECT_TRUE(g.intact()) << text() << " writes beyond a result";
  }
  void run(const KernelTable &table, int threads = 2) {
    KernelOptions options;
    options.threads = threads;
    auto kernel = table.prepare(call, options);
    if (!kernel)
      ADD_FAILURE() << llvm::toString(kernel.takeError());
    else
      run(**kernel);
  }

  double input(size_t i, int64_t k) const { return at(in[i], call.operands[i].dtype, k); }
  double output(size_t i, int64_t k) const { return at(out[i], call.results[i].dtype, k); }

  std::string text() const {
    std::string s = call.op->name + "(";
    for (const Type &t : call.operands)
      s += (s.back() == '(' ? "" : ", ") + t.str();
    s += ")";
    for (const auto &[name, value] : attrs)
      s += " " + name + "=" + attrText(value);
    return s;
  }

private:
  static double at(const Guarded &g, DType t, int64_t k) {
    switch (t) {
    case DType::F32:
      return g.as<float>()[k];
    case DType::F64:
      return g.as<double>()[k];
    case DType::BF16:
      return std::bit_cast<float>(uint32_t(g.as<uint16_t>()[k]) << 16);
    case DType::I32:
      return g.as<int32_t>()[k];
    case DType::I64:
      return double(g.as<int64_t>()[k]);
    default:
      ADD_FAILURE() << "reading " << dtypeName(t).str();
      return 0;
    }
  }
};

// Copies a tensor of type `t` from channels on axis 1 to channels last, or back.
inline void moveChannels(const Type &t, const Guarded &from, Guarded &to, bool back = false) {
  int64_t width = dtypeBytes(t.dtype), images = t.rank() > 2 ? t.dims[0] : 1;
  int64_t channels = t.rank() > 2 ? t.dims[1] : 1;
  int64_t pixels = t.elements() / std::max<int64_t>(1, images * channels);
  for (int64_t n = 0; n < images; ++n)
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t p = 0; p < pixels; ++p) {
        int64_t first = (n * channels + c) * pixels + p, last = (n * pixels + p) * channels + c;
        std::memcpy(to.data() + (back ? first : last) * width,
                    from.data() + (back ? last : first) * width, size_t(width));
      }
}

// The same call on the same inputs, with channels last.
inline std::unique_ptr<Call> withChannelsLast(const Call &c) {
  std::vector<Type> types;
  for (const Type &t : c.call.operands)
    types.push_back(channelsLast(t));
  Attrs attrs = c.attrs;
  attrs.set(kChannelsLast, true);
  auto last = std::make_unique<Call>(c.call.op->name, types, attrs);
  for (size_t i = 0; i < types.size(); ++i)
    moveChannels(c.call.operands[i], c.in[i], last->in[i]);
  return last;
}

// The largest difference between two results, divided by the largest magnitude in `want`.
inline double relativeError(const Call &got, const Call &want, size_t result) {
  double most = 0, scale = 1e-30;
  for (int64_t k = 0; k < want.call.results[result].elements(); ++k) {
    double d = std::abs(got.output(result, k) - want.output(result, k));
    most = d > most || d != d ? d : most;
    scale = std::max(scale, std::abs(want.output(result, k)));
  }
  return most / scale;
}

} // namespace isthmus::testing
