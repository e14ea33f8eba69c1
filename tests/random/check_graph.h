// Everything that is promised of a training graph, held against it.
#pragma once

#include "passes/rewrite/problem.h"
#include "tests/random/run_graph.h"

namespace isthmus {

// In how many graphs a comparison was made, of those where it is made only if nothing jumps.
struct RewriteCounts {
  size_t rewrites = 0, clones = 0, transfers = 0, encodings = 0, inverses = 0, fixedPoints = 0;
};
struct CheckCounts {
  size_t graphs = 0, first = 0, second = 0, precision = 0, halves = 0, nodes = 0;
  RewriteCounts firstOrder, secondOrder;
  // Second-order graphs, their nodes, and rewritten first-order graphs that were differentiated.
  size_t twice = 0, twiceNodes = 0, again = 0;
  // Differences that did not agree with a gradient, of functions that jump.
  size_t excused = 0;
};

class GraphChecker {
public:
  // `g` is a forward graph with a loss, of any float type. Checks
  //   text       it verifies, and so does its differentiation; printed and parsed they are equal
  //   run        the executor gives the bits of the interpreter on the plain kernels, and agrees
  //              with it on the fast ones; all is finite
  //   rewrites   graphs rewritten by every policy, by random checkpoints and by random schedules,
  //              with transfers and encodings too, give the bits of the original, with the peak
  //              that was predicted; with inverses, those of the interpreter on the same graph
  //   first      f64: the gradient is a directional central difference of the loss
  //   second     f64: likewise the gradient of the gradient's product with a vector, and the
  //              executor gives the interpreter's bits of it
  //   twice      the gradients of the gradients are finite; `rewrites` holds for the graph with
  //              them; and graphs with the first gradients, rewritten, printed, parsed and
  //              differentiated again, give the same bits
  //   precision  f64: in f32 the outputs are nearly the same
  //   halves     f64: in bf16 or f16 the executor gives the bits of the interpreter, gradients too
  // Gives "", or the name of the check, a colon, and what differs.
  std::string check(const Graph &g, uint64_t seed);

  // One of the above alone, by its name.
  std::string check(const Graph &g, uint64_t seed, llvm::StringRef name);

  static llvm::ArrayRef<llvm::StringRef> names();

  // Graphs of second order are large: all checks together hold one in so many to `twice`.
  uint64_t twiceEvery = 1;

  CheckCounts counts;

private:
  struct Case {
    const Graph &forward;
    uint64_t seed;
    NamedTensors inputs;
    Graph training; // forward and gradients
  };
  std::string text(const Case &c);
  std::string run(const Case &c);
  std::string rewrites(const Case &c);
  std::string first(const Case &c);
  std::string second(const Case &c);
  std::string twice(const Case &c);
  std::string precision(const Case &c);
  std::string halves(const Case &c);

  std::string rewritesOf(const Graph &g, const NamedTensors &inputs, uint64_t seed,
                         RewriteCounts &counts);
  std::string rewriteOf(const Graph &g, const GraphProblem &p, const plan::Schedule &schedule,
                        Device &device, const NamedTensors &inputs, const std::vector<Tensor> *want,
                        RewriteCounts &counts);
  std::string again(const Graph &first, const Graph &second, const NamedTensors &inputs,
                    uint64_t seed);
  std::string directional(const Graph &g, llvm::ArrayRef<ValueId> xs, const NamedTensors &inputs,
                          uint64_t seed);
  std::string excused(const Graph &g, std::string difference);

  GraphRunner runner_;
};

} // namespace isthmus
