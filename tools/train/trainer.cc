#include "tools/train/trainer.h"

#include "ir/element.h"
#include "ir/loss_value.h"
#include "ir/storage.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include <chrono>
#include <cmath>

namespace isthmus {
namespace {

using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string figure(double d) { return llvm::formatv("{0:F4}", d).str(); }

// "epoch 3, step 66: test loss 0.1234, accuracy 97.5 %".
std::string textOf(const Evaluation &v) {
  std::string text = llvm::formatv("epoch {0}, step {1}:", v.epoch, v.step).str();
  if (v.loss)
    text += " test loss " + figure(*v.loss);
  if (v.accuracy)
    text += llvm::formatv("{0} accuracy {1:F2} %", v.loss ? "," : "", 100 * *v.accuracy).str();
  if (v.bitsPerDimension)
    text += ", " + figure(*v.bitsPerDimension) + " bits per dimension";
  return text;
}

} // namespace

llvm::Error Trainer::feed(const RunState &state, Shuffle &shuffle) {
  llvm::ArrayRef<int64_t> batch =
      shuffle.epoch(state.epoch).slice(size_t(state.position), size_t(state.batch));
  if (llvm::Error failed = data_.feed(session(), graph(), batch, uint64_t(state.step)))
    return failed;
  const double rate = o_.rate.at(state.step);
  return session().feed(step_.rate, Tensor::make(graph().type(step_.rate), [&](char *to) {
                          setElement(DType::F64, to, 0, rate);
                        }));
}

// Runs one step and returns its loss; NaN if the graph has none.
llvm::Expected<double> Trainer::step(const RunState &state) {
  if (llvm::Error failed = session().step(uint64_t(state.step)))
    return failed;
  auto loss = session().loss();
  if (!loss)
    return loss.takeError();
  return loss->value_or(NAN);
}

// Call after a step, before its states are carried to the next one.
llvm::Error Trainer::recordOutputs(TrainReport &report) {
  const Graph &g = graph();
  for (size_t i = 0; i < g.outputs().size(); ++i) {
    const ValueId v = g.outputs()[i];
    const Type &type = g.type(v);
    if (g.role(i).kind != OutputKind::Result || v == lossOf(g) || !isFloat(type.dtype) ||
        type.elements() != 1)
      continue;
    auto value = session().fetch(v);
    if (!value)
      return value.takeError();
    report.outputs[g.valueName(v).str()].push_back(elementAsDouble(*value, 0));
  }
  return llvm::Error::success();
}

// Whether no label of this batch counts in a loss that leaves some out: its mean is then 0 / 0.
llvm::Expected<bool> Trainer::leavesOutAllLabels() {
  const Graph &g = graph();
  const std::vector<ValueId> roots = storageRoots(g);
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    const Node &n = g.node(NodeId(i));
    const Attr *ignored = n.attrs.find("ignore");
    for (size_t o = 0; ignored && o < n.operands.size(); ++o) {
      const ValueId v = n.operands[o];
      if (isFloat(g.type(v).dtype) || g.value(roots[v.index]).def) // labels, and those of the data
        continue;
      auto labels = session().fetch(v);
      if (!labels)
        return labels.takeError();
      auto isLeftOut = [&](int64_t k) {
        return llvm::is_contained(n.attrs.getInts("ignore"), elementAsInt(*labels, k));
      };
      const auto all = llvm::seq<int64_t>(0, labels->type.elements());
      if (!all.empty() && llvm::all_of(all, isLeftOut))
        return true;
    }
  }
  return false;
}

llvm::Error Trainer::notFinite(const RunState &state, double loss) {
  const std::string kept = o_.save.empty() ? "nothing is saved (--save)"
                           : savedStep_ >= 0
                               ? llvm::formatv("'{0}' has step {1}", o_.save, savedStep_).str()
                               : llvm::formatv("nothing is written to '{0}'", o_.save).str();
  if (std::isnan(loss)) {
    auto hasNone = leavesOutAllLabels();
    if (!hasNone)
      return hasNone.takeError();
    if (*hasNone)
      return makeError("the loss is not a number at step {0}: all labels of its batch are labels "
                       "that do not count (--ignore-index), and the loss is a mean over the "
                       "others; {1}; leave such examples out of the data, or make the batch larger",
                       state.step + 1, kept);
  }
  return makeError("the loss is {0} at step {1}: the run diverged, and ends here; {2}; give a "
                   "smaller --lr than {3}, --warmup or --clip-norm",
                   std::isnan(loss) ? "not a number" : "infinite", state.step + 1, kept,
                   floatText(o_.rate.most));
}

