#include "ir/onnx/tensor_file.h"

#include "ir/diagnostics.h"
#include "ir/file.h"
#include "ir/onnx/tensor_data.h"

namespace isthmus {

llvm::Expected<NamedTensor> readOnnxTensor(const std::string &path) {
  auto bytes = readRegularFile(path);
  if (!bytes)
    return bytes.takeError();
  llvm::StringRef all = (*bytes)->getBuffer();
  onnx::TensorProto proto;
  // A serialized sequence also parses as a TensorProto: its tensors then appear as segments.
  if (all.size() > size_t(std::numeric_limits<int>::max()) ||
      !proto.ParseFromArray(all.data(), int(all.size())) || !proto.has_data_type() ||
      proto.has_segment())
    return makeError("{0}: expects a serialized ONNX tensor (TensorProto), got something else, a "
                     "sequence perhaps",
                     path);
  onnx_import::ExternalFiles none("");
  auto tensor = onnx_import::decodeTensor(proto, none);
  if (!tensor)
    return locate(tensor.takeError(), path);
  return NamedTensor{proto.name(), std::move(*tensor)};
}

} // namespace isthmus
