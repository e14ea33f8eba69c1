#include "tests/random/check_graph.h"

#include "ir/equal_graphs.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"
#include "ir/verifier.h"
#include "passes/simplify/dce.h"
#include "tests/random/joint_graphs.h"
#include "tests/random/smooth.h"

namespace isthmus {

using llvm::toString;

llvm::ArrayRef<llvm::StringRef> GraphChecker::names() {
  static constexpr llvm::StringRef all[] = {"text",  "run",       "rewrites", "first", "second",
                                            "twice", "precision", "halves",   "chunks", "stages"};
  return all;
}

std::string GraphChecker::check(const Graph &g, uint64_t seed) {
  ++counts.graphs;
  for (llvm::StringRef name : names()) {
    if (name == "twice" && seed % twiceEvery != 0)
      continue;
    if (std::string d = check(g, seed, name); !d.empty())
      return d;
  }
  return "";
}

std::string GraphChecker::check(const Graph &g, uint64_t seed, llvm::StringRef name) {
  auto fail = [&](const std::string &what) {
    return what.empty() ? what : name.str() + ": " + what;
  };
  auto training = firstOrder(g);
  if (!training)
    return fail("no gradient: " + toString(training.takeError()));
  Case c{g, seed, drawInputs(g, seed), seed % 2 ? withoutDeadNodes(*training) : *training};
  using Check = std::string (GraphChecker::*)(const Case &);
  static constexpr Check checks[] = {
      &GraphChecker::text,      &GraphChecker::run,    &GraphChecker::rewrites,
      &GraphChecker::first,     &GraphChecker::second, &GraphChecker::twice,
      &GraphChecker::precision, &GraphChecker::halves, &GraphChecker::chunks,    &GraphChecker::stages};
  for (size_t i = 0; i < names().size(); ++i)
    if (names()[i] == name)
      return fail((this->*checks[i])(c));
  return fail("there is no such check");
}

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

std::string GraphChecker::run(const Case &c) {
  auto want = runner_.reference(c.training, c.inputs);
  if (!want)
    return toString(want.takeError());
  if (std::string d = notFinite(c.training, *want); !d.empty())
    return d;
  auto got = runner_.execute(c.training, runner_.plain(), c.inputs);
  if (!got)
    return toString(got.takeError());
  if (std::string d = bitsDiffer(c.training, *got, *want); !d.empty())
    return d;
  auto fast = runner_.execute(c.training, runner_.fast(), c.inputs);
  if (!fast)
    return "fast kernels: " + toString(fast.takeError());
  if (jumps(c.training)) // rounding may change the result of a comparison
    return "";
  double tolerance = c.training.type(c.training.loss).dtype == DType::F64 ? 1e-9 : 2e-3;
  if (std::string d = valuesDiffer(c.training, *fast, *want, tolerance); !d.empty())
    return "fast kernels: " + d;
  return "";
}

} // namespace isthmus
