#include "ir/onnx/symbols.h"

#include "ir/onnx/tensor_data.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

namespace isthmus::onnx_import {
namespace {

using Dimension = onnx::TensorShapeProto::Dimension;

// The name under which a size is bound, or nothing if it is a number. For unknown sizes some
// writers put -1, and some the name "?" everywhere; both count as unnamed.
std::optional<std::string> symbolOf(const Dimension &d, const std::string &input, int axis) {
  if (d.has_dim_value() && d.dim_value() >= 0)
    return std::nullopt;
  if (d.has_dim_param() && !d.dim_param().empty() && d.dim_param() != "?")
    return d.dim_param();
  return input + "." + std::to_string(axis);
}

// Sizes from --dim, and otherwise from the shapes of given values. Shapes that disagree are
// reported when the values are fed.
std::map<std::string, int64_t> sizes(const Model &m, const OnnxOptions &options) {
  std::map<std::string, int64_t> all = options.dims;
  for (const onnx::ValueInfoProto &v : m.graph().input()) {
    const Tensor *given = givenValue(options, v.name());
    const auto &shape = v.type().tensor_type().shape();
    if (!given || given->type.rank() != shape.dim_size())
      continue;
    for (int i = 0; i < shape.dim_size(); ++i)
      if (auto symbol = symbolOf(shape.dim(i), v.name(), i))
        all.try_emplace(*symbol, given->type.dims[size_t(i)]);
  }
  return all;
}

llvm::Error unbound(const std::vector<std::string> &names) {
  std::string list;
  for (const std::string &n : names)
    list += (list.empty() ? "'" : ", '") + n + "'";
  llvm::Error e =
      makeError("the model leaves the size{0} {1} open", names.size() == 1 ? "" : "s", list);
  for (const std::string &n : names)
    e = addRemedy(std::move(e), {"dim", n + "=...", ""});
  return e;
}

// Every bound name must be an open size of the model, unless somebody asks for those that are not.
llvm::Error checkNames(const OnnxOptions &options, const std::map<std::string, int64_t> &symbols) {
  std::vector<llvm::StringRef> names;
  for (const auto &[name, size] : symbols)
    names.push_back(name);
  for (const auto &[name, size] : options.dims)
    if (symbols.count(name)) {
      continue;
    } else if (options.lacksDim) {
      options.lacksDim(name);
    } else {
      std::string has = names.empty() ? "none" : "'" + llvm::join(names, "', '") + "'";
      return makeError("no open size of the model is called '{0}'; there {1} {2}{3}", name,
                       names.size() > 1 ? "are" : "is", has, didYouMean(name, names));
    }
  return llvm::Error::success();
}

} // namespace

const Tensor *givenValue(const OnnxOptions &options, llvm::StringRef input) {
  return options.inputValue ? options.inputValue(input) : nullptr;
}

llvm::Expected<BoundInputs> bindInputs(const Model &m, const OnnxOptions &options) {
  llvm::StringSet<> initializers;
  for (const onnx::TensorProto &t : m.graph().initializer())
    initializers.insert(t.name());

  BoundInputs bound;
  std::vector<std::string> missing;
  std::map<std::string, int64_t> sizeOf = sizes(m, options);
  for (const onnx::ValueInfoProto &v : m.graph().input()) {
    if (initializers.count(v.name()))
      continue;
    if (!v.type().has_tensor_type())
      return makeError(
          "input '{0}' is no tensor; sequences, maps and optional values are not supported",
          v.name());
    const onnx::TypeProto::Tensor &t = v.type().tensor_type();
    auto dtype = elementType(t.elem_type());
    if (!dtype)
      return makeError("input '{0}': {1}", v.name(), llvm::toString(dtype.takeError()));
    if (!t.has_shape())
      return makeError(
          "input '{0}' has no shape; even its number of axes is open, which is not supported",
          v.name());
    if (t.shape().dim_size() > kMaxRank)
      return makeError("input '{0}' has {1} axes; at most {2} are supported", v.name(),
                       t.shape().dim_size(), kMaxRank);
    Type type(*dtype, {});
    for (int i = 0; i < t.shape().dim_size(); ++i) {
      const Dimension &d = t.shape().dim(i);
      auto symbol = symbolOf(d, v.name(), i);
      if (!symbol) {
        type.dims.push_back(d.dim_value());
        continue;
      }
      auto it = sizeOf.find(*symbol);
      if (it == sizeOf.end() && !llvm::is_contained(missing, *symbol))
        missing.push_back(*symbol);
      if (it != sizeOf.end() && it->second < 1 && options.dims.count(*symbol))
        return makeError("expects a size of 1 or more for '{0}', got {1}", *symbol, it->second);
      type.dims.push_back(it == sizeOf.end() ? 1 : it->second);
      bound.symbols[*symbol] = type.dims.back();
    }
    if (!type.isValid())
      return makeError("input '{0}' would have over 2^60 bytes: {1}", v.name(), type.str());
    bound.inputs.push_back({v.name(), type});
  }
  if (llvm::Error e = checkNames(options, bound.symbols))
    return e;
  if (!missing.empty())
    return unbound(missing);
  return bound;
}

std::vector<std::string> batchSizes(const Model &m) {
  llvm::StringSet<> initializers;
  for (const onnx::TensorProto &t : m.graph().initializer())
    initializers.insert(t.name());
  std::vector<std::string> out;
  for (const onnx::ValueInfoProto &v : m.graph().input()) {
    const auto &shape = v.type().tensor_type().shape();
    if (initializers.count(v.name()) || shape.dim_size() == 0)
      continue;
    auto symbol = symbolOf(shape.dim(0), v.name(), 0);
    const bool isUnnamed = symbol && *symbol == v.name() + ".0";
    if (symbol && (out.empty() || isUnnamed) && !llvm::is_contained(out, *symbol))
      out.push_back(*symbol);
  }
  return out;
}

} // namespace isthmus::onnx_import
