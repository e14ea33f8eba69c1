#include "tools/train/dataset.h"

#include "ir/element.h"
#include "ir/splitmix64.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>
#include <cstring>
#include <numeric>

namespace isthmus {
namespace {

// Constants that separate the draws of different uses.
constexpr uint64_t kShuffleStream = 0x5eed'0001, kNoiseStream = 0x5eed'0002;

uint64_t streamOf(uint64_t seed, uint64_t use, uint64_t number) {
  return splitMix64(splitMix64(splitMix64(seed) ^ use) ^ number);
}

const Input *firstInput(const Graph &g) {
  const auto *found =
      llvm::find_if(g.inputs(), [](const Input &i) { return i.kind == InputKind::Input; });
  return found == g.inputs().end() ? nullptr : found;
}

// The names that an array for the input may have, best first. Losses call their inputs `labels` and
// `target`.
std::vector<std::string> arrayNames(const Graph &g, const Input &input, Split split) {
  const std::string name = g.valueName(input.value).str();
  const bool isAnswer = name == "labels" || name == "target";
  std::vector<std::string> names;
  auto addFor = [&](const std::string &suffix) {
    names.push_back(name + suffix);
    if (isAnswer)
      names.push_back("y" + suffix);
    else if (&input == firstInput(g) && name != "x")
      names.push_back("x" + suffix);
  };
  if (split == Split::Train)
    names.push_back(name);
  addFor(split == Split::Train ? "_train" : "_test");
  if (split == Split::Own)
    names.push_back(name);
  return names;
}

std::optional<std::string> arrayFor(const Npz &file, const Graph &g, const Input &input,
                                    Split split) {
  for (const std::string &name : arrayNames(g, input, split))
    if (file.has(name))
      return name;
  return std::nullopt;
}

Dims withoutOnes(llvm::ArrayRef<int64_t> dims) {
  Dims out;
  llvm::copy_if(dims, std::back_inserter(out), [](int64_t d) { return d != 1; });
  return out;
}

int64_t productOf(llvm::ArrayRef<int64_t> dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t(1), std::multiplies<>());
}

// Whether examples of both shapes are equal, up to dimensions of 1 and flattening.
bool isSameExample(llvm::ArrayRef<int64_t> given, llvm::ArrayRef<int64_t> wanted) {
  return withoutOnes(given) == withoutOnes(wanted) ||
         (wanted.size() == 1 && wanted[0] == productOf(given));
}

bool converts(DType from, DType to) { return isFloat(to) || !isFloat(from); }

std::string shapeText(llvm::ArrayRef<int64_t> dims) {
  std::vector<std::string> sizes;
  for (int64_t d : dims)
    sizes.push_back(std::to_string(d));
  return "[" + llvm::join(sizes, ", ") + "]";
}

// The dimensions of an example in an array; the array's first size counts examples.
llvm::ArrayRef<int64_t> exampleDims(const Type &array) {
  return llvm::makeArrayRef(array.dims).drop_front();
}
// The dimensions of an example in an input. The input's first size is the batch, or a multiple of
// it if the parts of an example, such as the tokens of a text, are stored one after the other.
Dims exampleDims(const Type &input, int64_t batch) {
  Dims dims = input.dims;
  if (dims[0] == batch)
    dims.erase(dims.begin());
  else
    dims[0] /= batch;
  return dims;
}

} // namespace

bool Dataset::isIn(const Npz &file, const Graph &g, Split split) {
  return llvm::any_of(g.inputs(), [&](const Input &input) {
    return input.kind == InputKind::Input && arrayFor(file, g, input, split);
  });
}

llvm::Expected<Dataset> Dataset::of(const Npz &file, const Graph &g, Split split,
                                    const GivenInputs &given, const DataOptions &o) {
  Dataset d;
  d.o_ = o;
  for (const Input &input : g.inputs()) {
    llvm::StringRef name = g.valueName(input.value);
    if (input.kind != InputKind::Input || input.init.kind != Initializer::Kind::None ||
        tensorFor(given, name))
      continue;
    auto array = arrayFor(file, g, input, split);
    if (!array)
      return makeError("{0}: expected an array for the input '%{1}', called {2}; it has {3}",
                       file.path(), name, llvm::join(arrayNames(g, input, split), " or "),
                       file.names().empty() ? "no arrays" : llvm::join(file.names(), ", "));
    if (llvm::Error e = d.add(file, g, input, *array))
      return e;
  }
  if (d.arrays_.empty())
    return makeError("the model has no input that examples could be fed to");
  if (o.levels > 0)
    if (llvm::Error e = d.checkLevels(file.path()))
      return e;
  return d;
}

std::string Dataset::digest() const {
  std::vector<NamedTensor> tensors;
  for (const Array &a : arrays_)
    tensors.push_back({a.input + " " + a.name, a.data});
  return digestOf(tensors);
}

std::vector<std::pair<std::string, std::string>> Dataset::digestsOfArrays() const {
  std::vector<std::pair<std::string, std::string>> out;
  for (const Array &a : arrays_)
    out.push_back({a.name, digestOf({NamedTensor{a.name, a.data}})});
  return out;
}

llvm::Error Dataset::add(const Npz &file, const Graph &g, const Input &input,
                         const std::string &array) {
  auto data = file.find(array);
  if (!data)
    return data.takeError();
  Array a{g.valueName(input.value).str(), g.type(input.value), std::move(*data), array};
  if (arrays_.empty() && a.type.rank() > 0)
    batch_ = a.type.dims[0];
  if (llvm::Error e = checkFits(file.path(), a))
    return e;
  if (llvm::Error e = checkIndices(g, input, a.data))
    return locate(std::move(e), file.path() + ": " + array);
  examples_ = a.data.type.dims[0];
  arrays_.push_back(std::move(a));
  return llvm::Error::success();
}

