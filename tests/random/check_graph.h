// Checks a training graph against all properties that graphs must have.
#pragma once

#include "passes/rewrite/problem.h"
#include "tests/random/run_graph.h"

namespace isthmus {

struct RewriteCounts {
  size_t rewrites = 0, clones = 0, transfers = 0, encodings = 0, inverses = 0, fixedPoints = 0;
};
// The numbers of graphs that each check applied to. Some checks apply only to graphs without jumps.
struct CheckCounts {
  size_t graphs = 0, first = 0, second = 0, precision = 0, halves = 0, nodes = 0;
  RewriteCounts firstOrder, secondOrder;
  // Numbers of second-order graphs, of their nodes, and of rewritten first-order graphs that were
  // differentiated again.
  size_t twice = 0, twiceNodes = 0, again = 0;
  // Differences that disagreed with the gradient of a function that jumps.
  size_t excused = 0;
  size_t chunked = 0; // graphs in chunks
  size_t placed = 0;  // graphs over several devices
};

class GraphChecker {
public:
  // `g` is a forward graph with a loss, of any float type. The checks are:
  //   text       the graph and its differentiation are legal, and are equal after printing and
  //              parsing
  //   run        the executor gives the interpreter's bits with the plain kernels, and agrees with
  //              it with the fast kernels; all results are finite
  //   rewrites   graphs that are rewritten by every policy, by random checkpoints and by random
  //              schedules, also with transfers and encodings, give the bits of the original, with
  //              the predicted peak; graphs with inverses give the bits of the interpreter on the
  //              same graph
  //   first      f64: the gradient is a directional central difference of the loss
  //   second     f64: the gradient of the product of the gradient and a vector is one too, and the
  //              executor gives the interpreter's bits of it
  //   twice      the gradients of the gradients are finite; `rewrites` holds for the graph with
  //              them; and graphs with first gradients that are rewritten, printed, parsed and
  //              differentiated again give the same bits
  //   precision  f64: the outputs in f32 are nearly the same
  //   chunks     graphs whose regions run in chunks have the bits of the whole, but where sums are
  //              rounded in parts, and the whole can be recovered from them, also after a plan
  //   stages     graphs whose nodes run on devices at random have the bits of the whole, whatever
  //              the schedules of the devices, and the whole can be recovered from them
  //   halves     f64: in bf16 or f16 the executor gives the interpreter's bits, also of gradients,
  //              and `chunks` holds
  // Returns "", or the name of the check, a colon, and what differs.
  std::string check(const Graph &g, uint64_t seed);

  // Runs one of these checks, by its name.
  std::string check(const Graph &g, uint64_t seed, llvm::StringRef name);

  static llvm::ArrayRef<llvm::StringRef> names();

  // Graphs of second order are large, so a call for all checks makes the check `twice` only for one
  // of this many graphs.
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
  std::string chunks(const Case &c);
  std::string stages(const Case &c);
  std::string roundTrip(const Graph &g);
  llvm::Expected<std::vector<Tensor>> executePrograms(const Graph &g, const Case &c,
                                                      llvm::ArrayRef<int64_t> peaks);
  std::string inChunks(const Graph &whole, const Graph &g, const Case &c,
                       const std::vector<Tensor> &want);

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
