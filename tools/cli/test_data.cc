#include "tools/cli/test_data.h"

#include "ir/element.h"
#include "tools/cli/exit.h"
#include "llvm/Support/FileSystem.h"
#include <cmath>

namespace isthmus {
namespace {

// Reads PREFIX_0.pb, PREFIX_1.pb, ... up to the first that does not exist.
llvm::Expected<std::vector<NamedTensor>> readNumbered(const std::string &prefix) {
  std::vector<NamedTensor> out;
  for (size_t i = 0;; ++i) {
    std::string path = prefix + "_" + std::to_string(i) + ".pb";
    if (!llvm::sys::fs::exists(path))
      return out;
    auto t = readOnnxTensor(path);
    if (!t)
      return t.takeError();
    out.push_back(std::move(*t));
  }
}

llvm::Expected<TestSet> readSet(const std::string &dir) {
  TestSet out{dir, {}, {}};
  for (auto [list, prefix] : {std::pair(&out.inputs, "/input"), {&out.outputs, "/output"}}) {
    auto tensors = readNumbered(dir + prefix);
    if (!tensors)
      return tensors.takeError();
    *list = std::move(*tensors);
  }
  return out;
}

bool isClose(double got, double want, Tolerance t) {
  if (std::isnan(got) || std::isnan(want) || std::isinf(got) || std::isinf(want))
    return got == want || (std::isnan(got) && std::isnan(want));
  return std::abs(got - want) <= t.absolute + t.relative * std::abs(want);
}

// Describes the difference; "" if there is none.
std::string difference(const Tensor &got, const Tensor &want, Tolerance tolerance) {
  if (got.type != want.type)
    return "is of type " + got.type.str() + ", expected " + want.type.str();
  int64_t count = 0, first = -1, n = got.type.elements();
  for (int64_t i = 0; i < n; ++i) {
    bool close = isFloat(got.type.dtype)
                     ? isClose(elementAsDouble(got, i), elementAsDouble(want, i), tolerance)
                     : elementAsInt(got, i) == elementAsInt(want, i);
    if (!close && count++ == 0)
      first = i;
  }
  if (!count)
    return "";
  auto text = [&](const Tensor &t) {
    return isFloat(t.type.dtype) ? floatText(elementAsDouble(t, first))
                                 : std::to_string(elementAsInt(t, first));
  };
  return llvm::formatv("differs in {0} of {1} elements; element {2} is {3}, expected {4}", count, n,
                       first, text(got), text(want))
      .str();
}

} // namespace

llvm::Expected<std::vector<TestSet>> readTestData(const std::string &dir) {
  std::vector<TestSet> out;
  bool isSet = llvm::sys::fs::exists(dir + "/output_0.pb");
  for (size_t i = 0;; ++i) {
    std::string each = isSet ? dir : dir + "/test_data_set_" + std::to_string(i);
    if (!llvm::sys::fs::is_directory(each) || (isSet && i))
      break;
    auto set = readSet(each);
    if (!set)
      return set.takeError();
    out.push_back(std::move(*set));
  }
  if (out.empty())
    return makeError("--test-data expects a folder with test_data_set_0, or with input_0.pb and "
                     "output_0.pb, and '{0}' has neither",
                     dir);
  return out;
}

GivenInputs givenBy(const TestSet &set, llvm::ArrayRef<std::string> inputNames) {
  std::vector<std::string> names;
  for (size_t i = 0; i < set.inputs.size(); ++i)
    names.push_back(set.inputs[i].name.empty() && i < inputNames.size() ? inputNames[i]
                                                                        : set.inputs[i].name);
  std::vector<llvm::StringRef> refs(names.begin(), names.end());
  std::vector<std::string> files = fileNames(refs);
  GivenInputs out;
  for (size_t i = 0; i < files.size(); ++i)
    out[files[i]] = {set.inputs[i].tensor, set.dir + "/input_" + std::to_string(i) + ".pb",
                     /*mayBeUnused=*/true};
  return out;
}

llvm::Error checkOutputs(const TestSet &set, const Graph &g, Session &s, Tolerance tolerance) {
  if (set.outputs.size() > g.outputs().size())
    return differsError("{0}: holds {1} outputs, and the model has {2}", set.dir,
                        set.outputs.size(), g.outputs().size());
  std::vector<Diag> diags;
  for (size_t i = 0; i < set.outputs.size(); ++i) {
    ValueId v = g.outputs()[i];
    auto got = s.fetch(v);
    if (!got)
      return got.takeError();
    std::string d = difference(*got, set.outputs[i].tensor, tolerance);
    if (d.empty())
      continue;
    Diag diag;
    diag.message = set.dir + "/output_" + std::to_string(i) + ".pb: output '%" +
                   g.valueName(v).str() + "' " + d;
    diags.push_back(std::move(diag));
  }
  if (!diags.empty())
    return llvm::make_error<ExitError>(std::move(diags), kDiffers);
  return llvm::Error::success();
}

} // namespace isthmus
