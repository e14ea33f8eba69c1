#include "ir/onnx/module_names.h"

#include "ir/onnx/parameters/exporter_records.h"
#include "llvm/ADT/StringSet.h"

namespace isthmus::onnx_import {

llvm::StringMap<std::string> moduleNames(const Model &m) {
  const onnx::GraphProto &g = m.graph();
  llvm::StringSet<> taken, outputs;
  for (const onnx::TensorProto &t : g.initializer())
    taken.insert(t.name());
  for (const onnx::ValueInfoProto &v : g.input())
    taken.insert(v.name());
  for (const onnx::NodeProto &n : g.node())
    taken.insert(n.output().begin(), n.output().end());
  const ExporterRecords records(m);
  taken.insert(records.parameters().begin(), records.parameters().end());
  for (const onnx::ValueInfoProto &v : g.output())
    outputs.insert(v.name());
  llvm::StringMap<std::string> names;
  for (const onnx::NodeProto &n : g.node()) {
    const std::string module = ExporterRecords::moduleOf(n);
    for (const std::string &out : n.output())
      if (std::string name = module + "." + out;
          !module.empty() && !out.empty() && !outputs.count(out) && taken.insert(name).second)
        names[out] = std::move(name);
  }
  return names;
}

} // namespace isthmus::onnx_import
