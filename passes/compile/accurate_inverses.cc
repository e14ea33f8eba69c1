#include "passes/compile/accurate_inverses.h"

#include "ir/attr.h"
#include "passes/compile/planning.h"
#include "passes/rewrite/inverse_errors.h"

namespace isthmus {
namespace {

// The error of each inverse, as a share of the largest element of the value that it rebuilds.
llvm::Expected<std::vector<double>> measured(const InverseErrors &e, const FirstStep &firstStep) {
  std::vector<ValueId> values;
  for (const InverseErrors::Of &of : e.all)
    values.insert(values.end(), {of.most, of.scale});
  auto found = firstStep(e.graph, values);
  if (!found)
    return found;
  std::vector<double> errors;
  for (size_t i = 0; i < e.all.size(); ++i) {
    const double difference = (*found)[2 * i], scale = (*found)[2 * i + 1];
    errors.push_back(difference == 0 ? 0 : difference / scale);
  }
  return errors;
}

// The values whose inverse is too inaccurate: the first of each chain of inverses, since it may
// cause the errors of the others.
std::vector<std::string> tooFar(const Graph &g, const InverseErrors &e,
                                const std::vector<double> &errors, double most, bool all) {
  std::vector<bool> isTainted(errors.size(), false); // rebuilt from inaccurate values
  std::vector<std::string> names;
  for (size_t i = 0; i < errors.size(); ++i) {
    for (size_t from : e.all[i].from)
      isTainted[i] = isTainted[i] || isTainted[from];
    const bool isTooFar = !(errors[i] <= most); // true for NaN, too
    if (isTooFar && (all || !isTainted[i]))
      names.push_back(g.valueName(e.all[i].value).str());
    isTainted[i] = isTainted[i] || isTooFar;
  }
  return names;
}

} // namespace

const ErrorsOfInverses::value_type *largestError(const ErrorsOfInverses &errors) {
  const ErrorsOfInverses::value_type *largest = nullptr;
  for (const auto &each : errors)
    if (!largest || !(each.second <= largest->second))
      largest = &each;
  return largest;
}

llvm::Expected<InverseMeasurement> measuredInverses(const Graph &g, const FirstStep &run,
                                                    const MeasureOptions &o) {
  const InverseErrors all = withInverseErrors(g, o.mostElements);
  auto errors = measured(all, run);
  if (!errors)
    return errors.takeError();
  InverseMeasurement m;
  for (size_t i = 0; i < errors->size(); ++i) {
    double &error = m.errors[g.valueName(all.all[i].value).str()];
    error = (*errors)[i] <= error ? error : (*errors)[i]; // NaN counts as larger
  }
  m.tooFar = tooFar(g, all, *errors, o.most, o.all);
  return m;
}

llvm::Expected<Compiled> plannedAccurately(Graph given, CompileOptions o, const Target &target) {
  const NoteSink note = o.step.note;
  for (int round = 0;; ++round) {
    auto c = planned(given, o, target);
    if (!c || c->figures.inversions == 0 || c->wasInterrupted)
      return c;
    auto m = measuredInverses(c->graph, o.firstStep,
                              {o.mostInverseError, /*all=*/round >= kRoundsOfFirsts});
    if (!m)
      return m.takeError();
    if (m->tooFar.empty()) {
      c->figures.inverseErrors = std::move(m->errors);
      return c;
    }
    if (note)
      note(llvm::formatv("the inverses of {0} values, such as '%{1}', have errors above {2}: "
                         "planned again without them",
                         m->tooFar.size(), m->tooFar.front(), floatText(o.mostInverseError))
               .str());
    o.ways.neverInverted.insert(o.ways.neverInverted.end(), m->tooFar.begin(), m->tooFar.end());
    o.step.note = nullptr; // the first plan told its notes
  }
}

} // namespace isthmus
