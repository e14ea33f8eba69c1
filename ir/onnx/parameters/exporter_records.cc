#include "ir/onnx/parameters/exporter_records.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace isthmus::onnx_import {
namespace {

constexpr llvm::StringRef kSignatureKey = "pkg.torch.export.ExportedProgram.graph_signature";
constexpr llvm::StringRef kFoldedKey = "pkg.onnxscript.optimizer.folded_from";
constexpr llvm::StringRef kRuleKey = "pkg.onnxscript.rewriter.rule_name";
constexpr llvm::StringRef kCallKey = "pkg.torch.onnx.fx_node";
constexpr llvm::StringRef kScopesKey = "pkg.torch.onnx.name_scopes";

template <typename Metadata> llvm::StringRef valueOf(const Metadata &meta, llvm::StringRef key) {
  for (const onnx::StringStringEntryProto &p : meta)
    if (p.key() == key)
      return p.value();
  return {};
}

// The strings of a Python list: ['a', "b"].
std::vector<std::string> pythonStrings(llvm::StringRef list) {
  std::vector<std::string> out;
  for (;;) {
    list = list.drop_until([](char c) { return c == '\'' || c == '"'; });
    if (list.empty())
      return out;
    char quote = list.front();
    list = list.drop_front();
    out.push_back(list.take_until([&](char c) { return c == quote; }).str());
    list = list.drop_front(std::min(list.size(), out.back().size() + 1));
  }
}

} // namespace

ExporterRecords::ExporterRecords(const Model &m) {
  readSignature(valueOf(m.graph().metadata_props(), kSignatureKey));
  if (!hasSignature())
    return;
  auto readFolded = [&](const std::string &name, llvm::StringRef list) {
    if (list.empty())
      return;
    Folded &f = folded_[name];
    for (std::string &source : pythonStrings(list))
      (kinds_.count(source) ? f.from : f.between).push_back(std::move(source));
  };
  for (const onnx::ValueInfoProto &v : m.graph().value_info())
    readFolded(v.name(), valueOf(v.metadata_props(), kFoldedKey));
  for (const onnx::TensorProto &t : m.graph().initializer())
    readFolded(t.name(), valueOf(t.metadata_props(), kFoldedKey));
  for (const onnx::NodeProto &n : m.graph().node())
    if (isFused(n))
      ofFused_.insert(n.input().begin(), n.input().end());
}

// Parses lines such as "p_conv1_weight: PARAMETER target='conv1.weight'".
void ExporterRecords::readSignature(llvm::StringRef text) {
  text = text.split("# outputs").first;
  while (!text.empty()) {
    auto [line, rest] = text.split('\n');
    text = rest;
    auto [placeholder, what] = line.split(": ");
    auto [kind, target] = what.split(" target='");
    if (!target.contains('\''))
      continue;
    std::string name = target.split('\'').first.str();
    targets_[placeholder.trim()] = name;
    if (!kinds_.try_emplace(name, kind.str()).second)
      continue;
    if (kind == "PARAMETER")
      parameters_.push_back(std::move(name));
  }
}

llvm::StringRef ExporterRecords::kindOf(llvm::StringRef name) const {
  auto it = kinds_.find(name);
  return it == kinds_.end() ? llvm::StringRef() : llvm::StringRef(it->second);
}

const ExporterRecords::Folded *ExporterRecords::foldedFrom(llvm::StringRef name) const {
  auto it = folded_.find(name);
  return it == folded_.end() ? nullptr : &it->second;
}

bool ExporterRecords::isFused(const onnx::NodeProto &n) {
  return valueOf(n.metadata_props(), kRuleKey).contains("Fuse");
}

llvm::StringRef ExporterRecords::parameterAt(llvm::StringRef text) const {
  const auto it =
      targets_.find(text.take_while([](char c) { return llvm::isAlnum(c) || c == '_'; }));
  return it != targets_.end() && isParameter(it->second) ? llvm::StringRef(it->second) : "";
}

// Parses records such as
// "%linear : [num_users=1] = call_function[...](args = (%x, %p_l_weight, %p_l_bias), kwargs = {})"
ExporterRecords::Call ExporterRecords::callBehind(const onnx::NodeProto &n) const {
  Call call;
  if (!hasSignature())
    return call;
  llvm::StringRef text = valueOf(n.metadata_props(), kCallKey);
  auto [name, args] = text.split(" : ");
  args = args.split("(args = ").second;
  if (args.empty())
    return call;
  call.name = name;
  while (!args.empty()) {
    args = args.split('%').second;
    if (llvm::StringRef parameter = parameterAt(args); !parameter.empty())
      call.parameters.insert(parameter);
  }
  return call;
}

bool ExporterRecords::hasLostBias(const onnx::NodeProto &n) {
  return valueOf(n.metadata_props(), kRuleKey).contains("RemoveOptionalBias");
}

std::string ExporterRecords::biasOf(const onnx::NodeProto &n) const {
  llvm::StringRef args = valueOf(n.metadata_props(), kCallKey).split("(args = (").second;
  for (int before = 0; before < 2; ++before) // x and the weight
    args = args.consume_front("%") ? args.split(", ").second : "";
  return args.consume_front("%") ? parameterAt(args).str() : "";
}

// Parses the paths of the modules around a call, outermost first, and the call's name:
// "['', 'encoder', 'encoder.layers.0', 'linear']".
std::string ExporterRecords::moduleOf(const onnx::NodeProto &n) {
  const std::vector<std::string> scopes = pythonStrings(valueOf(n.metadata_props(), kScopesKey));
  return scopes.size() < 2 ? "" : scopes[scopes.size() - 2];
}

} // namespace isthmus::onnx_import
