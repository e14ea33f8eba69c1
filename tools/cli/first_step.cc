#include "tools/cli/first_step.h"

#include "ir/element.h"
#include "passes/place/place.h"
#include "runtime/session.h"

namespace isthmus {

FirstStep firstStepOn(Device &device, const GivenInputs &given, uint64_t seed) {
  if (!device.computes())
    return nullptr;
  return [&device, given, seed](const Graph &g, llvm::ArrayRef<ValueId> values)
             -> llvm::Expected<std::vector<double>> {
    auto layout = place(g, device.target());
    if (!layout)
      return layout.takeError();
    auto inputs = makeInputs(g, given, seed);
    if (!inputs)
      return inputs.takeError();
    auto run = Session::open(g, *layout, device, seed, std::move(*inputs));
    if (!run)
      return run.takeError();
    if (llvm::Error failed = (*run)->step(0))
      return failed;
    std::vector<double> found;
    for (ValueId v : values) {
      auto value = (*run)->fetch(v);
      if (!value)
        return value.takeError();
      found.push_back(elementAsDouble(*value, 0));
    }
    return found;
  };
}

} // namespace isthmus
