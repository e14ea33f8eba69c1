#include "tests/random/check_graph.h"

#include "ir/equal_graphs.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"
#include "ir/verifier.h"
#include "kernels/cpu.h"
#include "kernels/plain/register.h"
#include "passes/convert.h"
#include "passes/dce.h"
#include "passes/differentiate.h"
#include "passes/original.h"
#include "passes/place.h"
#include "passes/plan/keep.h"
#include "passes/policy.h"
#include "passes/rematerialize.h"
#include "runtime/cpu_device.h"
#include "runtime/executor.h"
#include "tests/random/smooth.h"
#include "tests/testing/interpret.h"
#include "tests/testing/random_graph.h"
#include <cmath>

namespace isthmus {

using llvm::toString;

namespace {

const RandomKey kKey = {7, 1};

// What gradients are taken by: floats that are fed or learned, of the loss's type.
ValueList differentiableInputs(const Graph &g) {
  ValueList xs;
  for (const Input &i : g.inputs())
    if (g.type(i.value).dtype == g.type(g.loss).dtype &&
        (i.kind == InputKind::Param || i.kind == InputKind::Input))
      xs.push_back(i.value);
  return xs;
}

// Elements apart by more than the share `tolerance` of the largest, or "".
std::string differs(const Tensor &got, const Tensor &want, double tolerance) {
  std::vector<double> a = toDoubles(got), b = toDoubles(want);
  double largest = 1;
  for (double v : b)
    largest = std::max(largest, std::fabs(v));
  for (size_t i = 0; i < a.size(); ++i)
    if (!(std::fabs(a[i] - b[i]) <= tolerance * largest))
      return llvm::formatv("element {0} is {1}, expected {2}", i, floatText(a[i]), floatText(b[i]));
  return "";
}

std::string differsAnywhere(const Graph &g, llvm::ArrayRef<Tensor> got, llvm::ArrayRef<Tensor> want,
                            double tolerance) {
  for (size_t i = 0; i < want.size(); ++i) {
    std::string d = differs(got[i], want[i], isFloat(want[i].type.dtype) ? tolerance : 0);
    if (!d.empty())
      return "output '" + g.valueName(g.outputs()[i]).str() + "': " + d;
  }
  return "";
}

std::string bitsDiffer(const Graph &g, llvm::ArrayRef<Tensor> got, llvm::ArrayRef<Tensor> want) {
  for (size_t i = 0; i < want.size(); ++i)
    if (!sameBits(got[i], want[i])) {
      std::string d = differs(got[i], want[i], 0);
      return "output '" + g.valueName(g.outputs()[i]).str() +
             "' has other bits: " + (d.empty() ? "a sign of zero" : d);
    }
  return "";
}

} // namespace

struct GraphChecker::Case {
  const Graph &forward;
  uint64_t seed;
  NamedTensors inputs;
  ValueList xs;
  Graph training; // forward and gradients
};

GraphChecker::GraphChecker() {
  registerPlainKernels(plain_);
  plainDevice_ = makeCpuDevice(plain_, 2);
  fastDevice_ = makeCpuDevice(cpuKernels(), 2);
}

llvm::ArrayRef<llvm::StringRef> GraphChecker::names() {
  static constexpr llvm::StringRef all[] = {"text",   "run",       "rewrites", "first",
                                            "second", "precision", "halves"};
  return all;
}

std::string GraphChecker::check(const Graph &g, uint64_t seed) {
  ++counts.graphs;
  for (llvm::StringRef name : names())
    if (std::string d = check(g, seed, name); !d.empty())
      return d;
  return "";
}

std::string GraphChecker::check(const Graph &g, uint64_t seed, llvm::StringRef name) {
  Case c{g, seed, drawInputs(g, seed), differentiableInputs(g), g};
  auto fail = [&](const std::string &what) {
    return what.empty() ? what : name.str() + ": " + what;
  };
  auto grads = gradients(c.training, {g.loss}, c.xs);
  if (!grads)
    return fail("no gradient: " + toString(grads.takeError()));
  addGradientOutputs(c.training, c.xs, *grads);
  if (seed % 2)
    c.training = withoutDeadNodes(c.training);
  using Check = std::string (GraphChecker::*)(const Case &);
  static constexpr Check checks[] = {&GraphChecker::text,     &GraphChecker::run,
                                     &GraphChecker::rewrites, &GraphChecker::first,
                                     &GraphChecker::second,   &GraphChecker::precision,
                                     &GraphChecker::halves};
  for (size_t i = 0; i < names().size(); ++i)
    if (names()[i] == name)
      return fail((this->*checks[i])(c));
  return fail("there is no such check");
}

// --- Text

std::string GraphChecker::text(const Case &c) {
  counts.nodes += c.training.numNodes();
  for (const Graph *g : {&c.forward, &c.training}) {
    if (llvm::Error e = verify(*g))
      return toString(std::move(e));
    std::string text = graphText(*g), reason;
    auto parsed = parseGraph(text, "printed.isth");
    if (!parsed)
      return toString(parsed.takeError());
    if (!equalGraphs(*g, *parsed, &reason))
      return "printed and parsed it is another graph: " + reason;
    if (graphText(*parsed) != text)
      return "parsed and printed it is another text";
  }
  return "";
}

// --- Running

llvm::Expected<std::vector<Tensor>> GraphChecker::reference(const Graph &g,
                                                            const NamedTensors &inputs) {
  return interpret(plain_, g, byValue(g, inputs), {1, kKey});
}

// Two steps in one arena, so that the second finds what the first left there.
llvm::Expected<std::vector<Tensor>> GraphChecker::execute(const Graph &g, Device &device,
                                                          const NamedTensors &inputs,
                                                          std::optional<int64_t> peak) {
  auto layout = place(g, device.target());
  if (!layout)
    return layout.takeError();
  if (peak && layout->peakBytes != *peak)
    return makeError("the layout's peak is {0}, predicted were {1}", layout->peakBytes, *peak);
  auto e = Executor::create(g, *layout, device);
  if (!e)
    return e.takeError();
  for (const Input &i : g.inputs())
    if (llvm::Error error = (*e)->feed(i.value, inputs.at(g.valueName(i.value).str())))
      return error;
  for (int step = 0; step < 2; ++step)
    if (llvm::Error error = (*e)->step(kKey))
      return error;
  if ((*e)->measuredPeakBytes() != layout->peakBytes)
    return makeError("the measured peak is {0}, that of the layout {1}", (*e)->measuredPeakBytes(),
                     layout->peakBytes);
  std::vector<Tensor> out;
  for (ValueId v : g.outputs()) {
    auto t = (*e)->fetch(v);
    if (!t)
      return t.takeError();
    out.push_back(*t);
  }
  return out;
}

std::string GraphChecker::run(const Case &c) {
  auto want = reference(c.training, c.inputs);
  if (!want)
    return toString(want.takeError());
  for (size_t i = 0; i < want->size(); ++i)
    for (double v : toDoubles((*want)[i]))
      if (!std::isfinite(v))
        return "output '" + c.training.valueName(c.training.outputs()[i]).str() + "' is not finite";
  auto got = execute(c.training, *plainDevice_, c.inputs);
  if (!got)
    return toString(got.takeError());
  if (std::string d = bitsDiffer(c.training, *got, *want); !d.empty())
    return d;
  auto fast = execute(c.training, *fastDevice_, c.inputs);
  if (!fast)
    return "fast kernels: " + toString(fast.takeError());
  if (jumps(c.training)) // rounding may turn a comparison
    return "";
  double tolerance = c.training.type(c.training.loss).dtype == DType::F64 ? 1e-9 : 2e-3;
  if (std::string d = differsAnywhere(c.training, *fast, *want, tolerance); !d.empty())
    return "fast kernels: " + d;
  return "";
}

// --- Rewrites

namespace {

plan::Schedule randomKeeping(const plan::Problem &p, Random &random) {
  std::vector<std::vector<bool>> keep;
  size_t share = 1 + random.below(5);
  for (const plan::Op &op : p.ops) {
    keep.emplace_back(std::max<size_t>(1, op.outputBytes.size()));
    for (size_t o = 0; o < keep.back().size(); ++o)
      keep.back()[o] = random.oneIn(share);
  }
  return plan::scheduleKeeping(p, keep);
}

// Any op that may, again at any place, any number of times.
plan::Schedule randomRecomputing(const plan::Problem &p, Random &random) {
  plan::Schedule s;
  for (plan::OpIndex op : plan::sourceOrder(p)) {
    s.push_back(op);
    while (random.oneIn(4)) {
      plan::OpIndex again = s[random.below(s.size())];
      if (p.ops[again].recomputable)
        s.push_back(again);
    }
  }
  return s;
}

} // namespace

std::string GraphChecker::rewrites(const Case &c) {
  const Graph &g = c.training;
  const bool useFast = c.seed % 4 == 3;
  Device &device = useFast ? *fastDevice_ : *plainDevice_;
  auto want = useFast ? execute(g, device, c.inputs) : reference(g, c.inputs);
  if (!want)
    return toString(want.takeError());
  auto p = extractProblem(g, device.target());
  if (!p)
    return toString(p.takeError());
  Random random(c.seed);
  std::vector<std::pair<std::string, plan::Schedule>> schedules;
  schedules.emplace_back("random checkpoints", randomKeeping(p->problem, random));
  schedules.emplace_back("random recomputations", randomRecomputing(p->problem, random));
  for (Policy policy : {Policy::None, Policy::Speed, Policy::Memory, Policy::Collection}) {
    auto plan = planPolicy(g, *p, {policy, ""});
    if (!plan) { // a graph may have no matrix product, no mark, nothing to recompute
      llvm::consumeError(plan.takeError());
      continue;
    }
    if (plan->planned.peakBytes > plan->baseline.peakBytes)
      return "policy " + policyName(policy).str() + " needs more than no policy";
    schedules.emplace_back("policy " + policyName(policy).str(), plan->schedule);
  }
  for (auto &[what, schedule] : schedules) {
    plan::Evaluation predicted = plan::evaluate(p->problem, schedule);
    if (!predicted.error.empty())
      return what + ": " + predicted.error;
    Graph rewritten = rematerialize(g, *p, schedule);
    if (llvm::Error e = verify(rewritten))
      return what + ": " + toString(std::move(e));
    auto got = execute(rewritten, device, c.inputs, predicted.peakBytes);
    if (!got)
      return what + ": " + toString(got.takeError());
    if (std::string d = bitsDiffer(g, *got, *want); !d.empty())
      return what + ": " + d;
    if (!equalGraphs(originalOf(rewritten), g, nullptr))
      return what + ": the original of the rewritten graph is not the graph";
    ++counts.rewrites;
  }
  return "";
}

// --- Gradients

// The gradient of the loss by `xs`, times a random direction, against central differences along it.
// One of three step widths must agree: the largest may step over a bend, the smallest is rounding.
std::string GraphChecker::directional(const Graph &g, llvm::ArrayRef<ValueId> xs,
                                      const NamedTensors &inputs, uint64_t seed) {
  Graph d = g;
  auto grads = gradients(d, {g.loss}, xs);
  if (!grads)
    return toString(grads.takeError());
  ValueList found;
  for (ValueId v : *grads)
    if (v)
      found.push_back(v);
  d.setOutputs(found);
  auto values = reference(d, inputs);
  if (!values)
    return toString(values.takeError());

  std::map<std::string, std::vector<double>> direction;
  double analytic = 0, size = 0;
  for (size_t i = 0, next = 0; i < xs.size(); ++i) {
    const std::string name = g.valueName(xs[i]).str();
    std::vector<double> &along = direction[name] = toDoubles(draw(g.type(xs[i]), seed + 31 * i));
    if (!(*grads)[i])
      continue;
    std::vector<double> grad = toDoubles((*values)[next++]);
    for (size_t e = 0; e < grad.size(); ++e) {
      analytic += grad[e] * along[e];
      size += std::fabs(grad[e] * along[e]);
    }
  }

  Graph f = g;
  f.setOutputs({g.loss});
  f = withoutDeadNodes(f);
  double largest = 0;
  auto lossAt = [&](double step) -> llvm::Expected<double> {
    NamedTensors moved = inputs;
    for (auto &[name, along] : direction) {
      std::vector<double> x = toDoubles(inputs.at(name));
      for (size_t e = 0; e < x.size(); ++e)
        x[e] += step * along[e];
      moved[name] = fromDoubles(inputs.at(name).type, x);
    }
    auto y = reference(f, moved);
    if (!y)
      return y.takeError();
    double sum = 0;
    for (double v : toDoubles((*y)[0])) {
      sum += v;
      largest = std::max(largest, std::fabs(v));
    }
    return sum;
  };
  std::string tried;
  for (double h : {1e-5, 1e-4, 1e-6, 1e-7}) {
    auto above = lossAt(h), below = lossAt(-h);
    if (!above || !below) {
      std::string what = above ? "" : toString(above.takeError());
      return what + (below ? "" : toString(below.takeError()));
    }
    double numeric = (*above - *below) / (2 * h);
    if (std::fabs(numeric - analytic) <= 1e-6 * (1 + size) + 1e-14 * largest / h)
      return "";
    tried += llvm::formatv(" {0} for a step of {1},", floatText(numeric), floatText(h));
  }
  tried.pop_back();
  return llvm::formatv("the gradient in a direction is {0}, differences give{1}",
                       floatText(analytic), tried);
}

// Steps may turn the order of values that are equal but for rounding.
std::string GraphChecker::excused(const Graph &g, std::string difference) {
  if (difference.empty() || !jumps(g))
    return difference;
  ++counts.excused;
  return "";
}

std::string GraphChecker::first(const Case &c) {
  if (!isDifferentiableInF64(c.forward))
    return "";
  ++counts.first;
  return excused(c.forward, directional(c.forward, c.xs, c.inputs, c.seed));
}

std::string GraphChecker::second(const Case &c) {
  if (!isDifferentiableInF64(c.forward))
    return "";
  Graph g = c.forward;
  NamedTensors inputs = c.inputs;
  auto grads = gradients(g, {g.loss}, c.xs);
  if (!grads)
    return toString(grads.takeError());
  Builder b(g, Phase::Backward);
  ValueId sum;
  for (size_t i = 0; i < grads->size(); ++i) {
    if (!(*grads)[i])
      continue;
    ValueId along = llvm::cantFail(
        g.addInput(InputKind::Input, "along." + g.valueName(c.xs[i]).str(), g.type(c.xs[i])));
    inputs[g.valueName(along).str()] = draw(g.type(along), c.seed + 77 * i);
    ValueId each = b.sum(b.mul((*grads)[i], along), {}, /*keepDims=*/false);
    sum = sum ? b.add(sum, each) : each;
  }
  if (!sum)
    return "";
  g.loss = sum;
  g.setOutputs({sum});
  ++counts.second;
  std::string d = excused(withoutDeadNodes(g), directional(g, c.xs, inputs, c.seed + 1));
  if (!d.empty())
    return d;
  // The gradient of the gradient in the arena.
  auto twice = gradients(g, {sum}, c.xs);
  if (!twice)
    return toString(twice.takeError());
  addGradientOutputs(g, c.xs, *twice);
  g = withoutDeadNodes(g);
  auto want = reference(g, inputs), got = execute(g, *plainDevice_, inputs);
  if (!want || !got) {
    std::string what = want ? "" : toString(want.takeError());
    return what + (got ? "" : toString(got.takeError()));
  }
  return bitsDiffer(g, *got, *want);
}

// --- Precision

// Rounded to the types of `g`; its own data are rounded already.
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
  auto want = reference(wide, wideInputs), got = reference(*narrow, narrowInputs);
  if (!want || !got) {
    std::string what = want ? "" : toString(want.takeError());
    return what + (got ? "" : toString(got.takeError()));
  }
  return differsAnywhere(wide, *got, *want, 2e-3);
}

std::string GraphChecker::halves(const Case &c) {
  if (c.forward.type(c.forward.loss).dtype != DType::F64 || fixesPrecision(c.forward))
    return "";
  auto narrow = withPrecision(c.forward, c.seed % 4 < 2 ? DType::BF16 : DType::F16);
  if (!narrow) { // an op may meet statistics, which are f32 then, beside halves
    llvm::consumeError(narrow.takeError());
    return "";
  }
  ++counts.halves;
  Graph &g = *narrow;
  ValueList xs = differentiableInputs(g);
  auto grads = gradients(g, {g.loss}, xs);
  if (!grads)
    return toString(grads.takeError());
  addGradientOutputs(g, xs, *grads);
  if (llvm::Error e = verify(g))
    return toString(std::move(e));
  NamedTensors inputs = converted(c.inputs, g);
  auto want = reference(g, inputs), got = execute(g, *plainDevice_, inputs);
  if (!want || !got) {
    std::string what = want ? "" : toString(want.takeError());
    return what + (got ? "" : toString(got.takeError()));
  }
  return bitsDiffer(g, *got, *want);
}

} // namespace isthmus
