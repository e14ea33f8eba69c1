#include "tools/train/evaluator.h"

#include "ir/element.h"
#include "ir/storage.h"
#include "tools/cli/processes.h"
#include "tools/session/open.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>
#include <numeric>

namespace isthmus {
namespace {

// The numbers of elements before, along and after an axis.
struct Split3 {
  int64_t outer = 1, size = 1, inner = 1;
};
Split3 splitAt(const Type &t, int64_t axis) {
  Split3 s;
  for (int64_t i = 0; i < t.rank(); ++i)
    (i < axis ? s.outer : i == axis ? s.size : s.inner) *= t.dims[size_t(i)];
  return s;
}

int64_t bestClass(const Tensor &scores, const Split3 &s, int64_t outer, int64_t inner) {
  int64_t best = 0;
  double most = -INFINITY;
  for (int64_t k = 0; k < s.size; ++k)
    if (double v = elementAsDouble(scores, (outer * s.size + k) * s.inner + inner); v > most) {
      most = v;
      best = k;
    }
  return best;
}

} // namespace

double bitsPerDimension(double nats, int64_t elements, int64_t levels) {
  return nats / (double(elements) * std::log(2.0)) + std::log2(double(levels));
}

// Finds the first node that reads labels. The op's row tells the axis of the classes.
std::optional<Evaluator::Scored> Evaluator::findScored(const Graph &g) {
  const std::vector<ValueId> roots = storageRoots(g);
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    const Node &n = g.node(NodeId(i));
    const Attr *axis = n.attrs.find("axis");
    if (!n.op->takesIndex || !axis || n.operands.size() < 2)
      continue;
    ValueId scores = n.operands[0], labels = roots[n.operands[1].index];
    const int64_t rank = g.type(scores).rank(), at = std::get<int64_t>(*axis);
    if (g.inputOf(labels) && isFloat(g.type(scores).dtype))
      return Scored{scores, labels, at < 0 ? at + rank : at, n.attrs.getInts("ignore")};
  }
  return std::nullopt;
}

llvm::Expected<std::unique_ptr<Evaluator>> Evaluator::create(Graph forward, CompileOptions o,
                                                             const GivenInputs &given, Dataset data,
                                                             int64_t levels, Device &device) {
  std::unique_ptr<Evaluator> e(new Evaluator(std::move(data), levels, device));
  std::optional<Scored> scored = findScored(forward);
  std::string scores, labels; // their names
  Type type;                  // of the scores
  if (scored) {
    if (!llvm::is_contained(forward.outputs(), scored->scores))
      forward.addOutput(scored->scores);
    scores = forward.valueName(scored->scores).str();
    labels = forward.valueName(scored->labels).str();
    type = forward.type(scored->scores);
  }
  o.plan = AsItIs();
  o.memoryLimitBytes.reset();
  e->seed_ = o.seed;
  auto c = compile(std::move(forward), o, device.target());
  if (!c)
    return c.takeError();
  e->c_ = std::move(*c);
  // The compiled graph has them again, unless the device's layout gives the scores another form.
  const Graph &g = e->c_.graph;
  if (scored) {
    scored->scores = g.find(scores);
    scored->labels = g.find(labels);
    if (scored->scores && scored->labels && llvm::is_contained(g.outputs(), scored->scores) &&
        g.inputOf(scored->labels) && g.type(scored->scores) == type)
      e->scored_ = std::move(scored);
  }
  auto inputs = makeInputs(e->c_.graph, given, o.seed);
  if (!inputs)
    return inputs.takeError();
  e->inputs_ = std::move(*inputs);
  return e;
}

// The inputs: parameters and states as `trained` has them, and the others with their constant
// values.
llvm::Expected<std::vector<Tensor>> Evaluator::carriedFrom(Session &trained, const Graph &g) const {
  std::vector<Tensor> out = inputs_;
  for (size_t i = 0; i < out.size(); ++i) {
    const Input &input = c_.graph.inputs()[i];
    const ValueId from = g.find(c_.graph.valueName(input.value));
    if (from && (input.kind == InputKind::Param || input.kind == InputKind::State))
      if (llvm::Error e = trained.fetch(from).moveInto(out[i]))
        return e;
  }
  return out;
}

// Counts the labels of the first `examples` of a batch, and those that are predicted.
llvm::Expected<Evaluator::Count> Evaluator::countRight(Session &e, int64_t examples) const {
  auto scores = e.fetch(scored_->scores), labels = e.fetch(scored_->labels);
  if (!scores || !labels)
    return llvm::joinErrors(scores.takeError(), labels.takeError());
  const Split3 s = splitAt(scores->type, scored_->axis);
  const int64_t count = labels->type.elements() / data_.batch() * examples;
  Count c;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t label = elementAsInt(*labels, i);
    if (llvm::is_contained(scored_->ignored, label))
      continue;
    ++c.labels;
    c.right += bestClass(*scores, s, i / s.inner, i % s.inner) == label;
  }
  return c;
}

llvm::Expected<Evaluation> Evaluator::run(Session &trained, const Graph &g) const {
  auto inputs = carriedFrom(trained, g);
  if (!inputs)
    return inputs.takeError();
  auto session = openSession(c_, device_, seed_, std::move(*inputs), processGroup());
  if (!session)
    return session.takeError();
  Session &e = **session;
  const int64_t n = data_.examples(), size = data_.batch();
  double total = 0;
  int64_t numLosses = 0;
  Count all;
  std::vector<int64_t> batch(static_cast<size_t>(size));
  for (int64_t first = 0; first < n; first += size) {
    const int64_t own = std::min(size, n - first); // other examples fill the last batch
    for (int64_t i = 0; i < size; ++i)
      batch[size_t(i)] = (first + i) % n;
    if (llvm::Error failed = data_.feed(e, c_.graph, batch, uint64_t(~first)))
      return failed;
    if (llvm::Error failed = (*session)->step(uint64_t(first)))
      return failed;
    Count found;
    if (scored_)
      if (llvm::Error failed = countRight(e, own).moveInto(found))
        return failed;
    all.right += found.right;
    all.labels += found.labels;
    if (own < size || (scored_ && found.labels == 0))
      continue;
    auto loss = (*session)->loss();
    if (!loss)
      return loss.takeError();
    numLosses += loss->has_value();
    total += loss->value_or(0);
  }
  Evaluation out;
  if (numLosses > 0)
    out.loss = total / double(numLosses);
  if (all.labels > 0)
    out.accuracy = double(all.right) / double(all.labels);
  if (out.loss && levels_ > 0)
    out.bitsPerDimension = bitsPerDimension(*out.loss, data_.elementsOfExample(), levels_);
  return out;
}

} // namespace isthmus
