#include "ir/onnx/rows.h"

#include "ir/onnx/tensor_data.h"
#include "ir/op_registry.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/xxhash.h"

namespace isthmus::onnx_rows {

void setMeta(Metadata &m, llvm::StringRef key, llvm::StringRef value) {
  onnx::StringStringEntryProto &e = *m.Add();
  e.set_key(key.str());
  e.set_value(value.str());
}

llvm::StringRef getMeta(const Metadata &m, llvm::StringRef key) {
  for (const onnx::StringStringEntryProto &e : m)
    if (e.key() == key)
      return e.value();
  return "";
}

const OpDef *rowOf(llvm::StringRef opType) {
  auto [name, number] = opType.split('.');
  unsigned n;
  if (!number.empty() && number.getAsInteger(10, n))
    return nullptr;
  return OpRegistry::get().find(name);
}

// --- Attributes

namespace {

// Whether an f32 attribute restores the number exactly.
bool isFloat32(double d) { return onnx_import::shortestDecimal(float(d)) == d; }

void setDoubles(onnx::AttributeProto &a, llvm::ArrayRef<double> values, bool isList) {
  a.set_type(onnx::AttributeProto::TENSOR);
  onnx::TensorProto &t = *a.mutable_t();
  t.set_data_type(onnx::TensorProto::DOUBLE);
  if (isList)
    t.add_dims(int64_t(values.size()));
  t.mutable_double_data()->Add(values.begin(), values.end());
}

void writeAttr(const Attr &value, onnx::AttributeProto &a) {
  switch (kindOf(value)) {
  case AttrKind::Bool:
    a.set_type(onnx::AttributeProto::INT);
    return a.set_i(std::get<bool>(value));
  case AttrKind::Int:
    a.set_type(onnx::AttributeProto::INT);
    return a.set_i(std::get<int64_t>(value));
  case AttrKind::Float: {
    double d = std::get<double>(value);
    if (!isFloat32(d))
      return setDoubles(a, d, /*isList=*/false);
    a.set_type(onnx::AttributeProto::FLOAT);
    return a.set_f(float(d));
  }
  case AttrKind::String:
    a.set_type(onnx::AttributeProto::STRING);
    return a.set_s(std::get<std::string>(value));
  case AttrKind::IntList: {
    const Ints &ints = std::get<Ints>(value);
    a.set_type(onnx::AttributeProto::INTS);
    a.mutable_ints()->Add(ints.begin(), ints.end());
    return;
  }
  case AttrKind::FloatList: {
    const Floats &floats = std::get<Floats>(value);
    if (!llvm::all_of(floats, isFloat32))
      return setDoubles(a, floats, /*isList=*/true);
    a.set_type(onnx::AttributeProto::FLOATS);
    for (double d : floats)
      a.add_floats(float(d));
  }
  }
}

std::optional<Attr> readAttr(const onnx::AttributeProto &a, AttrKind want) {
  switch (a.type()) {
  case onnx::AttributeProto::INT:
    return want == AttrKind::Bool ? Attr(a.i() != 0) : Attr(int64_t(a.i()));
  case onnx::AttributeProto::FLOAT:
    return Attr(onnx_import::shortestDecimal(a.f()));
  case onnx::AttributeProto::STRING:
    return Attr(a.s());
  case onnx::AttributeProto::INTS:
    return Attr(Ints(a.ints().begin(), a.ints().end()));
  case onnx::AttributeProto::FLOATS: {
    Floats all;
    for (float f : a.floats())
      all.push_back(onnx_import::shortestDecimal(f));
    return Attr(std::move(all));
  }
  case onnx::AttributeProto::TENSOR: {
    const auto &d = a.t().double_data();
    if (a.t().data_type() != onnx::TensorProto::DOUBLE)
      return std::nullopt;
    if (a.t().dims_size() == 0 && d.size() == 1)
      return Attr(d[0]);
    if (a.t().dims_size() == 1 && d.size() == a.t().dims(0))
      return Attr(Floats(d.begin(), d.end()));
    return std::nullopt;
  }
  default:
    return std::nullopt;
  }
}

} // namespace

void writeAttrs(const Attrs &attrs, onnx::NodeProto &n) {
  for (const auto &[name, value] : attrs) {
    onnx::AttributeProto &a = *n.add_attribute();
    a.set_name(name);
    writeAttr(value, a);
  }
}

llvm::Expected<Attrs> readAttrs(const OpDef &op, const onnx::NodeProto &n) {
  Attrs attrs;
  for (const onnx::AttributeProto &a : n.attribute()) {
    const AttrDef *def = op.attr(a.name());
    auto value = readAttr(a, def ? def->kind : AttrKind::Int);
    if (!value)
      return makeError("attribute '{0}' is of a kind that no row has", a.name());
    attrs.set(a.name(), std::move(*value));
  }
  if (llvm::Error e = completeAttrs(op, attrs))
    return e;
  return attrs;
}

// --- Texts

std::string attrsText(const Attrs &attrs) {
  std::string out;
  for (const auto &[name, value] : attrs)
    out += (out.empty() ? " {" : ", ") + name + " = " + attrText(value);
  return out.empty() ? out : out + "}";
}

static std::string hash(llvm::StringRef bytes) { return llvm::utohexstr(llvm::xxHash64(bytes)); }

std::string checkOf(const onnx::NodeProto &n) {
  std::string all = n.domain() + '\0' + n.op_type();
  for (const onnx::AttributeProto &a : n.attribute())
    all += '\0' + a.SerializeAsString();
  return hash(all);
}

std::string checkOf(const Tensor &t) { return hash(llvm::StringRef(t.data, size_t(t.bytes()))); }

std::string initText(const Initializer &init) {
  return initializerName(init.kind).str() + attrsText(init.args);
}

int elementCode(DType t) {
  switch (t) {
  case DType::F32:
    return onnx::TensorProto::FLOAT;
  case DType::F64:
    return onnx::TensorProto::DOUBLE;
  case DType::BF16:
    return onnx::TensorProto::BFLOAT16;
  case DType::F16:
    return onnx::TensorProto::FLOAT16;
  case DType::I32:
    return onnx::TensorProto::INT32;
  case DType::I64:
    return onnx::TensorProto::INT64;
  case DType::U8:
    return onnx::TensorProto::UINT8;
  case DType::Bool:
  case DType::Token: // ONNX has no type without bytes; see export/rows_transfer.cc
    return onnx::TensorProto::BOOL;
  }
  return onnx::TensorProto::UNDEFINED;
}

} // namespace isthmus::onnx_rows