llvm::Error Dataset::checkFits(const std::string &path, const Array &a) const {
  const Type &given = a.data.type;
  if (a.type.rank() == 0 || batch_ <= 0 || a.type.dims[0] % batch_ != 0)
    return makeError("the input '%{0}' is of type {1}; expected the first size of every input to "
                     "be the batch, which is {2} by the first input, or a multiple of it "
                     "(--inputs gives an input that is the same in every step)",
                     a.input, a.type.str(), batch_);
  const Dims wanted = exampleDims(a.type, batch_);
  if (given.rank() == 0 || !isSameExample(exampleDims(given), wanted))
    return makeError("{0}: expected examples of {1} for the input '%{2}', of type {3}, and '{4}' "
                     "is of type {5}",
                     path, shapeText(wanted), a.input, a.type.str(), a.name, given.str());
  if (!converts(given.dtype, a.type.dtype))
    return makeError("{0}: expected whole numbers for the input '%{1}', of type {2}, and '{3}' is "
                     "of type {4}",
                     path, a.input, a.type.str(), a.name, given.str());
  if (!arrays_.empty() && given.dims[0] != examples_)
    return makeError(
        "{0}: expected as many examples in '{1}' as in '{2}', which are {3}, and found "
        "{4}",
        path, a.name, arrays_.front().name, examples_, given.dims[0]);
  if (given.dims[0] < batch_)
    return makeError("{0}: expected at least a batch of {1} examples in '{2}', and found {3}; the "
                     "batch is the first size of the model's inputs",
                     path, batch_, a.name, given.dims[0]);
  return llvm::Error::success();
}

llvm::Error Dataset::checkLevels(const std::string &path) const {
  const Array &first = arrays_.front();
  if (!isFloat(first.type.dtype))
    return makeError("--levels dequantises the first input, '%{0}', which is of type {1}; expected "
                     "one of floats",
                     first.input, first.type.str());
  for (int64_t i = 0, n = first.data.type.elements(); i < n; ++i) {
    const double v = elementAsDouble(first.data, i);
    if (!(v >= 0 && v < double(o_.levels) && v == std::floor(v)))
      return makeError("{0}: expected whole numbers from 0 to {1} in '{2}' (--levels={3}), and its "
                       "element {4} is {5}",
                       path, o_.levels - 1, first.name, o_.levels, i, v);
  }
  return llvm::Error::success();
}

int64_t Dataset::elementsOfExample() const {
  return productOf(exampleDims(arrays_.front().data.type));
}

std::vector<NamedTensor> Dataset::batchOf(llvm::ArrayRef<int64_t> examples, uint64_t draw) const {
  std::vector<NamedTensor> out;
  for (const Array &a : arrays_)
    out.push_back({a.input, batchOf(a, examples, draw)});
  return out;
}

llvm::Error Dataset::feed(Session &session, const Graph &g, llvm::ArrayRef<int64_t> examples,
                          uint64_t draw) const {
  for (const Array &a : arrays_)
    if (ValueId to = g.find(a.input))
      if (llvm::Error failed = session.feed(to, batchOf(a, examples, draw)))
        return failed;
  return llvm::Error::success();
}

Tensor Dataset::batchOf(const Array &a, llvm::ArrayRef<int64_t> examples, uint64_t draw) const {
  const int64_t each = productOf(exampleDims(a.data.type));
  const uint64_t noise = streamOf(o_.seed, kNoiseStream, draw);
  const bool hasNoise = &a == &arrays_.front() && o_.levels > 0,
             copies = a.type.dtype == a.data.type.dtype && !hasNoise;
  auto valueOf = [&](int64_t from, int64_t at) {
    const double v = elementAsDouble(a.data, from);
    if (!hasNoise)
      return v;
    const double u = double(splitMix64(noise + uint64_t(at)) >> 11) * 0x1p-53;
    const auto x = static_cast<float>((v + u) / double(o_.levels) - 0.5);
    return double(std::min(x, std::nextafter(0.5F, 0.0F))); // rounding may give 1/2
  };
  return Tensor::make(a.type, [&](char *out) {
    const size_t bytes = size_t(each * dtypeBytes(a.type.dtype));
    for (size_t b = 0; b < examples.size(); ++b) {
      const int64_t from = examples[b] * each, at = int64_t(b) * each;
      if (copies)
        std::memcpy(out + b * bytes, a.data.data + size_t(examples[b]) * bytes, bytes);
      else
        for (int64_t i = 0; i < each; ++i)
          setElement(a.type.dtype, out, at + i, valueOf(from + i, at + i));
    }
  });
}

llvm::ArrayRef<int64_t> Shuffle::epoch(int64_t number) {
  if (drawn_ == number)
    return order_;
  std::iota(order_.begin(), order_.end(), int64_t(0));
  uint64_t state = streamOf(seed_, kShuffleStream, uint64_t(number));
  for (size_t left = order_.size(); left > 1; --left) { // Fisher and Yates
    const auto other = size_t((unsigned __int128)nextSplitMix64(state) * left >> 64);
    std::swap(order_[left - 1], order_[other]);
  }
  drawn_ = number;
  return order_;
}

} // namespace isthmus
