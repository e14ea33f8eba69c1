#include "ir/onnx/parameters.h"

#include "ir/onnx/op_table.h"
#include "ir/onnx/rows.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
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

// How the names of a model are read: whether a gradient can flow from them to an output, and
// whether a batch normalization takes them as its averages.
class Readers {
public:
  explicit Readers(const Model &m) : m_(m) {
    for (const onnx::ValueInfoProto &v : m.graph().output())
      learned.insert(v.name());
    look(m.graph().node(), m.opset, *this);
  }

  llvm::StringSet<> learned, averaged;

private:
  Readers(const Model &m, const onnx::FunctionProto &f) : m_(m) {
    learned.insert(f.output().begin(), f.output().end());
    int64_t opset = 0;
    for (const onnx::OperatorSetIdProto &o : f.opset_import())
      if (isDefaultDomain(o.domain()))
        opset = std::max(opset, o.version());
    opset_ = opset ? opset : m.opset;
  }

  void look(const NodeList &nodes, int64_t opset, Readers &top);
  const Readers &inside(const onnx::FunctionProto &f, Readers &top);

  const Model &m_;
  int64_t opset_ = 0;
  // Of functions, each looked at once, for all of its results.
  llvm::DenseMap<const onnx::FunctionProto *, std::unique_ptr<Readers>> functions_;
  int depth_ = 0;
};

const Readers &Readers::inside(const onnx::FunctionProto &f, Readers &top) {
  auto [it, isNew] = top.functions_.try_emplace(&f);
  if (isNew) {
    it->second.reset(new Readers(m_, f));
    Readers &r = *it->second;
    if (top.depth_ < 100) { // deeper ones cannot be translated
      ++top.depth_;
      r.look(f.node(), r.opset_, top);
      --top.depth_;
    }
    return r;
  }
  return *it->second;
}

bool castsToOther(const onnx::NodeProto &n);

void Readers::look(const NodeList &nodes, int64_t opset, Readers &top) {
  for (int i = nodes.size() - 1; i >= 0; --i) {
    const onnx::NodeProto &n = nodes[i];
    const OnnxOp *op = findOp(opName(n), opset);
    if (op && n.op_type() == "BatchNormalization")
      for (int j = 3; j < std::min(5, n.input_size()); ++j)
        averaged.insert(n.input(j));
    const onnx::FunctionProto *f = op ? nullptr : m_.functionOf(n);
    const Readers *body = f ? &inside(*f, top) : nullptr;
    for (int j = 0; body && j < std::min(n.input_size(), f->input_size()); ++j)
      if (body->averaged.count(f->input(j)))
        averaged.insert(n.input(j));
    bool reached = false;
    for (const std::string &out : n.output())
      reached |= learned.count(out) != 0;
    for (const onnx::GraphProto *g : graphsIn(n)) { // their names are no others'
      if (reached)
        for (const onnx::ValueInfoProto &v : g->output())
          learned.insert(v.name());
      look(g->node(), opset, top);
    }
    if (!reached)
      continue;
    uint32_t closed = op && castsToOther(n) ? kAllOperands : op ? op->notLearned : 0;
    for (int j = 0; j < n.input_size(); ++j)
      if (!(closed >> std::min(j, 31) & 1) &&
          !(body && j < f->input_size() && !body->learned.count(f->input(j))))
        learned.insert(n.input(j));
  }
}

bool isFloatType(int t) {
  return t == onnx::TensorProto::FLOAT || t == onnx::TensorProto::DOUBLE ||
         t == onnx::TensorProto::FLOAT16 || t == onnx::TensorProto::BFLOAT16;
}

// Whether it is a Cast to integers or bool: no gradient comes through.
bool castsToOther(const onnx::NodeProto &n) {
  if (n.op_type() == "Cast")
    for (const onnx::AttributeProto &a : n.attribute())
      if (a.name() == "to" && a.ref_attr_name().empty())
        return !isFloatType(int(a.i()));
  return false;
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
  llvm::StringMap<std::string> signature = readSignature(m);
  for (const onnx::TensorProto &t : m.graph().initializer()) {
    byName[t.name()] = all.size();
    all.push_back({t.name(), &t, "", Role::Constant, false, ""});
  }
  for (const onnx::NodeProto &n : m.graph().node()) {
    if (n.op_type() != "Identity" || !isDefaultDomain(n.domain()) || n.input_size() != 1 ||
        n.output_size() != 1)
      continue;
    // An Identity of the model's own (a clone, a layer that does nothing) has no parameter's name.
    llvm::StringRef name = n.output(0);
    if (name.startswith("/") || (!signature.empty() && !signature.count(name)))
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

  Readers readers(m);
  llvm::DenseMap<const onnx::TensorProto *, bool> masks; // copies share their data
  auto isMask = [&](const onnx::TensorProto *t) {
    auto [it, isNew] = masks.try_emplace(t, false);
    if (isNew)
      it->second = looksLikeMask(*t);
    return it->second;
  };
  for (InitializerRole &r : all) {
    bool learnable = isFloatType(r.data->data_type()) && readers.learned.count(r.name);
    bool isAverage = readers.averaged.count(r.name) && isFloatType(r.data->data_type());
    auto named = signature.find(r.name);
    // A file that we wrote says it, also where another tool has changed its nodes.
    llvm::StringRef ours = onnx_rows::getMeta(r.data->metadata_props(), onnx_rows::kKind);
    if (!ours.empty() && r.copyOf.empty()) {
      r.role = ours == inputKindName(InputKind::Param)   ? Role::Parameter
               : ours == inputKindName(InputKind::State) ? Role::State
                                                         : Role::Constant;
      continue;
    }
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

std::string tellLostParameters(const Model &m) {
  llvm::StringSet<> there;
  for (const onnx::TensorProto &t : m.graph().initializer())
    there.insert(t.name());
  for (const onnx::NodeProto &n : m.graph().node())
    for (const std::string &name : n.output())
      there.insert(name);
  std::vector<std::string> lost;
  size_t all = 0;
  for (const auto &entry : readSignature(m)) {
    if (entry.second != "PARAMETER")
      continue;
    ++all;
    if (!there.count(entry.first()))
      lost.push_back(entry.first().str());
  }
  if (lost.empty())
    return "";
  return llvm::formatv("{0} of the {1} parameters that the exporter names are not in the file, "
                       "such as '{2}': it tied them to others, merged them with equal ones or "
                       "computed with them, and they are not learned on their own; exported "
                       "without optimization (optimize=False) all would be there",
                       lost.size(), all, *std::min_element(lost.begin(), lost.end()))
      .str();
}

} // namespace isthmus::onnx_import
