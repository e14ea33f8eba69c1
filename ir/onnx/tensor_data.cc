#include "ir/onnx/tensor_data.h"

#include "ir/diagnostics.h"
#include "ir/element.h"
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

namespace isthmus::onnx_import {
namespace {

using Proto = onnx::TensorProto;

// The repeated field that holds a type's elements when they are not raw bytes. Several types share
// one.
enum class Field { None, Float, Double, Int32, Int64 };

struct ElementType {
  int onnxType;
  llvm::StringRef name;
  std::optional<DType> dtype;
  Field field = Field::None;
};

constexpr ElementType kTypes[] = {
    {Proto::FLOAT, "float", DType::F32, Field::Float},
    {Proto::DOUBLE, "double", DType::F64, Field::Double},
    {Proto::FLOAT16, "float16", DType::F16, Field::Int32},
    {Proto::BFLOAT16, "bfloat16", DType::BF16, Field::Int32},
    {Proto::INT32, "int32", DType::I32, Field::Int32},
    {Proto::INT64, "int64", DType::I64, Field::Int64},
    {Proto::UINT8, "uint8", DType::U8, Field::Int32},
    {Proto::BOOL, "bool", DType::Bool, Field::Int32},
    {Proto::INT8, "int8", {}},
    {Proto::INT16, "int16", {}},
    {Proto::UINT16, "uint16", {}},
    {Proto::UINT32, "uint32", {}},
    {Proto::UINT64, "uint64", {}},
    {Proto::STRING, "string", {}},
    {Proto::COMPLEX64, "complex64", {}},
    {Proto::COMPLEX128, "complex128", {}},
};

const ElementType *findType(int32_t onnxType) {
  for (const ElementType &t : kTypes)
    if (t.onnxType == onnxType)
      return &t;
  return nullptr;
}

// Copies `n` values of a repeated field into elements of type To.
template <typename To, typename Values> void convertInto(char *out, const Values &values) {
  for (int i = 0; i < values.size(); ++i) {
    To v = static_cast<To>(values.Get(i));
    std::memcpy(out + size_t(i) * sizeof(To), &v, sizeof(To));
  }
}

llvm::Error wrongCount(const Type &type, int64_t got, const char *unit) {
  return makeError("expects {0} elements ({1} bytes) for '{2}', got {3} {4}", type.elements(),
                   type.bytes(), type.str(), got, unit);
}

llvm::Expected<Tensor> fromTypedField(const Proto &t, const Type &type, Field field) {
  auto make = [&](const auto &values, auto convert) -> llvm::Expected<Tensor> {
    if (values.size() != type.elements())
      return wrongCount(type, values.size(), "values");
    return Tensor::make(type, [&](char *out) { convert(out, values); });
  };
  switch (field) {
  case Field::Float:
    return make(t.float_data(), [](char *out, const auto &v) { convertInto<float>(out, v); });
  case Field::Double:
    return make(t.double_data(), [](char *out, const auto &v) { convertInto<double>(out, v); });
  case Field::Int64:
    return make(t.int64_data(), [](char *out, const auto &v) { convertInto<int64_t>(out, v); });
  default:
    return make(t.int32_data(), [&](char *out, const auto &v) {
      switch (type.dtype) {
      case DType::I32:
        return convertInto<int32_t>(out, v);
      case DType::U8:
        return convertInto<uint8_t>(out, v);
      case DType::Bool:
        return convertInto<bool>(out, v);
      default: // f16 and bf16: their bits, in the low half
        return convertInto<uint16_t>(out, v);
      }
    });
  }
}

// A tensor whose bytes `owner` keeps alive. They are copied only if they are misaligned for the
// element type, or if a bool is neither 0 nor 1.
Tensor fromBytes(const Type &type, std::shared_ptr<const void> owner, const char *data) {
  bool aligned = reinterpret_cast<uintptr_t>(data) % uint64_t(dtypeBytes(type.dtype)) == 0;
  bool clean = type.dtype != DType::Bool ||
               std::all_of(data, data + type.bytes(), [](char c) { return c == 0 || c == 1; });
  if (aligned && clean)
    return Tensor{type, std::move(owner), data};
  return Tensor::make(type, [&](char *out) {
    std::memcpy(out, data, size_t(type.bytes()));
    if (!clean)
      std::transform(out, out + type.bytes(), out, [](char c) { return char(c != 0); });
  });
}

llvm::Expected<int64_t> externalNumber(llvm::StringRef key, llvm::StringRef text) {
  int64_t n;
  if (text.getAsInteger(10, n) || n < 0)
    return makeError("expects a number of bytes as '{0}' of external data, got '{1}'", key, text);
  return n;
}

llvm::Expected<Tensor> fromExternal(const Proto &t, const Type &type, ExternalFiles &files) {
  std::string location;
  int64_t offset = 0, length = type.bytes();
  for (const onnx::StringStringEntryProto &e : t.external_data()) {
    if (e.key() == "location")
      location = e.value();
    if (e.key() != "offset" && e.key() != "length")
      continue;
    auto n = externalNumber(e.key(), e.value());
    if (!n)
      return n.takeError();
    (e.key() == "offset" ? offset : length) = *n;
  }
  if (length != type.bytes())
    return wrongCount(type, length, "bytes of external data");
  auto file = files.open(location);
  if (!file)
    return file.takeError();
  const auto size = int64_t((*file)->source->size());
  if (offset > size || length > size - offset)
    return makeError(
        "its external data ends at byte {0} of '{1}', which has {2}; is the file cut short?",
        uint64_t(offset) + uint64_t(length), location, size);
  return (*file)->read.at(*(*file)->source, type, uint64_t(offset));
}

} // namespace

bool isFloatType(int32_t onnxType) {
  const ElementType *t = findType(onnxType);
  return t && t->dtype && isFloat(*t->dtype);
}

llvm::Expected<DType> elementType(int32_t onnxType) {
  const ElementType *t = findType(onnxType);
  if (t && t->dtype)
    return *t->dtype;
  std::string supported;
  for (const ElementType &each : kTypes)
    if (each.dtype)
      supported += (supported.empty() ? "" : ", ") + each.name.str();
  std::string got = "number " + std::to_string(onnxType);
  if (t)
    got = "'" + t->name.str() + "'";
  else if (Proto::DataType_IsValid(onnxType)) // such as FLOAT8E5M2
    got = "'" + llvm::StringRef(Proto::DataType_Name(Proto::DataType(onnxType))).lower() + "'";
  return makeError("element type {0} is not supported; supported are {1}", got, supported);
}

llvm::Expected<ExternalFiles::File *> ExternalFiles::open(const std::string &location) {
  auto known = files_.find(location);
  if (known != files_.end() && known->second.source)
    return &known->second;
  if (folder_.empty())
    return makeError(
        "its data is in another file, '{0}', and this model was not read from a folder", location);
  auto source = openFileBeside(folder_, location, outside_);
  if (!source)
    return llvm::handleErrors(source.takeError(), [](std::unique_ptr<DiagError> e) -> llvm::Error {
      for (Diag &d : e->diags)
        d.message = "its external data: " + d.message;
      return llvm::Error(std::move(e));
    });
  if (onOpen_ && known == files_.end())
    onOpen_(pathBeside(folder_ + "/", location));
  if (numOpen_ == kMostOpen) {
    for (auto &each : files_)
      each.second.source.reset();
    numOpen_ = 0;
  }
  File &file = files_[location];
  file.source = std::move(*source);
  ++numOpen_;
  return &file;
}

llvm::Expected<Type> typeOf(const Proto &t) {
  auto dtype = elementType(t.data_type());
  if (!dtype)
    return dtype.takeError();
  if (t.dims_size() > kMaxRank)
    return makeError("expects at most {0} dimensions, got {1}", kMaxRank, t.dims_size());
  Type type(*dtype, llvm::makeArrayRef(t.dims().data(), size_t(t.dims_size())));
  if (!type.isValid())
    return makeError("has a negative size or one over 2^60 bytes: {0}", type.str());
  return type;
}

llvm::Expected<Tensor> decodeTensor(Proto &t, ExternalFiles &files) {
  auto type = typeOf(t);
  if (!type)
    return type.takeError();
  if (t.has_segment())
    return makeError("is stored in segments, which no exporter writes; store it whole");
  if (t.data_location() == Proto::EXTERNAL)
    return fromExternal(t, *type, files);
  if (!t.has_raw_data())
    return fromTypedField(t, *type, findType(t.data_type())->field);
  if (int64_t(t.raw_data().size()) != type->bytes())
    return wrongCount(*type, int64_t(t.raw_data().size()), "bytes");
  auto bytes = std::shared_ptr<std::string>(t.release_raw_data());
  return fromBytes(*type, bytes, bytes->data());
}

Tensor intsTensor(llvm::ArrayRef<int64_t> values) {
  return Tensor::make(Type(DType::I64, {int64_t(values.size())}), [&](char *out) {
    if (!values.empty())
      std::memcpy(out, values.data(), values.size() * sizeof(int64_t));
  });
}

Tensor scalarTensor(DType dtype, double value) { return floatsTensor(Type(dtype, {}), {value}); }

Tensor floatsTensor(const Type &type, llvm::ArrayRef<double> values) {
  return Tensor::make(type, [&](char *out) {
    for (size_t i = 0; i < values.size(); ++i)
      setElement(type.dtype, out, int64_t(i), values[i]);
  });
}

Tensor filled(const Type &type, llvm::ArrayRef<char> one) {
  return Tensor::make(type, [&](char *out) {
    for (int64_t i = 0, n = type.elements(); i < n; ++i)
      std::memcpy(out + i * int64_t(one.size()), one.data(), one.size());
  });
}

bool repeatsEvery(const Tensor &t, int64_t bytes) {
  return t.bytes() <= bytes || std::memcmp(t.data, t.data + bytes, size_t(t.bytes() - bytes)) == 0;
}

bool allElementsEqual(const Tensor &t) { return repeatsEvery(t, dtypeBytes(t.type.dtype)); }

double shortestDecimal(float f) {
  if (!std::isfinite(f))
    return f;
  char text[32];
  double d = f;
  auto end = std::to_chars(text, text + sizeof text, f).ptr;
  std::from_chars(text, end, d);
  return d;
}

} // namespace isthmus::onnx_import
