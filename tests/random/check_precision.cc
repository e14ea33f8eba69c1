// Checks graphs in other types than their own.

#include "ir/verifier.h"
#include "passes/lower/convert.h"
#include "tests/random/check_graph.h"
#include "tests/random/joint_graphs.h"
#include "tests/random/smooth.h"

namespace isthmus {

using llvm::toString;

// The inputs, rounded to the types of `g`. The graph's own data are rounded already.
static NamedTensors converted(const NamedTensors &inputs, const Graph &g) {
  NamedTensors out;
  for (const Input &i : g.inputs()) {
    const std::string name = g.valueName(i.value).str();
    out[name] = i.init.kind == Initializer::Kind::Data
                    ? i.init.data
                    : fromDoubles(g.type(i.value), toDoubles(inputs.at(name)));
  }
  return out;
}

std::string GraphChecker::precision(const Case &c) {
  const Graph &wide = c.forward;
  if (!isDifferentiableInF64(wide) || jumps(wide) || fixesPrecision(wide))
    return "";
  auto narrow = withPrecision(wide, DType::F32);
  if (!narrow)
    return toString(narrow.takeError());
  ++counts.precision;
  NamedTensors narrowInputs = converted(c.inputs, *narrow), wideInputs;
  for (const auto &[name, t] : c.inputs)
    wideInputs[name] = fromDoubles(t.type, toDoubles(narrowInputs[name]));
  auto want = runner_.reference(wide, wideInputs), got = runner_.reference(*narrow, narrowInputs);
  if (!want || !got)
    return errorsOf(want, got);
  return valuesDiffer(wide, *got, *want, 2e-3);
}

std::string GraphChecker::halves(const Case &c) {
  if (c.forward.type(c.forward.loss).dtype != DType::F64 || fixesPrecision(c.forward))
    return "";
  auto narrow = withPrecision(c.forward, c.seed % 4 < 2 ? DType::BF16 : DType::F16);
  if (!narrow) { // an op may read 16-bit values beside statistics, which are f32
    llvm::consumeError(narrow.takeError());
    return "";
  }
  ++counts.halves;
  auto g = firstOrder(*narrow);
  if (!g)
    return toString(g.takeError());
  if (llvm::Error e = verify(*g))
    return toString(std::move(e));
  Case half{*narrow, c.seed, converted(c.inputs, *g), std::move(*g)};
  if (std::string d = runner_.executorDiffers(half.training, half.inputs); !d.empty())
    return d;
  return chunks(half);
}

} // namespace isthmus
