// Element types and tensor values, as files hold them.
#pragma once

#include "ir/element.h"
#include "ir/file.h"
#include "ir/rank.h"
#include "onnx/onnx.pb.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"
#include <functional>
#include <optional>

namespace isthmus::onnx_import {

bool isFloatType(int32_t onnxType);
llvm::Expected<DType>
elementType(int32_t onnxType); // an error that names the type if we have none such

// Files of external data, each mapped once. Only files in `folder` and below are opened, unless
// they may lie anywhere; `told` hears of each.
class ExternalFiles {
public:
  explicit ExternalFiles(std::string folder, Outside outside = Outside::Refused,
                         std::function<void(const std::string &)> told = {})
      : folder_(std::move(folder)), outside_(outside), told_(std::move(told)) {}
  llvm::Expected<std::shared_ptr<llvm::MemoryBuffer>> open(const std::string &location);

private:
  std::string folder_;
  Outside outside_;
  std::function<void(const std::string &)> told_;
  llvm::StringMap<std::shared_ptr<llvm::MemoryBuffer>> open_;
};

// The type alone: cheap, and an error for negative or absurd dimensions.
llvm::Expected<Type> typeOf(const onnx::TensorProto &t);
// The value. Raw bytes are moved out of `t`, so that weights are in memory once.
llvm::Expected<Tensor> decodeTensor(onnx::TensorProto &t, ExternalFiles &files);

// Small values that the importer makes itself.
Tensor intsTensor(llvm::ArrayRef<int64_t> values);                    // i64[n]
Tensor scalarTensor(DType type, double value);                        // rank 0
Tensor floatsTensor(const Type &type, llvm::ArrayRef<double> values); // rounded to the type
Tensor filled(const Type &type, llvm::ArrayRef<char> oneElement);     // every element alike

// The number that was meant by a float of a file, the shortest decimal that rounds to it: a
// momentum of 0.9 is 0.9 in f64 too, and in the text, and not 0.8999999761581421.
double meant(float f);

// Whether the tensor is its first so many bytes again and again. True where it has no more.
bool repeatsEvery(const Tensor &t, int64_t bytes);
bool allElementsEqual(const Tensor &t); // bit by bit; true for none or one

} // namespace isthmus::onnx_import
