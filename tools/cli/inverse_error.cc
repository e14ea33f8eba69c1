#include "tools/cli/inverse_error.h"

#include "ir/element.h"
#include "passes/place/place.h"
#include "passes/rewrite/inverse_errors.h"
#include "runtime/executor.h"

namespace isthmus {
namespace {

// After this many plans all inaccurate inverses are excluded at once, not only the first of each
// chain.
constexpr int kPatience = 6;

llvm::Expected<std::vector<double>> measured(const InverseErrors &e, Device &device,
                                             const InverseCheck &check) {
  auto layout = place(e.graph, device.target());
  if (!layout)
    return layout.takeError();
  auto inputs = makeInputs(e.graph, *check.inputs, check.seed);
  if (!inputs)
    return inputs.takeError();
  auto run = Executor::create(e.graph, *layout, device, *inputs);
  if (!run)
    return run.takeError();
  if (llvm::Error failed = (*run)->step({check.seed, 0}))
    return failed;
  std::vector<double> errors;
  for (const InverseErrors::Of &of : e.all) {
    auto most = (*run)->fetch(of.most), scale = (*run)->fetch(of.scale);
    if (!most || !scale)
      return llvm::joinErrors(most.takeError(), scale.takeError());
    const double difference = elementAsDouble(*most, 0);
    errors.push_back(difference == 0 ? 0 : difference / elementAsDouble(*scale, 0));
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

InverseCheck inverseCheck(const ModelOptions &model, const PlanFlags &plan,
                          const GivenInputs &inputs) {
  InverseCheck check;
  check.most = plan.maxInverseError.value_or(check.most);
  check.seed = model.seed;
  check.inputs = &inputs;
  return check;
}

llvm::Expected<Compiled> compiledWithin(Graph g, CompileOptions o, Device &device,
                                        const InverseCheck &check, const std::string &reportPath,
                                        std::map<std::string, double> &errors) {
  const bool isMeasured = o.ways.invert && o.searches() && device.computes();
  for (int round = 0;; ++round) {
    auto c = compiled(isMeasured ? Graph(g) : std::move(g), o, device.target(), reportPath);
    if (!c || !isMeasured || c->figures.inversions == 0 || c->wasInterrupted)
      return c;
    const InverseErrors all = withInverseErrors(c->graph);
    auto found = measured(all, device, check);
    if (!found)
      return found.takeError();
    const auto names = tooFar(c->graph, all, *found, check.most, round >= kPatience);
    if (names.empty()) {
      for (size_t i = 0; i < found->size(); ++i) {
        double &error = errors[c->graph.valueName(all.all[i].value).str()];
        error = std::max(error, (*found)[i]);
      }
      return c;
    }
    Console::get().note(llvm::formatv("the inverses of {0} values, such as '%{2}', have errors "
                                      "above {1}: planned again without them",
                                      names.size(), floatText(check.most), names.front())
                            .str());
    o.ways.neverInverted.insert(o.ways.neverInverted.end(), names.begin(), names.end());
    if (round == 0)
      o.step.note = nullptr; // printed by the first plan
  }
}

} // namespace isthmus
