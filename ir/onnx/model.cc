#include "ir/onnx/model.h"

#include "ir/file.h"
#include "ir/onnx/names.h"
#include "llvm/Support/Path.h"
#include <google/protobuf/io/coded_stream.h>
#include <limits>

namespace isthmus::onnx_import {
namespace {

llvm::Error readVersions(Model &m) {
  for (const onnx::OperatorSetIdProto &o : m.proto->opset_import())
    if (isDefaultDomain(o.domain()))
      m.opset = std::max(m.opset, o.version());
  bool needed = llvm::any_of(m.graph().node(),
                             [](const onnx::NodeProto &n) { return isDefaultDomain(n.domain()); });
  if (m.opset <= 0 && !needed) // every operator is of another domain
    m.opset = 1;
  if (m.opset <= 0) // each row of the op table has its own lowest opset
    return makeError(
        "the model names no version of ONNX's operators (opset_import); export it again");
  return llvm::Error::success();
}

// The key of a function: its domain, name and overload.
std::string functionId(llvm::StringRef domain, llvm::StringRef name, llvm::StringRef overload) {
  return (llvm::Twine(isDefaultDomain(domain) ? "" : domain) + llvm::Twine('\0') + name +
          llvm::Twine('\0') + overload)
      .str();
}

llvm::Error readFunctions(Model &m) {
  for (const onnx::FunctionProto &f : m.proto->functions())
    if (!m.functions.try_emplace(functionId(f.domain(), f.name(), f.overload()), &f).second)
      return makeError("function '{0}' of domain '{1}' is defined twice", f.name(), f.domain());
  return llvm::Error::success();
}

llvm::Error checkSize(uint64_t bytes) {
  if (bytes <= uint64_t(std::numeric_limits<int>::max()))
    return llvm::Error::success();
  return makeError(
      "the file has {0} bytes; a protobuf file can have 2 GiB, export with external data", bytes);
}

llvm::Expected<Model> parse(llvm::StringRef bytes, Model m) {
  m.fileBytes = static_cast<int64_t>(bytes.size());
  if (bytes.empty())
    return locate(makeError("the file is empty"), m.file);
  if (llvm::Error e = checkSize(bytes.size()))
    return locate(std::move(e), m.file);
  m.proto = std::make_unique<onnx::ModelProto>();
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t *>(bytes.data()),
                                            static_cast<int>(bytes.size()));
  if (!m.proto->ParseFromCodedStream(&in) || !in.ConsumedEntireMessage())
    return locate(makeError("this is no ONNX model, or it is damaged or cut short"), m.file);
  if (!m.proto->has_graph())
    return locate(makeError("the model has no graph; is this an ONNX model?"), m.file);
  if (llvm::Error e = readVersions(m))
    return locate(std::move(e), m.file);
  if (llvm::Error e = readFunctions(m))
    return locate(std::move(e), m.file);
  if (llvm::Error e = checkNames(m))
    return locate(std::move(e), m.file);
  return m;
}

} // namespace

std::string nodeText(const onnx::NodeProto &n, int index) {
  std::string op = isDefaultDomain(n.domain()) ? n.op_type() : n.domain() + "." + n.op_type();
  return "node \"" + n.name() + "\" (" + op + ", #" + std::to_string(index) + ")";
}

std::string Model::whereNode(int index) const {
  return file + ": " + nodeText(graph().node(index), index);
}

const onnx::FunctionProto *Model::functionOf(const onnx::NodeProto &n) const {
  auto it = functions.find(functionId(n.domain(), n.op_type(), n.overload()));
  return it == functions.end() ? nullptr : it->second;
}

llvm::ArrayRef<llvm::StringRef> Model::readsOutside(const onnx::NodeProto &n) const {
  auto it = outside.find(&n);
  return it == outside.end() ? llvm::ArrayRef<llvm::StringRef>() : llvm::makeArrayRef(it->second);
}

std::vector<const onnx::GraphProto *> graphsIn(const onnx::NodeProto &n) {
  std::vector<const onnx::GraphProto *> all;
  for (const onnx::AttributeProto &a : n.attribute()) {
    if (a.has_g())
      all.push_back(&a.g());
    for (const onnx::GraphProto &g : a.graphs())
      all.push_back(&g);
  }
  return all;
}

llvm::Expected<Model> loadModel(const std::string &path) {
  Model m;
  m.file = path;
  m.folder = llvm::sys::path::parent_path(path).str();
  if (m.folder.empty())
    m.folder = ".";
  auto file = SourceFile::open(path);
  if (!file)
    return file.takeError();
  if (llvm::Error e = checkSize((*file)->size())) // before it is read
    return locate(std::move(e), path);
  auto buffer = (*file)->readAll();
  if (!buffer)
    return buffer.takeError();
  return parse((*buffer)->getBuffer(), std::move(m));
}

llvm::Expected<Model> parseModel(llvm::StringRef bytes, const std::string &name) {
  Model m;
  m.file = name;
  return parse(bytes, std::move(m));
}

} // namespace isthmus::onnx_import
