#include "ir/onnx/model.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include <google/protobuf/io/coded_stream.h>
#include <limits>

namespace isthmus::onnx_import {
namespace {

// Before opset 7 binary ops broadcast by an `axis` attribute; nothing that is still used is that
// old.
constexpr int64_t kOldestOpset = 7;

llvm::Error readVersions(Model &m) {
  for (const onnx::OperatorSetIdProto &o : m.proto->opset_import())
    if (isDefaultDomain(o.domain()))
      m.opset = std::max(m.opset, o.version());
  if (m.opset == 0)
    return makeError(
        "the model names no version of ONNX's operators (opset_import); export it again");
  if (m.opset < kOldestOpset)
    return makeError(
        "expects opset {0} or later, got {1}; convert the model with onnx.version_converter",
        kOldestOpset, m.opset);
  return llvm::Error::success();
}

// Who gives each name its value, to tell what is wrong with it.
class Names {
public:
  explicit Names(const Model &m) : m_(m) {}

  llvm::Error define(const std::string &name, const std::string &by) {
    auto [it, isNew] = by_.try_emplace(name, by);
    if (!isNew)
      return makeError("'{0}' is defined twice: by {1} and by {2}", name, it->second, by);
    return llvm::Error::success();
  }

  llvm::Error read(const std::string &name) const {
    if (name.empty() || by_.count(name))
      return llvm::Error::success();
    for (int i = 0; i < m_.graph().node_size(); ++i)
      for (const std::string &out : m_.graph().node(i).output())
        if (out == name)
          return makeError("reads '{0}', which node #{1} defines later; nodes must come in the "
                           "order in which they "
                           "can run, without cycles",
                           name, i);
    return makeError("reads '{0}', which is no input, initializer or result of an earlier node",
                     name);
  }

private:
  const Model &m_;
  llvm::StringMap<std::string> by_;
};

llvm::Error checkNames(const Model &m) {
  const onnx::GraphProto &g = m.graph();
  Names names(m);
  llvm::StringMap<bool> initializers;
  for (const onnx::TensorProto &t : g.initializer()) {
    if (t.name().empty())
      return makeError("an initializer has no name");
    if (llvm::Error e = names.define(t.name(), "an initializer"))
      return e;
    initializers[t.name()] = true;
  }
  llvm::StringMap<bool> inputs;
  for (const onnx::ValueInfoProto &v : g.input()) {
    if (v.name().empty())
      return makeError("an input has no name");
    if (!inputs.try_emplace(v.name(), true).second)
      return makeError("'{0}' is defined twice: both times as an input", v.name());
    if (initializers.count(
            v.name())) // an input with a default value: how files before IR version 4 list weights
      continue;
    if (llvm::Error e = names.define(v.name(), "an input"))
      return e;
  }
  for (int i = 0; i < g.node_size(); ++i) {
    for (const std::string &in : g.node(i).input())
      if (llvm::Error e = names.read(in))
        return locate(std::move(e), m.whereNode(i));
    for (const std::string &out : g.node(i).output())
      if (!out.empty())
        if (llvm::Error e = names.define(out, "node #" + std::to_string(i)))
          return locate(std::move(e), m.whereNode(i));
  }
  llvm::StringMap<bool> outputs;
  for (const onnx::ValueInfoProto &v : g.output()) {
    if (v.name().empty())
      return makeError("an output has no name");
    if (!outputs.try_emplace(v.name(), true).second)
      return makeError("'{0}' is listed twice among the outputs", v.name());
    if (llvm::Error e = names.read(v.name()))
      return makeError("the output '{0}' is no input, initializer or result of a node", v.name());
  }
  if (g.output_size() == 0)
    return makeError("the model has no outputs");
  return llvm::Error::success();
}

llvm::Expected<Model> parse(llvm::StringRef bytes, Model m) {
  m.fileBytes = static_cast<int64_t>(bytes.size());
  if (bytes.empty())
    return locate(makeError("the file is empty"), m.file);
  if (bytes.size() > size_t(std::numeric_limits<int>::max()))
    return locate(
        makeError(
            "the file has {0} bytes; a protobuf file can have 2 GiB, export with external data",
            bytes.size()),
        m.file);
  m.proto = std::make_unique<onnx::ModelProto>();
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t *>(bytes.data()),
                                            static_cast<int>(bytes.size()));
  if (!m.proto->ParseFromCodedStream(&in) || !in.ConsumedEntireMessage())
    return locate(makeError("this is no ONNX model, or it is damaged or cut short"), m.file);
  if (!m.proto->has_graph())
    return locate(makeError("the model has no graph; is this an ONNX model?"), m.file);
  if (llvm::Error e = readVersions(m))
    return locate(std::move(e), m.file);
  if (llvm::Error e = checkNames(m))
    return locate(std::move(e), m.file);
  return m;
}

} // namespace

std::string Model::whereNode(int index) const {
  const onnx::NodeProto &n = graph().node(index);
  std::string op = isDefaultDomain(n.domain()) ? n.op_type() : n.domain() + "." + n.op_type();
  return file + ": node \"" + n.name() + "\" (" + op + ", #" + std::to_string(index) + ")";
}

llvm::Expected<Model> loadModel(const std::string &path) {
  Model m;
  m.file = path;
  m.folder = llvm::sys::path::parent_path(path).str();
  if (m.folder.empty())
    m.folder = ".";
  llvm::sys::fs::file_status status;
  if (std::error_code ec = llvm::sys::fs::status(path, status))
    return makeError("cannot read '{0}': {1}", path, ec.message());
  if (llvm::sys::fs::is_directory(status))
    return makeError("cannot read '{0}': it is a directory", path);
  auto buffer =
      llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!buffer)
    return makeError("cannot read '{0}': {1}", path, buffer.getError().message());
  return parse((*buffer)->getBuffer(), std::move(m));
}

llvm::Expected<Model> parseModel(llvm::StringRef bytes, const std::string &name) {
  Model m;
  m.file = name;
  return parse(bytes, std::move(m));
}

} // namespace isthmus::onnx_import
