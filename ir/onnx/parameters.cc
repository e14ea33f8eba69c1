#include "ir/onnx/parameters.h"

#include "ir/onnx/op_table.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringSet.h"
#include <cmath>
#include <cstring>

namespace isthmus::onnx_import {
namespace {

constexpr llvm::StringRef kSignatureKey = "pkg.torch.export.ExportedProgram.graph_signature";

// Lines such as "p_conv1_weight: PARAMETER target='conv1.weight'": the kind of each target.
llvm::StringMap<std::string> readSignature(const Model &m) {
  llvm::StringMap<std::string> kinds;
  for (const onnx::StringStringEntryProto &p : m.graph().metadata_props()) {
    if (p.key() != kSignatureKey)
      continue;
    llvm::StringRef text = llvm::StringRef(p.value()).split("# outputs").first;
    while (!text.empty()) {
      auto [line, rest] = text.split('\n');
      text = rest;
      auto [kind, target] = line.split(": ").second.split(" target='");
      if (target.contains('\''))
        kinds[target.split('\'').first] = kind.str();
    }
  }
  return kinds;
}

// The names from which a gradient can flow to an output of the graph.
llvm::StringSet<> namesWithGradient(const Model &m) {
  const onnx::GraphProto &g = m.graph();
  llvm::StringSet<> flows;
  for (const onnx::ValueInfoProto &v : g.output())
    flows.insert(v.name());
  for (int i = g.node_size() - 1; i >= 0; --i) {
    const onnx::NodeProto &n = g.node(i);
    bool reached = false;
    for (const std::string &out : n.output())
      reached |= flows.count(out) != 0;
    if (!reached)
      continue;
    const OnnxOp *op = isDefaultDomain(n.domain()) ? findOp(n.op_type(), m.opset) : nullptr;
    uint32_t closed = op ? op->notLearned : 0;
    if (n.op_type() == "Cast")
      for (const onnx::AttributeProto &a : n.attribute())
        if (a.name() == "to" && a.i() != onnx::TensorProto::FLOAT &&
            a.i() != onnx::TensorProto::DOUBLE && a.i() != onnx::TensorProto::FLOAT16 &&
            a.i() != onnx::TensorProto::BFLOAT16)
          closed = kAllOperands;
    for (int j = 0; j < n.input_size(); ++j)
      if (!(closed >> std::min(j, 31) & 1))
        flows.insert(n.input(j));
  }
  return flows;
}

llvm::StringSet<> averages(const Model &m) {
  llvm::StringSet<> names;
  for (const onnx::NodeProto &n : m.graph().node())
    if (n.op_type() == "BatchNormalization" && isDefaultDomain(n.domain()))
      for (int i = 3; i < std::min(5, n.input_size()); ++i)
        names.insert(n.input(i));
  return names;
}

bool isFloatType(int t) {
  return t == onnx::TensorProto::FLOAT || t == onnx::TensorProto::DOUBLE ||
         t == onnx::TensorProto::FLOAT16 || t == onnx::TensorProto::BFLOAT16;
}

bool hasOneElement(const onnx::TensorProto &t) {
  for (int64_t d : t.dims())
    if (d != 1)
      return false;
  return true;
}

// Names that exporters make up for what has none in the model: "onnx::Mul_12", "val_72", "12".
bool isMadeUp(llvm::StringRef name) {
  if (name.consume_front("onnx::"))
    return true;
  name.consume_front("val_");
  return !name.empty() && name.find_first_not_of("0123456789") == llvm::StringRef::npos;
}

// Infinities, or numbers so large that they stand for them. Looked for in the forms in which
// exporters write floats.
bool looksLikeMask(const onnx::TensorProto &t) {
  auto huge = [](float f) { return std::fabs(f) >= 1e30f; };
  if (t.data_type() != onnx::TensorProto::FLOAT)
    return false;
  const std::string &raw = t.raw_data();
  for (size_t i = 0; i + 4 <= raw.size(); i += 4) {
    float f;
    std::memcpy(&f, raw.data() + i, 4);
    if (huge(f))
      return true;
  }
  return std::any_of(t.float_data().begin(), t.float_data().end(), huge);
}

} // namespace

std::vector<InitializerRole> classifyInitializers(const Model &m) {
  std::vector<InitializerRole> all;
  llvm::StringMap<size_t> byName;
  for (const onnx::TensorProto &t : m.graph().initializer()) {
    byName[t.name()] = all.size();
    all.push_back({t.name(), &t, "", Role::Constant, false, ""});
  }
  for (const onnx::NodeProto &n : m.graph().node()) {
    if (n.op_type() != "Identity" || !isDefaultDomain(n.domain()) || n.input_size() != 1 ||
        n.output_size() != 1)
      continue;
    auto it = byName.find(n.input(0));
    if (it == byName.end())
      continue;
    const InitializerRole &origin = all[it->second];
    InitializerRole copy{
        n.output(0),    origin.data, origin.copyOf.empty() ? origin.name : origin.copyOf,
        Role::Constant, false,       ""};
    byName[copy.name] = all.size();
    all.push_back(std::move(copy));
  }

  llvm::StringMap<std::string> signature = readSignature(m);
  llvm::StringSet<> flows = namesWithGradient(m), states = averages(m);
  llvm::DenseMap<const onnx::TensorProto *, bool> masks; // copies share their data
  auto isMask = [&](const onnx::TensorProto *t) {
    auto [it, isNew] = masks.try_emplace(t, false);
    if (isNew)
      it->second = looksLikeMask(*t);
    return it->second;
  };
  for (InitializerRole &r : all) {
    bool learnable = isFloatType(r.data->data_type()) && flows.count(r.name);
    bool isAverage = states.count(r.name) && isFloatType(r.data->data_type());
    auto named = signature.find(r.name);
    if (named != signature.end() && named->second == "PARAMETER" && learnable)
      r.role = Role::Parameter;
    else if (isAverage && !learnable)
      r.role = Role::State;
    else if (!learnable)
      r.role = Role::Constant;
    else if (named != signature.end())
      r.why = "the exporter calls it " + named->second;
    else if (r.data->dims_size() == 0)
      r.role = Role::Constant;
    else if (hasOneElement(*r.data) && isMadeUp(r.name))
      r.why = "it is one number, with a name that the exporter made up";
    else if (isMask(r.data))
      r.why = "it holds infinities or numbers that stand for them, as masks do";
    else
      r.role = Role::Parameter;
    r.alsoState = isAverage && r.role != Role::State;
  }
  return all;
}

} // namespace isthmus::onnx_import
