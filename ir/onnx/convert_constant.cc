// Operators whose results are known at import once all sizes are known: constants, shapes, ranges.

#include "ir/onnx/op_table.h"
#include <cmath>
#include <cstring>
#include <type_traits>

namespace isthmus::onnx_import {
namespace {

template <typename T> llvm::ArrayRef<char> bytesOf(const T &v) {
  return llvm::makeArrayRef(reinterpret_cast<const char *>(&v), sizeof v);
}

// The value is in one of several attributes.
void convertConstant(NodeContext &n) {
  for (llvm::StringRef other : {"sparse_value", "value_string", "value_strings"})
    if (n.attr(other))
      return n.fail("attribute '{0}' is not supported", other);
  if (auto t = n.tensorAttr("value")) {
    if (!n.state.isLearned(&n.proto))
      return n.result(0, n.constant(std::move(*t)));
    std::string name = n.scope.graphName(n.proto.output(0));
    return n.result(0, n.state.learnedTensor(&n.proto, name, *t));
  }
  if (n.hasAttr("value_float"))
    return n.result(0, n.scalarConstant(DType::F32, n.floatAttr("value_float", 0)));
  if (n.hasAttr("value_int")) {
    int64_t v = n.intAttr("value_int", 0);
    return n.result(0, n.constant(filled(Type(DType::I64, {}), bytesOf(v))));
  }
  if (auto v = n.intsAttr("value_ints"))
    return n.result(0, n.constant(intsTensor(*v)));
  if (const onnx::AttributeProto *a = n.attr("value_floats")) {
    const auto &v = a->floats();
    return n.result(0, n.constant(Tensor::make(Type(DType::F32, {v.size()}), [&](char *out) {
      std::memcpy(out, v.data(), size_t(v.size()) * sizeof(float));
    })));
  }
  n.fail("has no value");
}

void convertShape(NodeContext &n) {
  const Dims &dims = n.in(0).type.dims;
  int64_t rank = int64_t(dims.size());
  auto place = [&](int64_t at) { // negative positions count from the end; clamped
    return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  int64_t start = place(n.intAttr("start", 0)), end = place(n.intAttr("end", rank));
  llvm::ArrayRef<int64_t> all = dims;
  n.result(0,
           n.constant(intsTensor(all.slice(size_t(start), size_t(std::max(start, end) - start)))));
}

void convertSize(NodeContext &n) {
  int64_t size = n.in(0).type.elements();
  n.result(0, n.constant(filled(Type(DType::I64, {}), bytesOf(size))));
}

void convertConstantOfShape(NodeContext &n) {
  Ints dims = n.ints(0);
  Tensor one = scalarTensor(DType::F32, 0);
  if (auto t = n.tensorAttr("value"))
    one = *t;
  if (n.failed())
    return;
  if (one.type.elements() != 1)
    return n.fail("expects one element in attribute 'value', got '{0}'", one.type.str());
  n.result(0,
           n.full(Type(one.type.dtype, dims), llvm::makeArrayRef(one.data, size_t(one.bytes()))));
}

// The number of elements from `start`, up or down, to before `limit`; none if `delta` has the wrong
// sign.
template <typename T> std::optional<int64_t> rangeLength(T start, T limit, T delta) {
  constexpr int64_t kMost = int64_t(1) << 50;
  if constexpr (std::is_integral_v<T>) {
    __int128 span = __int128(limit) - start, step = delta;
    if ((span > 0) != (step > 0) || span == 0)
      return 0;
    __int128 length = (span + step - (step > 0 ? 1 : -1)) / step;
    return length < kMost ? std::optional<int64_t>(int64_t(length)) : std::nullopt;
  } else {
    double length = std::ceil((double(limit) - double(start)) / double(delta));
    if (!(length < double(kMost))) // also for NaN and infinity
      return std::nullopt;
    return length > 0 ? int64_t(length) : 0;
  }
}

// Element `i` of a range. An integer element lies between start and limit, but the product may
// overflow, so it is computed in unsigned numbers, which wrap around.
template <typename T> T numberOf(T start, T delta, int64_t i) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<uint64_t>(start) +
                          static_cast<uint64_t>(i) * static_cast<uint64_t>(delta));
  else
    return start + static_cast<T>(i) * delta;
}

template <typename T> void range(NodeContext &n, DType dtype) {
  auto value = [&](size_t i) {
    T v;
    std::memcpy(&v, n.known(i)->data, sizeof v);
    return v;
  };
  T start = value(0), limit = value(1), delta = value(2);
  if (delta == 0)
    return n.fail("expects a delta other than 0");
  auto length = rangeLength(start, limit, delta);
  if (!length || !n.state.folding.take(*length * int64_t(sizeof(T))))
    return n.fail("would give more numbers than a model of {0} bytes can be allowed",
                  n.state.model.fileBytes);
  n.result(0, n.constant(Tensor::make(Type(dtype, {*length}), [&](char *out) {
    for (int64_t i = 0; i < *length; ++i) {
      T v = numberOf(start, delta, i);
      std::memcpy(out + size_t(i) * sizeof v, &v, sizeof v);
    }
  })));
}

void rangeOfHalves(NodeContext &n) {
  double start = n.scalar(0), limit = n.scalar(1), delta = n.scalar(2);
  if (delta == 0)
    return n.fail("expects a delta other than 0");
  auto length = rangeLength(start, limit, delta);
  if (!length || !n.state.folding.take(*length * 8))
    return n.fail("would give more numbers than a model of {0} bytes can be allowed",
                  n.state.model.fileBytes);
  Operand wide = n.constant(Tensor::make(Type(DType::F64, {*length}), [&](char *out) {
    for (int64_t i = 0; i < *length; ++i) {
      double v = start + double(i) * delta;
      std::memcpy(out + size_t(i) * sizeof v, &v, sizeof v);
    }
  }));
  n.result(0, n.cast(wide, n.in(0).type.dtype));
}

void convertRange(NodeContext &n) {
  n.ignoreAttrs({"stash_type"}); // 16-bit floats are computed in f64
  for (size_t i = 0; i < 3; ++i) {
    n.scalar(i); // fails unless it is one known number
    if (!n.failed() && n.in(i).type.dtype != n.in(0).type.dtype)
      n.fail("expects operands of one type, got '{0}' and '{1}'", n.in(0).type.str(),
             n.in(i).type.str());
  }
  if (n.failed())
    return;
  switch (DType type = n.in(0).type.dtype) {
  case DType::I64:
    return range<int64_t>(n, type);
  case DType::I32:
    return range<int32_t>(n, type);
  case DType::F32:
    return range<float>(n, type);
  case DType::F64:
    return range<double>(n, type);
  case DType::F16:
  case DType::BF16:
    return rangeOfHalves(n);
  default:
    return n.fail("expects integers of 32 or 64 bits or floats, got '{0}'", dtypeName(type));
  }
}

// Ones on a diagonal: the intersection of two triangles.
void convertEyeLike(NodeContext &n) {
  Type type = n.in(0).type.with(n.typeAttr("dtype", n.in(0).type.dtype));
  int64_t k = n.intAttr("k", 0);
  if (type.rank() != 2)
    return n.fail("expects an operand of rank 2, got '{0}'", type.str());
  Operand upper = n.emit("trilu", {n.full(type, 1)}, {{"k", k}, {"upper", true}});
  n.result(0, n.emit("trilu", {upper}, {{"k", k}, {"upper", false}}));
}

// The indices of the nonzero elements, one row for each dimension.
void convertNonZero(NodeContext &n) {
  const Operand &x = n.in(0);
  const Tensor *elements = n.known(0); // the size of the result depends on them
  if (!elements)
    return;
  int64_t rank = x.type.rank(), size = x.type.elements();
  if (!n.state.folding.look(size))
    return n.fail("has an operand that is too large, '{0}'", x.type.str());
  std::vector<int64_t> found;
  for (int64_t i = 0; i < size; ++i)
    if (elementAsDouble(*elements, i) != 0)
      found.push_back(i);
  int64_t count = int64_t(found.size());
  Type type(DType::I64, {rank, count});
  if (!n.state.folding.take(type.bytes()))
    return n.fail("would give more indices than a model of {0} bytes can be allowed",
                  n.state.model.fileBytes);
  n.result(0, n.constant(Tensor::make(type, [&](char *out) {
    for (int64_t axis = rank - 1; axis >= 0; --axis)
      for (int64_t i = 0; i < count; ++i) {
        int64_t d = x.type.dims[size_t(axis)], index = found[size_t(i)] % d;
        found[size_t(i)] /= d;
        std::memcpy(out + (axis * count + i) * 8, &index, 8);
      }
  })));
}

constexpr OnnxOp kOps[] = {
    {"Constant", 1, 0, 0, 1, convertConstant},
    {"Shape", 1, 1, 1, 1, convertShape, kAllOperands},
    {"Size", 1, 1, 1, 1, convertSize, kAllOperands},
    {"ConstantOfShape", 9, 1, 1, 1, convertConstantOfShape, kAllOperands},
    {"Range", 11, 3, 3, 1, convertRange, kAllOperands},
    {"EyeLike", 9, 1, 1, 1, convertEyeLike, kAllOperands},
    {"NonZero", 9, 1, 1, 1, convertNonZero, kAllOperands},
};

} // namespace

OpRows constantOps() { return kOps; }

} // namespace isthmus::onnx_import
