#include "tools/cli/feeds.h"

#include "ir/element.h"
#include "ir/file.h"
#include "ir/json.h"
#include "ir/spelling.h"
#include "tools/cli/npy.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/xxhash.h"

namespace isthmus {
namespace {

// A file of f32 serves a run in every precision: a model's numbers are of f32 on disk, and NumPy
// has no bf16.
Tensor inPrecision(Tensor t, DType to) {
  if (t.type.dtype != DType::F32 || !isFloat(to) || to == DType::F32)
    return t;
  return filledTensor(Type(to, t.type.dims), [&](int64_t i) { return double(t.as<float>()[i]); });
}

// An index out of range makes NaNs; where a file has one, that is told.
llvm::Error checkIndices(const Graph &g, const Input &input, const Tensor &t,
                         const std::string &from) {
  if (isFloat(t.type.dtype))
    return llvm::Error::success();
  for (const IndexReader &reader : indexReaders(g, input.value))
    for (int64_t i = 0, n = t.type.elements(); i < n; ++i)
      if (int64_t index = elementAsInt(t, i); !reader.takes(index))
        return makeError("{0}: input '%{1}' is read by '{2}' as {3} below {4}, and element {5} of "
                         "the file is {6}",
                         from, g.valueName(input.value), reader.call.op->name,
                         reader.call.op->takesIndex ? "a label from 0 on and" : "an index",
                         reader.bound, i, index);
  return llvm::Error::success();
}

// A given tensor as the graph wants it.
llvm::Expected<Tensor> asInput(const Graph &g, const Input &input, const Given &given) {
  const Type &type = g.type(input.value);
  if (!given.problem.empty())
    return makeError("{0}: {1}", given.from, given.problem);
  Tensor t = inPrecision(given.tensor, type.dtype);
  if (t.type != type)
    return makeError("{0}: input '%{1}' is of type {2}, the file holds {3}", given.from,
                     g.valueName(input.value), type.str(), t.type.str());
  if (llvm::Error e = checkIndices(g, input, t, given.from))
    return e;
  return t;
}

} // namespace

namespace {
// 255 bytes are what file systems take; '.npy' and a number for a collision come behind it.
constexpr size_t kLongestStem = 230;

std::string shortened(llvm::StringRef file, llvm::StringRef name) {
  std::string hash = llvm::formatv("-{0:x-16}", llvm::xxHash64(name)).str();
  llvm::StringRef start = file.take_front(kLongestStem - hash.size());
  while (!isUtf8(start)) // cut within a character
    start = start.drop_back();
  return start.str() + hash;
}
} // namespace

std::string fileName(llvm::StringRef name) {
  std::string file = name.str();
  const bool isText = isUtf8(name);
  for (char &c : file)
    if (c == '/' || c == ':' || c == '\\' || c == '\0' || (!isText && !llvm::isASCII(c)))
      c = '_';
  if (file.empty() || file.front() == '.')
    file.insert(file.begin(), '_');
  return file.size() > kLongestStem ? shortened(file, name) : file;
}

std::vector<std::string> fileNames(llvm::ArrayRef<llvm::StringRef> names) {
  std::vector<std::string> out;
  llvm::StringSet<> taken;
  for (llvm::StringRef name : names) {
    std::string base = fileName(name), file = base;
    for (unsigned k = 2; !taken.insert(file).second; ++k)
      file = base + "." + std::to_string(k);
    out.push_back(file);
  }
  return out;
}

llvm::Expected<GivenInputs> readInputs(const std::string &dir) {
  GivenInputs out;
  if (dir.empty())
    return out;
  std::error_code ec;
  llvm::sys::fs::recursive_directory_iterator it(dir, ec, /*follow_symlinks=*/false), end;
  if (ec)
    return makeError("cannot read the folder '{0}' of --inputs: {1}", dir, ec.message());
  for (; !ec && it != end; it.increment(ec)) {
    const std::string &path = it->path();
    if (!llvm::StringRef(path).endswith(".npy"))
      continue;
    llvm::StringRef name = llvm::StringRef(path).drop_front(dir.size()).ltrim('/').drop_back(4);
    Given given{{}, path, /*mayBeUnused=*/name.contains('/'), ""};
    if (given.mayBeUnused && it->type() == llvm::sys::fs::file_type::directory_file)
      continue;
    auto t = readNpy(path);
    if (t)
      given.tensor = std::move(*t);
    else if (given.mayBeUnused)
      given.problem = plainMessage(t.takeError());
    else
      return t.takeError();
    out[name.str()] = std::move(given);
  }
  return out;
}

const Given *givenFor(const GivenInputs &given, llvm::StringRef name, llvm::StringRef file) {
  auto it = given.find(name.str());
  if (it == given.end())
    it = given.find(file.str());
  return it == given.end() ? nullptr : &it->second;
}

const Tensor *tensorFor(const GivenInputs &given, llvm::StringRef input) {
  const Given *found = givenFor(given, input, fileName(input));
  return found && found->tensor ? &found->tensor : nullptr;
}

llvm::Expected<std::vector<Tensor>> makeInputs(const Graph &g, const GivenInputs &given,
                                               uint64_t seed) {
  std::vector<llvm::StringRef> names;
  for (const Input &i : g.inputs())
    names.push_back(g.valueName(i.value));
  std::vector<std::string> files = fileNames(names);
  llvm::StringSet<> known;
  for (size_t i = 0; i < names.size(); ++i) {
    known.insert(names[i]);
    known.insert(files[i]);
  }
  for (const auto &[name, each] : given)
    if (!each.mayBeUnused && !known.count(name))
      return makeError("'{0}' names no input of the graph{1}", each.from, didYouMean(name, names));
  std::vector<Tensor> out;
  for (size_t i = 0; i < files.size(); ++i) {
    const Input &input = g.inputs()[i];
    const Given *found = givenFor(given, names[i], files[i]);
    auto t = found ? asInput(g, input, *found) : defaultInput(g, input, seed);
    if (!t)
      return t.takeError();
    out.push_back(std::move(*t));
  }
  return out;
}

llvm::Error checkOutputsFolder(const std::string &dir) {
  if (dir.empty() || !llvm::sys::fs::exists(dir) || llvm::sys::fs::is_directory(dir))
    return llvm::Error::success();
  return makeError("--outputs expects a folder, and '{0}' is a file", dir);
}

namespace {
std::vector<llvm::StringRef> outputNames(const Graph &g) {
  std::vector<llvm::StringRef> names;
  for (ValueId v : g.outputs())
    names.push_back(g.valueName(v));
  return names;
}
constexpr const char *kIndex = "/names.json";
} // namespace

std::vector<std::string> outputFiles(const Graph &g, const std::string &dir) {
  std::vector<std::string> out;
  for (const std::string &file : fileNames(outputNames(g)))
    out.push_back(dir + "/" + file + ".npy");
  out.push_back(dir + kIndex);
  return out;
}

llvm::Error writeOutputs(const Graph &g, Executor &e, const std::string &dir) {
  if (std::error_code ec = llvm::sys::fs::create_directories(dir))
    return makeError("cannot make the folder '{0}' of --outputs: {1}", dir, ec.message());
  std::vector<llvm::StringRef> names = outputNames(g);
  std::vector<std::string> files = fileNames(names);
  nlohmann::ordered_json index = nlohmann::ordered_json::object();
  for (size_t i = 0; i < files.size(); ++i) {
    auto t = e.fetch(g.outputs()[i]);
    if (!t)
      return t.takeError();
    if (llvm::Error err = writeFileAtomically(dir + "/" + files[i] + ".npy", npyBytes(*t)))
      return err;
    index[files[i] + ".npy"] = utf8Text(names[i]);
  }
  return writeFileAtomically(dir + kIndex, jsonText(index, 2) + "\n");
}

} // namespace isthmus
