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

llvm::Expected<Tensor> asInput(const Graph &g, const Input &input, const Given &given) {
  if (!given.problem.empty())
    return makeError("{0}: {1}", given.from, given.problem);
  auto t = givenInput(g, input, given.tensor);
  if (!t)
    return makeError("{0}: {1}", given.from, plainMessage(t.takeError()));
  return t;
}

// File systems allow 255 bytes; '.npy' and a number for a collision are appended.
constexpr size_t kLongestStem = 230;

std::string shortened(llvm::StringRef file, llvm::StringRef name) {
  std::string hash = llvm::formatv("-{0:x-16}", llvm::xxHash64(name)).str();
  llvm::StringRef start = file.take_front(kLongestStem - hash.size());
  while (!isUtf8(start)) // the cut fell within a character
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

static std::vector<llvm::StringRef> inputNames(const Graph &g) {
  std::vector<llvm::StringRef> names;
  for (const Input &i : g.inputs())
    names.push_back(g.valueName(i.value));
  return names;
}

llvm::Error checkNames(const GivenInputs &given, const Graph &g) {
  const std::vector<llvm::StringRef> names = inputNames(g);
  llvm::StringSet<> known;
  for (llvm::StringRef name : names)
    known.insert(name);
  for (const std::string &file : fileNames(names))
    known.insert(file);
  for (const auto &[name, each] : given)
    if (!each.mayBeUnused && !known.count(name))
      return makeError("'{0}' names no input of the graph{1}", each.from, didYouMean(name, names));
  return llvm::Error::success();
}

// For each input, what is given for it; null: nothing.
static std::vector<const Given *> givenForEach(const Graph &g, const GivenInputs &given) {
  const std::vector<llvm::StringRef> names = inputNames(g);
  const std::vector<std::string> files = fileNames(names);
  // The file of one input may be called like another input. That one's own file tells that it is.
  auto isFromItsFile = [&](size_t i) { return names[i] != files[i] && given.count(files[i]); };
  auto find = [&](size_t i) -> const Given * {
    const size_t namesake = size_t(llvm::find(names, files[i]) - names.begin());
    if (isFromItsFile(i) && llvm::is_contained(files, names[i]))
      return &given.at(files[i]);
    if (namesake < names.size() && namesake != i && !isFromItsFile(namesake))
      return givenFor(given, names[i], names[i]);
    return givenFor(given, names[i], files[i]);
  };
  std::vector<const Given *> out;
  for (size_t i = 0; i < names.size(); ++i)
    out.push_back(find(i));
  return out;
}

llvm::Expected<std::vector<Tensor>> makeInputs(const Graph &g, const GivenInputs &given,
                                               uint64_t seed) {
  if (llvm::Error e = checkNames(given, g))
    return e;
  const std::vector<const Given *> found = givenForEach(g, given);
  std::vector<Tensor> out;
  for (size_t i = 0; i < found.size(); ++i) {
    const Input &input = g.inputs()[i];
    auto t = found[i] ? asInput(g, input, *found[i]) : defaultInput(g, input, seed);
    if (!t)
      return t.takeError();
    out.push_back(std::move(*t));
  }
  return out;
}

std::vector<std::string> sourcesOfInputs(const Graph &g, const GivenInputs &given, uint64_t seed) {
  const std::vector<const Given *> found = givenForEach(g, given);
  std::vector<std::string> out;
  for (size_t i = 0; i < found.size(); ++i) {
    const Initializer &init = g.inputs()[i].init;
    if (found[i])
      out.push_back("from '" + found[i]->from + "'");
    else if (init.kind == Initializer::Kind::None)
      out.push_back("drawn with --seed=" + std::to_string(seed));
    else
      out.push_back(
          "as '" + g.sourceFile + "' gives it" +
          (init.key.empty() || g.weightsFile.empty() ? "" : ", in '" + g.weightsFile + "'"));
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

llvm::Error writeOutputs(const Graph &g, Session &s, const std::string &dir) {
  if (llvm::Error e = makeFolder(dir))
    return addNote(std::move(e), "the folder is that of --outputs");
  std::vector<llvm::StringRef> names = outputNames(g);
  std::vector<std::string> files = fileNames(names);
  nlohmann::ordered_json index = nlohmann::ordered_json::object();
  for (size_t i = 0; i < files.size(); ++i) {
    auto t = s.fetch(g.outputs()[i]);
    if (!t)
      return t.takeError();
    auto write = [&](llvm::raw_pwrite_stream &to) {
      writeNpy(*t, to);
      return llvm::Error::success();
    };
    if (llvm::Error err = writeFileAtomically(dir + "/" + files[i] + ".npy", write))
      return err;
    index[files[i] + ".npy"] = utf8Text(names[i]);
  }
  return writeFileAtomically(dir + kIndex, jsonText(index, 2) + "\n");
}

} // namespace isthmus
