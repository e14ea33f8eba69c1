#include "tools/train/inverse_watch.h"

#include "ir/element.h"
#include "passes/place/place.h"
#include "tools/session/open.h"
#include "tools/train/run_record.h"

namespace isthmus {
namespace {

// The elements of a value that are compared: enough to meet an error that is anywhere, and few
// beside the values that inverses save.
constexpr int64_t kSampled = 4096;

// The contents of all inputs of the step.
llvm::Expected<std::vector<NamedTensor>> contentsOf(const TrainedStep &now) {
  std::vector<NamedTensor> out;
  for (const Input &input : now.compiled.graph.inputs()) {
    auto t = now.session->fetch(input.value);
    if (!t)
      return t.takeError();
    out.push_back({now.compiled.graph.valueName(input.value).str(), std::move(*t)});
  }
  return out;
}

// The same contents for the inputs of `g`, which has the same inputs in perhaps another order.
std::vector<Tensor> inputsFor(const Graph &g, llvm::ArrayRef<NamedTensor> contents) {
  std::vector<Tensor> out(g.inputs().size());
  for (size_t i = 0; i < out.size(); ++i)
    for (const NamedTensor &t : contents)
      if (g.valueName(g.inputs()[i].value) == t.name)
        out[i] = t.tensor;
  return out;
}

} // namespace

llvm::Expected<InverseMeasurement> InverseWatch::measure(const TrainedStep &now,
                                                         const RunState &state,
                                                         llvm::ArrayRef<NamedTensor> inputs,
                                                         bool all, TrainReport &report) const {
  auto run = [&](const Graph &g,
                 llvm::ArrayRef<ValueId> values) -> llvm::Expected<std::vector<double>> {
    auto layout = place(g, device_.target());
    if (!layout)
      return layout.takeError();
    report.measuringArenaBytes = std::max(report.measuringArenaBytes, layout->arenaBytes);
    auto session = Session::open(g, *layout, device_, o_.seed, inputsFor(g, inputs));
    if (!session)
      return session.takeError();
    if (llvm::Error failed = (*session)->step(uint64_t(state.step)))
      return failed;
    std::vector<double> found;
    for (ValueId v : values) {
      auto value = (*session)->fetch(v);
      if (!value)
        return value.takeError();
      found.push_back(elementAsDouble(*value, 0));
    }
    return found;
  };
  auto m = measuredInverses(now.compiled.graph, run, {o_.compile.mostInverseError, all, kSampled});
  if (m)
    report.addInverseErrors(state.step, m->errors);
  return m;
}

llvm::Error InverseWatch::planWithout(llvm::ArrayRef<std::string> values, TrainedStep &now,
                                      RunState &state, llvm::ArrayRef<NamedTensor> inputs,
                                      TrainReport &report) {
  for (const std::string &value : values) {
    o_.compile.ways.neverInverted.push_back(value);
    state.notInverted.push_back({value, state.step});
  }
  const std::string why =
      llvm::formatv("after {0} steps the inverses of {1} values, such as '%{2}', have errors above "
                    "{3}",
                    state.step, values.size(), values.front(),
                    floatText(o_.compile.mostInverseError))
          .str();
  Console::get().note(why + ": the next step is planned without them");
  auto c = compiled(step_, o_.compile, device_.target());
  if (!c)
    return addNote(c.takeError(), why);
  if (c->wasInterrupted)
    return makeError(ErrorKind::Interrupted,
                     "interrupted after step {0}, while its next plan was searched for",
                     state.step);
  const std::string rate = now.compiled.graph.valueName(now.rate).str();
  now.session.reset(); // its memory is free before the next one's is taken
  now.compiled = std::move(*c);
  now.rate = now.compiled.graph.find(rate);
  recordPlan(state.record, now.compiled);
  static_cast<Figures &>(report) = now.compiled.figures;
  report.notInverted = state.notInverted;
  return openSession(now.compiled, device_, o_.seed, inputsFor(now.compiled.graph, inputs))
      .moveInto(now.session);
}

llvm::Error InverseWatch::beforeStep(TrainedStep &now, RunState &state, TrainReport &report) {
  const bool isLast = state.step + 1 == o_.steps;
  const bool isDue = state.step > 0 && o_.every > 0 && state.step % o_.every == 0;
  if (o_.every == 0 || !(isDue || isLast) || now.compiled.figures.inverseErrors.empty())
    return llvm::Error::success();
  auto inputs = contentsOf(now);
  if (!inputs)
    return inputs.takeError();
  // The new plan may have other inverses, which are measured in turn.
  for (int round = 0;; ++round) {
    auto m = measure(now, state, *inputs, /*all=*/round >= kRoundsOfFirsts, report);
    if (!m)
      return m.takeError();
    if (m->tooFar.empty() || !isDue)
      return llvm::Error::success();
    if (llvm::Error e = planWithout(m->tooFar, now, state, *inputs, report))
      return e;
    if (now.compiled.figures.inverseErrors.empty())
      return llvm::Error::success();
  }
}

} // namespace isthmus
