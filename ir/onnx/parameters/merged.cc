#include "ir/onnx/parameters/merged.h"

#include "ir/onnx/tensor_data.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include <map>

namespace isthmus::onnx_import {
namespace {

// Makes new names that the model does not use.
class FreeNames {
public:
  explicit FreeNames(const Model &m) {
    for (const onnx::TensorProto &t : m.graph().initializer())
      taken_.insert(t.name());
    for (const onnx::ValueInfoProto &v : m.graph().input())
      taken_.insert(v.name());
    for (const onnx::NodeProto &n : m.graph().node())
      taken_.insert(n.output().begin(), n.output().end());
  }
  std::string next(const std::string &base) {
    std::string name = base;
    for (unsigned &i = next_.try_emplace(base, 2).first->second; !taken_.insert(name).second; ++i)
      name = base + "." + std::to_string(i);
    return name;
  }

private:
  llvm::StringSet<> taken_;
  llvm::StringMap<unsigned> next_; // next suffix to try
};

void replaceInputs(onnx::NodeProto &n, const llvm::StringMap<std::string> &copies) {
  for (std::string &in : *n.mutable_input())
    if (auto it = copies.find(in); it != copies.end())
      in = it->second;
}

// One call of the program: the nodes that stand for it, and the parameters or initializers that
// each side reads.
struct CallReads {
  std::vector<onnx::NodeProto *> nodes;
  llvm::SetVector<llvm::StringRef> parameters;   // by the records
  llvm::SetVector<llvm::StringRef> initializers; // by the nodes
};

// Removes the pairs of a parameter and the initializer that clearly is that parameter, and adds the
// initializers to `matched`. The remaining entries on both sides were merged.
void dropMatched(CallReads &call, const ExporterRecords &records, llvm::StringSet<> &matched) {
  llvm::StringSet<> parameters;
  call.initializers.remove_if([&](llvm::StringRef name) {
    const ExporterRecords::Folded *f = records.foldedFrom(name);
    llvm::StringRef is = f && f->from.size() == 1 ? llvm::StringRef(f->from[0]) : name;
    if (!call.parameters.count(is) || !parameters.insert(is).second)
      return false;
    matched.insert(name);
    return true;
  });
  call.parameters.remove_if([&](llvm::StringRef p) { return parameters.count(p) != 0; });
}

} // namespace

std::vector<TensorCopy> separateByRecords(Model &m, const ExporterRecords &records) {
  std::vector<TensorCopy> copies;
  if (!records.hasSignature())
    return copies;
  llvm::StringSet<> there; // initializers that are parameters or were computed from parameters only
  llvm::StringSet<> found; // parameters that the file holds in some form
  for (const onnx::TensorProto &t : m.graph().initializer()) {
    const ExporterRecords::Folded *f = records.foldedFrom(t.name());
    bool isMade = f && !f->from.empty() && llvm::all_of(f->from, [&](const std::string &s) {
                    return records.isParameter(s);
                  });
    if (!isFloatType(t.data_type()) || (!records.isParameter(t.name()) && !isMade))
      continue;
    there.insert(t.name());
    found.insert(t.name());
    if (isMade)
      found.insert(f->from.begin(), f->from.end());
  }

  llvm::MapVector<llvm::StringRef, CallReads> calls;
  for (onnx::NodeProto &n : *m.proto->mutable_graph()->mutable_node()) {
    ExporterRecords::Call behind = records.callBehind(n);
    if (behind.parameters.empty() || ExporterRecords::isFused(n))
      continue;
    CallReads &call = calls[behind.name];
    call.nodes.push_back(&n);
    call.parameters = std::move(behind.parameters);
    for (const std::string &in : n.input())
      if (auto it = there.find(in); it != there.end()) // the nodes' inputs will be renamed
        call.initializers.insert(it->first());
  }

  llvm::StringSet<> matched;
  for (auto &entry : calls)
    dropMatched(entry.second, records, matched);
  FreeNames names(m);
  std::map<std::pair<std::string, std::string>, std::string> copyFor; // by parameter and tensor
  for (auto &entry : calls) {
    CallReads &call = entry.second;
    // The call is clear if both sides pair up, no remaining parameter is in the file, and every
    // remaining initializer was matched with a parameter elsewhere.
    bool clear =
        call.parameters.size() == call.initializers.size() &&
        llvm::none_of(call.parameters, [&](llvm::StringRef p) { return found.count(p) != 0; }) &&
        llvm::all_of(call.initializers, [&](llvm::StringRef i) { return matched.count(i) != 0; });
    if (!clear)
      continue;
    llvm::StringMap<std::string> replaced;
    for (size_t i = 0; i < call.parameters.size(); ++i) {
      const std::string parameter = call.parameters[i].str(), merged = call.initializers[i].str();
      std::string &copy = copyFor[{parameter, merged}];
      if (copy.empty()) {
        // A transposed tensor has another shape than the parameter, so it does not get its name.
        copy = names.next(records.isParameter(merged) ? parameter : merged);
        copies.push_back({copy, merged, parameter});
      }
      replaced[merged] = copy;
    }
    for (onnx::NodeProto *n : call.nodes)
      replaceInputs(*n, replaced);
  }
  return copies;
}

std::vector<TensorCopy> separateReaders(Model &m, llvm::ArrayRef<NamePattern> patterns) {
  std::vector<TensorCopy> copies;
  if (patterns.empty())
    return copies;
  FreeNames names(m);
  llvm::StringSet<> wanted, seen;
  for (const onnx::TensorProto &t : m.graph().initializer())
    if (isFloatType(t.data_type()) && matchesAny(patterns, t.name()))
      wanted.insert(t.name());
  for (onnx::NodeProto &n : *m.proto->mutable_graph()->mutable_node()) {
    llvm::StringSet<> here;
    llvm::StringMap<std::string> replaced;
    for (int i = 0; i < n.input_size(); ++i) {
      const std::string name = n.input(i);
      if (!wanted.count(name) || !here.insert(name).second || seen.insert(name).second)
        continue;
      copies.push_back({names.next(name), name, ""});
      replaced[name] = copies.back().name;
    }
    replaceInputs(n, replaced);
  }
  return copies;
}

} // namespace isthmus::onnx_import
