#include "ir/text/isth_file.h"

#include "ir/file.h"
#include "ir/safetensors.h"
#include "ir/spelling.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

namespace isthmus {

namespace {

llvm::Expected<Safetensors> openWeights(llvm::StringRef path, llvm::StringRef file,
                                        llvm::StringRef digest, Outside outside) {
  auto source = openFileBeside(folderOf(path), file, outside);
  if (!source)
    return source.takeError();
  auto weights = Safetensors::parse(std::move(*source), pathBeside(path, file));
  if (!weights || digest.empty())
    return weights;
  auto found = weights->metadata().find(kDigestKey);
  if (found != weights->metadata().end() && found->second == digest)
    return weights;
  return makeError("'{0}' does not hold the weights that this graph was written with: expected "
                   "digest '{1}', found {2}; write both again, or take 'digest' and what follows "
                   "it out of the line 'weights' to use them as they are",
                   file, digest,
                   found == weights->metadata().end() ? "none" : "'" + found->second + "'");
}

} // namespace

llvm::Expected<Graph> loadIsth(llvm::StringRef path, Outside outside) {
  auto bytes = readFile(path);
  if (!bytes)
    return bytes.takeError();
  std::optional<Safetensors>
      weights; // opened at the first lookup: a graph may name a file and not use it
  auto lookup = [&](llvm::StringRef file, llvm::StringRef digest,
                    llvm::StringRef key) -> llvm::Expected<Tensor> {
    if (!weights) {
      auto opened = openWeights(path, file, digest, outside);
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

// The path by which a text in the folder of `path` refers to `weights`, which is relative to the
// current folder. Files outside of that folder get an absolute path.
std::string calledFrom(llvm::StringRef path, llvm::StringRef weights) {
  if (auto within = pathWithin(folderOf(path), weights))
    return *within;
  llvm::SmallString<256> absolute(weights);
  llvm::sys::fs::make_absolute(absolute);
  return absolute.str().str();
}

std::string keyOf(llvm::StringRef name) {
  return name == "__metadata__" ? quoted(name) : utf8Text(name);
}

// Collects the large data and sets their keys in the weights file; small data is printed inline.
llvm::Expected<std::vector<NamedTensor>> largeData(const Graph &g, llvm::StringRef path,
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
  return tensors;
}

// For standard output without a weights file to write: small data is printed inline, and large data
// stays in the file that it was read from.
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
    return addRemedy(makeError("{0} bytes of weights are too many for standard output, which takes "
                               "{1}",
                               bytesWithoutFile, kMostBytesOnStdout),
                     {"weights", "FILE", "name a file for them"});
  if (bytes <= kMostBytesOnStdout && !mustRefer)
    return llvm::Error::success();
  std::string file = pathBeside(g.sourceFile, g.weightsFile);
  places.file = calledFrom("-", file);
  places.digest = g.weightsDigest;
  for (size_t i = 0; i < g.inputs().size(); ++i)
    if (isData(g.inputs()[i]))
      places.keys[i] = g.inputs()[i].init.key;
  return llvm::Error::success();
}

} // namespace

llvm::Error saveIsth(const Graph &g, llvm::StringRef path, const SaveOptions &options) {
  WeightPlaces places;
  places.keys.resize(g.inputs().size());
  auto writeText = [&](llvm::raw_pwrite_stream &os) {
    printGraph(g, os, &places);
    return llvm::Error::success();
  };
  if (path == "-" && options.weightsPath.empty()) {
    if (llvm::Error e = placeOnStdout(g, places))
      return e;
    return writeFileAtomically(path, writeText);
  }
  auto large = largeData(g, path, places);
  if (!large)
    return large.takeError();
  if (large->empty())
    return writeFileAtomically(path, writeText);
  const std::string weights =
      options.weightsPath.empty() ? weightsPathFor(path) : options.weightsPath;
  places.file = calledFrom(path, weights);
  places.digest = digestOf(*large);
  auto writeWeights = [&](llvm::raw_pwrite_stream &os) {
    return printSafetensors(os, weights, *large);
  };
  return writeFilesTogether({{weights, writeWeights}, {path.str(), writeText}});
}

std::string weightsPathFor(llvm::StringRef path) {
  llvm::SmallString<256> weights(path);
  llvm::sys::path::replace_extension(weights, "safetensors");
  return weights.str().str();
}

} // namespace isthmus
