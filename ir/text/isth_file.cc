#include "ir/text/isth_file.h"

#include "ir/file.h"
#include "ir/safetensors.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"
#include "ir/text/spelling.h"
#include "llvm/Support/ConvertUTF.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

namespace isthmus {

llvm::Expected<Graph> loadIsth(llvm::StringRef path) {
  auto bytes = readFile(path);
  if (!bytes)
    return bytes.takeError();
  std::optional<Safetensors>
      weights; // opened when first asked for: a graph may name a file and not use it
  auto lookup = [&](llvm::StringRef file, llvm::StringRef key) -> llvm::Expected<Tensor> {
    if (!weights) {
      auto opened = Safetensors::open(pathBeside(path, file));
      if (!opened)
        return opened.takeError();
      weights = std::move(*opened);
    }
    return weights->find(key);
  };
  return parseGraph((*bytes)->getBuffer(), path == "-" ? "<stdin>" : path, lookup);
}

namespace {

constexpr int64_t kMostBytesOnStdout = 1 << 20;

bool isData(const Input &i) { return i.init.kind == Initializer::Kind::Data; }
bool isLarge(const Input &i) {
  return isData(i) && i.init.data && i.init.data.type.elements() > kMostInlineElements;
}

// What a text in the folder of `path` calls the file `weights`, which is named from the current
// folder.
std::string calledFrom(llvm::StringRef path, llvm::StringRef weights) {
  llvm::StringRef here = path == "-" ? "" : llvm::sys::path::parent_path(path);
  if (here == llvm::sys::path::parent_path(weights))
    return llvm::sys::path::filename(weights).str();
  if (here.empty())
    return weights.str();
  llvm::SmallString<256> absolute(weights);
  llvm::sys::fs::make_absolute(absolute);
  return absolute.str().str();
}

// JSON, where keys stand, holds UTF-8 alone; a name that is none is spelt as in the text.
std::string keyOf(llvm::StringRef name) {
  auto *p = reinterpret_cast<const llvm::UTF8 *>(name.begin());
  bool isUtf8 = llvm::isLegalUTF8String(&p, reinterpret_cast<const llvm::UTF8 *>(name.end()));
  return isUtf8 && name != "__metadata__" ? name.str() : quoted(name);
}

// Large data in a new weights file at `weightsPath`; small data, and what has no data, as it is.
llvm::Error writeWeights(const Graph &g, llvm::StringRef path, llvm::StringRef weightsPath,
                         WeightPlaces &places) {
  std::vector<NamedTensor> tensors;
  for (size_t i = 0; i < g.inputs().size(); ++i) {
    const Input &input = g.inputs()[i];
    if (isData(input) && !input.init.data)
      return makeError("cannot write '{0}': the data of '{1}' was not read", path,
                       valueText(g.valueName(input.value)));
    if (!isLarge(input))
      continue;
    places.keys[i] = keyOf(g.valueName(input.value));
    tensors.push_back({places.keys[i], input.init.data});
  }
  if (tensors.empty())
    return llvm::Error::success();
  places.file = calledFrom(path, weightsPath);
  return writeSafetensors(weightsPath, tensors);
}

// On standard output, without a weights file to write: data stands in the text if it is little,
// else in the file that it was read from.
llvm::Error placeOnStdout(const Graph &g, WeightPlaces &places) {
  int64_t bytes = 0, bytesWithoutFile = 0;
  bool mustRefer = false;
  for (const Input &i : g.inputs()) {
    bool isInFile = !i.init.key.empty() && !g.weightsFile.empty();
    mustRefer |= isData(i) && isInFile && !i.init.data;
    if (!isLarge(i))
      continue;
    bytes += i.init.data.bytes();
    bytesWithoutFile += isInFile ? 0 : i.init.data.bytes();
  }
  if (bytesWithoutFile > kMostBytesOnStdout)
    return makeError("{0} bytes of weights are too many for standard output, which takes {1}; name "
                     "a file for them "
                     "with --weights=FILE",
                     bytesWithoutFile, kMostBytesOnStdout);
  if (bytes <= kMostBytesOnStdout && !mustRefer)
    return llvm::Error::success();
  places.file = pathBeside(g.sourceFile, g.weightsFile);
  for (size_t i = 0; i < g.inputs().size(); ++i)
    if (isData(g.inputs()[i]))
      places.keys[i] = g.inputs()[i].init.key;
  return llvm::Error::success();
}

} // namespace

llvm::Error saveIsth(const Graph &g, llvm::StringRef path, const SaveOptions &options) {
  WeightPlaces places;
  places.keys.resize(g.inputs().size());
  if (path == "-" && options.weightsPath.empty()) {
    if (llvm::Error e = placeOnStdout(g, places))
      return e;
  } else {
    llvm::SmallString<256> weightsPath(options.weightsPath.empty() ? path : options.weightsPath);
    if (options.weightsPath.empty())
      llvm::sys::path::replace_extension(weightsPath, "safetensors");
    if (llvm::Error e = writeWeights(g, path, weightsPath, places))
      return e;
  }
  return writeFileAtomically(path, [&](llvm::raw_pwrite_stream &os) {
    printGraph(g, os, &places);
    return llvm::Error::success();
  });
}

} // namespace isthmus