llvm::Error Trainer::save(const RunState &state) {
  if (o_.save.empty() || savedStep_ == state.step)
    return llvm::Error::success();
  auto checkpoint = takeCheckpoint(graph(), session(), state);
  if (!checkpoint)
    return checkpoint.takeError();
  llvm::Error failed = writeCheckpoint(o_.save, *checkpoint);
  if (failed && interrupt_.happened()) { // a signal removes the file that is being written
    llvm::consumeError(std::move(failed));
    failed = writeCheckpoint(o_.save, *checkpoint);
  }
  if (failed)
    return failed;
  savedStep_ = state.step;
  return llvm::Error::success();
}

// Saves a checkpoint after the last complete step and returns the error of an interrupt.
llvm::Error Trainer::interrupted(const RunState &state) {
  if (llvm::Error failed = save(state))
    return failed;
  return makeError(ErrorKind::Interrupted, "interrupted after step {0} of {1}; {2}", state.step,
                   o_.rate.steps,
                   o_.save.empty() ? "nothing is saved (--save)"
                                   : "--resume=" + o_.save + " goes on from there");
}

llvm::Error Trainer::evaluate(const RunState &state, TrainReport &report) {
  if (!evaluator_)
    return llvm::Error::success();
  auto v = evaluator_->run(session(), graph());
  if (!v)
    return v.takeError();
  v->epoch = state.epoch;
  v->step = state.step;
  Console::get().line(textOf(*v));
  report.evaluations.push_back(*v);
  return llvm::Error::success();
}

// Evaluates and saves when either is due.
llvm::Error Trainer::finishStep(RunState &state, TrainReport &report) {
  ++state.step;
  state.position += state.batch;
  const bool endsEpoch = state.position + state.batch > state.examples;
  if (endsEpoch) { // the remaining examples are left out
    ++state.epoch;
    state.position = 0;
  }
  if (endsEpoch || state.step == o_.rate.steps)
    if (llvm::Error failed = evaluate(state, report))
      return failed;
  const bool isDue = o_.saveEvery > 0 ? state.step % o_.saveEvery == 0 : endsEpoch;
  return isDue ? save(state) : llvm::Error::success();
}

llvm::Error Trainer::run(RunState &state, TrainReport &report) {
  Shuffle shuffle(state.seed, state.examples);
  ProgressBar bar("training", size_t(o_.rate.steps));
  const auto start = Clock::now();
  const int64_t first = state.step;
  while (state.step < o_.rate.steps) {
    const auto stepStart = Clock::now();
    if (llvm::Error failed = feed(state, shuffle))
      return failed;
    if (llvm::Error failed = watch_.beforeStep(step_, state, report))
      return step_.session ? llvm::joinErrors(save(state), std::move(failed)) : std::move(failed);
    auto loss = step(state);
    if (!loss)
      return loss.takeError();
    if (!std::isfinite(*loss))
      return notFinite(state, *loss);
    if (llvm::Error failed = recordOutputs(report))
      return failed;
    if (llvm::Error failed = session().carryState())
      return failed;
    report.stepSeconds.push_back(secondsSince(stepStart));
    report.loss.push_back(*loss);
    report.learningRate.push_back(o_.rate.at(state.step));
    if (o_.levels > 0)
      report.bitsPerDimension.push_back(
          bitsPerDimension(*loss, data_.elementsOfExample(), o_.levels));
    report.measuredPeakBytes = {session().largestMeasuredPeak()};
    if (llvm::Error failed = finishStep(state, report))
      return failed;
    bar.at(size_t(state.step),
           {"loss " + figure(*loss),
            llvm::formatv("{0:F1} steps/s", double(state.step - first) / secondsSince(start)).str(),
            "peak " + bytesText(session().largestMeasuredPeak())});
    auto isInterrupted = session().anyOf(interrupt_.happened());
    if (!isInterrupted)
      return isInterrupted.takeError();
    if (*isInterrupted && state.step < o_.rate.steps)
      return interrupted(state);
  }
  return save(state);
}

} // namespace isthmus
