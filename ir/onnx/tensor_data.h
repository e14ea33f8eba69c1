// Element types and tensor values as files store them.
#pragma once

#include "ir/element.h"
#include "ir/file.h"
#include "ir/rank.h"
#include "ir/read_tensors.h"
#include "onnx/onnx.pb.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"
#include <functional>
#include <optional>

namespace isthmus::onnx_import {

bool isFloatType(int32_t onnxType);
llvm::Expected<DType>
elementType(int32_t onnxType); // an error that names the type if it is not supported

// Files of external data, each opened once. Only files in `folder` and its subfolders are opened,
// unless `outside` allows others. `onOpen` is called with the path of each opened file.
class ExternalFiles {
public:
  explicit ExternalFiles(std::string folder, Outside outside = Outside::Refused,
                         std::function<void(const std::string &)> onOpen = {})
      : folder_(std::move(folder)), outside_(outside), onOpen_(std::move(onOpen)) {}
  struct File {
    std::shared_ptr<const SourceFile> source; // null: closed for the time being
    ReadTensors read;
  };
  llvm::Expected<File *> open(const std::string &location);

private:
  // A process may have few files open, and some exporters write a file for each tensor.
  static constexpr size_t kMostOpen = 64;

  std::string folder_;
  Outside outside_;
  std::function<void(const std::string &)> onOpen_;
  llvm::StringMap<File> files_;
  size_t numOpen_ = 0;
};

// The type alone. Cheap; an error for negative or absurd dimensions.
llvm::Expected<Type> typeOf(const onnx::TensorProto &t);
// The value. Raw bytes are moved out of `t`, so that weights are in memory only once.
llvm::Expected<Tensor> decodeTensor(onnx::TensorProto &t, ExternalFiles &files);

// Small tensors that the importer makes itself.
Tensor intsTensor(llvm::ArrayRef<int64_t> values);                    // i64[n]
Tensor scalarTensor(DType type, double value);                        // rank 0
Tensor floatsTensor(const Type &type, llvm::ArrayRef<double> values); // rounded to the type
Tensor filled(const Type &type, llvm::ArrayRef<char> oneElement);     // every element equal

// The number that the writer of a float meant: the shortest decimal that rounds to it. So a
// momentum of 0.9 is 0.9 in f64 and in the text too, not 0.8999999761581421.
double shortestDecimal(float f);

// Whether the tensor repeats its first `bytes` bytes throughout. True if it is no longer than that.
bool repeatsEvery(const Tensor &t, int64_t bytes);
bool allElementsEqual(const Tensor &t); // bitwise; true for no or one element

} // namespace isthmus::onnx_import
