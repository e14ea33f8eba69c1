#include "tools/sweep/subject.h"

#include "ir/onnx/import.h"
#include "passes/lower/batch.h"
#include "passes/rewrite/original.h"
#include "tools/cli/console.h"
#include "tools/cli/exit.h"
#include "tools/cli/model.h"

namespace isthmus {
namespace {

constexpr llvm::StringLiteral kZooPrefix = "zoo:";

Tensor scalar(double value) {
  return Tensor::make(Type(DType::F64, {}),
                      [&](char *to) { std::memcpy(to, &value, sizeof value); });
}

llvm::Error checkZooOptions(const ModelOptions &o) {
  if (o.dims.empty() && o.ties.empty() && o.untie.empty() && o.load.empty())
    return llvm::Error::success();
  return usageError("--dim, --tie, --untie and --load are for models in files, and '{0}' is made "
                    "here; its sizes are options of their own, such as --batch",
                    o.model);
}

} // namespace

SweepSubject::SweepSubject(ModelOptions o, ZooOptions zoo,
                           std::optional<OptimizerOptions> optimizer, CommandPaths &paths)
    : o_(std::move(o)), zoo_(std::move(zoo)), optimizer_(std::move(optimizer)), paths_(paths),
      isZoo_(llvm::StringRef(o_.model).startswith(kZooPrefix)) {}

llvm::Expected<SweepSubject> SweepSubject::open(ModelOptions o, ZooOptions zoo,
                                                std::optional<OptimizerOptions> optimizer,
                                                CommandPaths &paths) {
  SweepSubject s(std::move(o), std::move(zoo), std::move(optimizer), paths);
  if (s.isZoo_) {
    if (llvm::Error e = checkZooOptions(s.o_))
      return e;
  } else {
    if (!s.zoo_.empty())
      return usageError("--{0} makes a model of the zoo, and '{1}' is a file; expected zoo:NAME, "
                        "such as zoo:resnet",
                        s.zoo_.begin()->first, s.o_.model);
    paths.reads("MODEL", s.o_.model);
  }
  if (llvm::Error e = paths.check())
    return e;
  if (llvm::Error e = readInputs(s.o_.inputs).moveInto(s.given_))
    return e;
  return s;
}

// --- The graph

llvm::Expected<Graph> SweepSubject::zooModelAt(const ModelSizes &sizes) {
  ZooOptions options = zoo_;
  if (sizes.batch)
    options["batch"] = std::to_string(*sizes.batch);
  if (sizes.depth)
    options["depth"] = std::to_string(*sizes.depth);
  auto g = buildZoo(llvm::StringRef(o_.model).drop_front(kZooPrefix.size()), options);
  if (!g || !o_.loss.empty() || hasLoss(*g, {}))
    return g;
  o_.loss = "cross_entropy";
  Console::get().note(
      {"the model has no loss of its own: cross_entropy is taken", {"loss", "", "name another"}});
  return g;
}

llvm::Expected<Graph> SweepSubject::fileAt(const ModelSizes &sizes) {
  if (sizes.depth)
    return usageError("--depth is for models of the zoo, such as zoo:resnet; '{0}' is a file, "
                      "whose depth is fixed",
                      o_.model);
  ModelOptions o = o_;
  bool isOpen = false; // the file leaves the batch open, and the import sets it
  if (sizes.batch && llvm::StringRef(o_.model).endswith(".onnx"))
    if (llvm::Error e = bindBatch(*sizes.batch, o).moveInto(isOpen))
      return e;
  auto g = loadModel(o, paths_, given_);
  if (!g)
    return g;
  if (llvm::Error e = checkDifferentiates(*g, o_))
    return e;
  return sizes.batch && !isOpen ? withBatch(*g, *sizes.batch) : std::move(g);
}

// Binds the model's first sizes if it leaves them open; returns whether it does.
llvm::Expected<bool> SweepSubject::bindBatch(int64_t batch, ModelOptions &o) const {
  auto names = onnxBatchSizes(o_.model);
  if (!names)
    return names.takeError();
  for (const std::string &name : *names)
    o.dims.push_back(name + "=" + std::to_string(batch));
  for (const std::string &dim : o_.dims)
    if (llvm::is_contained(*names, llvm::StringRef(dim).rsplit('=').first))
      return usageError("--batch sets '{0}', and so does --dim {1}; give one of them",
                        llvm::StringRef(dim).rsplit('=').first, dim);
  return !names->empty();
}

llvm::Expected<Graph> SweepSubject::modelAt(const ModelSizes &sizes) {
  return isZoo_ ? zooModelAt(sizes) : fileAt(sizes);
}

// Afterwards the graph is in its precision and mode, and differentiated.
llvm::Error SweepSubject::addUpdates() {
  auto options = isthmus::compileOptions(o_, {}, given_);
  if (!options)
    return options.takeError();
  auto g = prepared(std::move(graph_), *options);
  if (!g)
    return g.takeError();
  auto updated = withUpdates(g->wasPlanned() ? originalOf(*g) : *g, *optimizer_);
  if (!updated)
    return updated.takeError();
  constexpr double kRate = 1e-3;
  given_[updated->graph.valueName(updated->rate).str()] = Given{scalar(kRate), "--optimizer"};
  graph_ = std::move(updated->graph);
  return llvm::Error::success();
}

llvm::Error SweepSubject::resize(const ModelSizes &sizes) {
  if (llvm::Error e = modelAt(sizes).moveInto(graph_))
    return e;
  return optimizer_ ? addUpdates() : llvm::Error::success();
}

llvm::Expected<std::vector<int64_t>> SweepSubject::depths(int64_t batch, int64_t most) const {
  if (!isZoo_)
    return std::vector<int64_t>{1}; // making the graph will refuse it
  ZooOptions options = zoo_;
  if (batch > 0)
    options["batch"] = std::to_string(batch);
  return zooDepths(llvm::StringRef(o_.model).drop_front(kZooPrefix.size()), options, most);
}

// --- How to compile it

llvm::Expected<CompileOptions> SweepSubject::compileOptions(const SweepMode &mode) {
  auto options = isthmus::compileOptions(o_, mode.plan, given_);
  if (!options)
    return options;
  options->step.note = [this](const Remark &r) {
    std::string kind = r.text;
    llvm::erase_if(kind, llvm::isDigit);
    if (told_.insert(kind).second)
      Console::get().note(r);
  };
  if (optimizer_) {
    options->precision.reset();
    options->differentiates = false;
    options->step.mode = ModeSource::Rule;
  }
  return options;
}

} // namespace isthmus
