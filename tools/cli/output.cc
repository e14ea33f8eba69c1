#include "tools/cli/output.h"

#include "ir/file.h"
#include "ir/onnx/export/exporter.h"
#include "ir/text/isth_file.h"
#include "passes/inspect/dot.h"
#include "tools/cli/console.h"
#include "tools/cli/exit.h"
#include "tools/cli/feeds.h"

namespace isthmus {

llvm::Error checkGraphPath(llvm::StringRef path, llvm::StringRef weights) {
  if (weights == "-")
    return usageError("--weights expects a file, and '-' is none");
  if (path.empty() || path == "-" || path.endswith(".isth") || path.endswith(".onnx"))
    return llvm::Error::success();
  return usageError("a graph is written to a file whose name ends in .isth or .onnx, got '{0}'",
                    path);
}

llvm::Error checkPicturePath(llvm::StringRef path) {
  if (path.empty() || path == "-" || path.endswith(".dot") || path.endswith(".svg"))
    return llvm::Error::success();
  return usageError("a picture is written to a file whose name ends in .dot or .svg, got '{0}'",
                    path);
}

void addGraphPaths(CommandPaths &paths, const std::string &path, const std::string &weights) {
  const bool isStdout = path.empty() || path == "-";
  paths.writes("-o", isStdout ? "-" : path);
  paths.writes("--weights", weights);
  const char *beside = "the weights of -o";
  if (llvm::StringRef(path).endswith(".onnx"))
    paths.writes(beside, dataPathFor(path));
  else if (weights.empty() && !isStdout)
    paths.writes(beside, weightsPathFor(path));
}

llvm::Error writeGraph(const Graph &g, const std::string &path, const std::string &weights) {
  if (llvm::StringRef(path).endswith(".onnx")) {
    if (!weights.empty())
      return usageError("--weights goes with an .isth; large weights of '{0}' go to "
                        "'{0}.data'",
                        path);
    OnnxExportOptions options;
    options.draw = [&](const Input &input) { return defaultInput(g, input, /*seed=*/0); };
    options.note = [](const std::string &text) { Console::get().note(text); };
    return saveOnnx(g, path, options);
  }
  SaveOptions options;
  options.weightsPath = weights;
  if (!weights.empty() && !pathWithin(folderOf(path), weights))
    Console::get().note("'" + weights +
                        "' lies outside the folder of the graph, so that reading "
                        "it takes --allow-outside");
  return saveIsth(g, path.empty() ? "-" : path, options);
}

llvm::Error writePicture(const Graph &g, llvm::ArrayRef<ValueId> checkpoints,
                         const std::string &path) {
  DotOptions options;
  options.kept.assign(checkpoints.begin(), checkpoints.end());
  return writePicture(dotText(g, options), path);
}

llvm::Error writePicture(const std::string &dot, const std::string &path) {
  if (!llvm::StringRef(path).endswith(".svg"))
    return writeFileAtomically(path.empty() ? "-" : path, dot);
  auto svg = renderSvg(dot);
  if (!svg)
    return svg.takeError();
  return writeFileAtomically(path, *svg);
}

} // namespace isthmus
