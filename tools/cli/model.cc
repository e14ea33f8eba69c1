#include "tools/cli/model.h"

#include "ir/onnx/import.h"
#include "ir/text/isth_file.h"
#include "ir/verifier.h"
#include "kernels/fold.h"
#include "passes/simplify/dce.h"
#include "tools/cli/compiled.h"
#include "tools/cli/exit.h"
#include "tools/cli/parameters.h"
#include "tools/cli/unused_dims.h"

namespace isthmus {
namespace {

Outside outsideOf(const ModelOptions &o) {
  return o.allowOutside ? Outside::Allowed : Outside::Refused;
}

llvm::Expected<Graph> readOnnx(const ModelOptions &o, CommandPaths &paths,
                               const GivenInputs &given) {
  OnnxOptions onnx;
  auto dims = dimBindings(o);
  if (!dims)
    return dims.takeError();
  onnx.dims = *dims;
  std::set<std::string> lacked;
  if (o.unusedDims)
    onnx.lacksDim = [&](const std::string &name) { lacked.insert(name); };
  auto ties = tiesOf(o);
  if (!ties)
    return ties.takeError();
  onnx.ties = std::move(*ties);
  onnx.untie = parseNameList(o.untie);
  if (Wrt wrt = parseWrt(o.wrt); wrt.kind == Wrt::Kind::Named)
    onnx.learn = parseNameList(wrt.names);
  onnx.fold = foldWithPlainKernels;
  onnx.note = [](const Remark &r) { Console::get().note(r); };
  onnx.inputValue = [&](llvm::StringRef input) { return tensorFor(given, input); };
  onnx.outside = outsideOf(o);
  onnx.reads = [&](const std::string &path) { paths.reads("external data of " + o.model, path); };
  auto g = importOnnx(o.model, onnx);
  if (!g)
    return g.takeError();
  if (o.unusedDims)
    o.unusedDims->lackedBy(lacked);
  return withoutDeadNodes(*g);
}

} // namespace

llvm::Expected<Graph> loadModel(const ModelOptions &o, CommandPaths &paths,
                                const GivenInputs &given) {
  bool isOnnx = llvm::StringRef(o.model).endswith(".onnx");
  if (!isOnnx && o.model != "-" && !llvm::StringRef(o.model).endswith(".isth"))
    return makeError("'{0}' is neither an .onnx nor an .isth file; the name tells the format",
                     o.model);
  for (const auto &[name, each] : given)
    paths.reads("--inputs", each.from);
  paths.reads("--load", o.load);
  auto g = isOnnx ? readOnnx(o, paths, given) : loadIsth(o.model, outsideOf(o));
  if (!g)
    return g.takeError();
  if (!isOnnx && !(o.ties.empty() && o.untie.empty()))
    return usageError("--tie and --untie tell what tensors of .onnx files mean; in an .isth "
                      "file every parameter has one name");
  if (!g->weightsFile.empty())
    paths.reads("the weights of " + o.model, pathBeside(o.model, g->weightsFile));
  if (llvm::Error e = paths.check())
    return e;
  if (!isOnnx && o.unusedDims) {
    auto dims = dimBindings(o);
    if (!dims)
      return dims.takeError();
    std::set<std::string> lacked;
    for (const auto &[name, size] : *dims)
      lacked.insert(name);
    o.unusedDims->lackedBy(lacked);
  } else if (!isOnnx && !o.dims.empty()) {
    return usageError("--dim binds symbolic sizes of .onnx files; those of an .isth are constant");
  }
  if (llvm::Error e = verify(*g))
    return e;
  if (!o.load.empty())
    return withParameters(*g, o.load);
  return g;
}

llvm::Error checkDifferentiates(const Graph &g, const ModelOptions &o) {
  if (!g.hasBackward() || (o.loss.empty() && o.wrt.empty()))
    return llvm::Error::success();
  return usageError(
      "the graph is differentiated already, so --loss and --wrt have no meaning here; `isthmus "
      "grad` differentiates again");
}

} // namespace isthmus
