#include "tools/cli/compiled.h"

#include "ir/file.h"
#include "tools/cli/budget.h"
#include "tools/cli/bug.h"
#include "tools/cli/exit.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus {
namespace {

llvm::Expected<std::optional<LossOptions>> lossOf(const ModelOptions &o, const GivenInputs &given) {
  if (o.loss.empty())
    return std::nullopt;
  auto loss = parseLoss(o.loss);
  if (!loss)
    return loss.takeError();
  loss->classAxis = o.classAxis;
  loss->ignoreIndex = o.ignoreIndex;
  if (const Tensor *labels = tensorFor(given, "labels"))
    loss->labels = labels->type;
  return *loss;
}

PlanChoice planOf(const PlanFlags &o) {
  if (o.checkpoints)
    return PolicyOptions{Policy::Collection, *o.checkpoints};
  if (o.policy)
    return PolicyOptions{*o.policy, "", o.smallestCheckpoint.value_or(kSmallestCheckpoint)};
  if (o.budget)
    return *o.budget;
  return AsItIs();
}

Ways waysOf(const PlanFlags &o) {
  Ways ways;
  if (!o.allow.empty()) {
    ways.recompute = o.allows(kRecomputeWay);
    ways.fetch = o.allows(kFetchWay);
    ways.encode = o.allows(kEncodeWay);
    ways.invert = o.allows(kInvertWay);
    ways.chunk = o.allows(kChunkWay);
  }
  ways.iterations = o.iterations.value_or(0);
  ways.hostBytes = o.hostMemory.value_or(ways.hostBytes);
  return ways;
}

} // namespace

llvm::Expected<CompileOptions> compileOptions(const ModelOptions &model, const PlanFlags &plan,
                                              const GivenInputs &given) {
  CompileOptions o;
  if (!model.precision.empty())
    o.precision = model.precision == kTf32 ? DType::F32 : *parseDType(model.precision);
  auto loss = lossOf(model, given);
  if (!loss)
    return loss.takeError();
  o.step.loss = std::move(*loss);
  o.step.wrt = parseWrt(model.wrt);
  o.step.keepsOutputs = model.keepOutputs;
  o.step.mode = model.eval        ? ModeSource::Eval
                : model.asWritten ? ModeSource::AsWritten
                                  : ModeSource::Rule;
  o.step.note = [](const Remark &r) { Console::get().note(r); };
  o.exactOnly = model.asWritten;
  o.layout = model.layout == kLastLayout    ? ChannelLayout::Last
             : model.layout == kFirstLayout ? ChannelLayout::First
                                            : ChannelLayout::Auto;
  o.plan = planOf(plan);
  o.ways = waysOf(plan);
  o.chunks = plan.chunks;
  o.microBatches = plan.microBatches.value_or(0);
  o.batch = plan.batch;
  if (plan.batchNorm == kMicroNorm)
    o.step.normParts = o.microBatches;
  if (plan.hasStages)
    o.stages = plan.stages;
  o.memoryLimitBytes = plan.memoryLimit;
  o.mostAdded = plan.maxAdded;
  o.effort = plan.effort;
  o.seed = model.seed;
  o.mostInverseError = plan.maxInverseError.value_or(o.mostInverseError);
  return o;
}

std::function<bool(const plan::SearchProgress &)> WatchedSearch::progress() {
  interrupt_.setHasResult(false);
  return [this](const plan::SearchProgress &now) {
    if (now.cost > 0)
      interrupt_.setHasResult(true);
    bar_.at(static_cast<size_t>(double(kParts) * now.share));
    return !wasInterrupted();
  };
}

llvm::Expected<Compiled> compiled(Graph g, CompileOptions o, const Target &target,
                                  const std::string &reportPath) {
  std::optional<WatchedSearch> search; // without a search, an interrupt ends the process
  if (o.searches())
    o.progress = search.emplace().progress();
  const Graph given = g; // for the report of a bug
  GraphAtHand atHand(given);
  auto c = compile(std::move(g), o, target);
  if (search)
    search->ended();
  if (c) {
    c->wasInterrupted |= search && search->wasInterrupted(); // also after the search
    return c;
  }
  return llvm::handleErrors(withSavedGraph(c.takeError()),
                            [&](std::unique_ptr<NotWithin> e) -> llvm::Error {
                              if (llvm::Error failed = writeReport(Report(e->figures), reportPath))
                                return failed;
                              return llvm::Error(std::move(e));
                            });
}

llvm::Error checkOneDevice(const Compiled &c, llvm::StringRef verb) {
  if (c.programs.empty())
    return llvm::Error::success();
  return usageError("{0} looks at a step that is whole, and this one runs in stages on {1} "
                    "device{2}; leave out --stages and mpirun, or see `isthmus explain`",
                    verb, c.programs.size(), c.programs.size() == 1 ? "" : "s");
}

llvm::Error interruptedError() {
  return makeError(ErrorKind::Interrupted, "interrupted: the best plan until then was taken");
}

} // namespace isthmus
