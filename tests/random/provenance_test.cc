// Rewritten graphs whose provenance, operands or roles are changed at random. The parser must
// refuse a change with located errors, or else the text must compute what the original that is got
// back from it computes, and so must that original when it is planned anew. 60 graphs with 20
// changes each, or as many graphs as --graphs=N says from --first=SEED on.

#include "ir/text/parser.h"
#include "ir/text/printer.h"
#include "ir/verifier.h"
#include "ir/rounded_values.h"
#include "passes/rewrite/original.h"
#include "passes/rewrite/rematerialize.h"
#include "tests/random/joint_graphs.h"
#include "tests/random/run_graph.h"
#include "tests/random/schedules.h"
#include "tests/random/seed_range.h"
#include "tools/random/random_table_graph.h"
#include <cstring>
#include <gtest/gtest.h>

namespace isthmus {
namespace {

using llvm::toString;

uint64_t firstSeed = 0, numGraphs = 60; // from the command line
constexpr int kChanges = 20;            // of each graph

// --- Changes

class Liar {
public:
  Liar(Graph g, uint64_t seed) : g_(std::move(g)), random_(seed) {}

  Graph run() {
    for (size_t i = 0, n = 1 + random_.below(2); i < n; ++i)
      while (!change())
        ;
    return std::move(g_);
  }

private:
  NodeId anyNode() { return NodeId(uint32_t(random_.below(g_.numNodes()))); }

  // A node of a kind that rewrites make, if one is found.
  NodeId madeNode() {
    NodeId id = anyNode();
    for (int i = 0; i < 20 && !g_.node(id).isStandIn(); ++i)
      id = anyNode();
    return id;
  }

  // A value that comes before the node; most often one of the type of `like`.
  ValueId earlier(NodeId id, ValueId like) {
    std::vector<ValueId> all, alike;
    for (uint32_t i = 0; i < g_.numValues(); ++i)
      if (const NodeId def = g_.value(ValueId(i)).def; !def || def < id) {
        all.push_back(ValueId(i));
        if (like && g_.type(ValueId(i)) == g_.type(like))
          alike.push_back(ValueId(i));
      }
    const std::vector<ValueId> &from = alike.empty() || random_.oneIn(8) ? all : alike;
    return from.empty() ? ValueId() : from[random_.below(from.size())];
  }

  NodeId earlierOfSameOp(NodeId id) {
    std::vector<NodeId> found;
    for (uint32_t i = 0; i < id.index; ++i)
      if (g_.node(NodeId(i)).op == g_.node(id).op)
        found.push_back(NodeId(i));
    if (random_.oneIn(8) && id.index > 0)
      return NodeId(uint32_t(random_.below(id.index)));
    return found.empty() ? NodeId() : found[random_.below(found.size())];
  }

  bool change() {
    const NodeId id = random_.oneIn(3) ? anyNode() : madeNode();
    Node &n = g_.editNode(id);
    switch (random_.below(12)) {
    case 10: // is of another gradient
      n.from.gradientOf = anyNode();
      return true;
    case 0: // restores another value
      return restores(n, earlier(id, n.firstResult), kindOfRestoring());
    case 1: // is a clone of another node
      return clones(n, earlierOfSameOp(id));
    case 2: // both are exchanged for the other
      if (n.isClone())
        return restores(n, g_.node(n.from.origin).firstResult, kindOfRestoring());
      n.from = {};
      return true;
    case 3:
      n.from = {};
      return true;
    case 4:
    case 5: // reads another value
      return changeOperand(id);
    case 6:
      return changePlace(n);
    case 7:
      return changeRole();
    case 8:
      return changeEnd();
    case 9: // restores its value in another way
      return n.isRestoring() && restores(n, n.from.restores, kindOfRestoring());
    default: // has the attributes of another
      if (NodeId other = earlierOfSameOp(id); other && g_.node(other).op == n.op)
        n.attrs = g_.node(other).attrs;
      return true;
    }
  }

  StandIn kindOfRestoring() {
    constexpr size_t kFirst = size_t(StandIn::Boundary);
    return StandIn(kFirst + random_.below(kNumStandIns - kFirst));
  }

  static bool restores(Node &n, ValueId v, StandIn kind) {
    if (!v)
      return false;
    n.from.origin = NodeId();
    n.standFor(v, kind);
    return true;
  }

  static bool clones(Node &n, NodeId origin) {
    if (!origin)
      return false;
    n.from.restores = ValueId();
    n.standFor(origin);
    return true;
  }

  bool changeOperand(NodeId id) {
    Node &n = g_.editNode(id);
    if (n.operands.empty())
      return false;
    ValueId &v = n.operands[random_.below(n.operands.size())];
    const ValueId other = earlier(id, v);
    if (!other || g_.type(other) != g_.type(v))
      return false;
    v = other;
    return true;
  }

  bool changePlace(Node &n) {
    if (n.from.sourceIndex && random_.oneIn(3))
      n.from.sourceIndex.reset();
    else if (n.from.sourceIndex && random_.oneIn(2))
      ++*n.from.sourceIndex;
    else
      n.from.sourceIndex = uint32_t(random_.below(g_.numNodes()));
    return true;
  }

  bool changeRole() {
    const size_t output = random_.below(g_.outputs().size());
    const ValueId of = random_.oneIn(2)
                           ? g_.inputs()[random_.below(g_.inputs().size())].value
                           : earlier(NodeId(uint32_t(g_.numNodes())), g_.outputs()[output]);
    const auto kind = OutputKind(random_.below(3));
    g_.setRole(output, {kind, kind == OutputKind::Result ? ValueId() : of, 1});
    return true;
  }

  bool changeEnd() {
    std::vector<ValueId> outputs = g_.outputs();
    ValueId &v = outputs[random_.below(outputs.size())];
    v = earlier(NodeId(uint32_t(g_.numNodes())), v);
    Graph old = g_;
    g_.clearOutputs();
    for (size_t i = 0; i < outputs.size(); ++i)
      g_.addOutput(outputs[i], old.role(i));
    if (random_.oneIn(2))
      g_.loss = earlier(NodeId(uint32_t(g_.numNodes())), g_.loss);
    return true;
  }

  Graph g_;
  Random random_;
};

// --- What must hold

// "", or what is wrong with the errors about a text.
std::string notLocated(llvm::Error e) {
  std::string wrong;
  handleAllErrors(
      std::move(e),
      [&](const DiagError &d) {
        for (const Diag &one : d.diags)
          if (!llvm::StringRef(one.where).startswith("lie.isth:"))
            wrong = "an error without a place: " + one.message;
      },
      [&](const llvm::ErrorInfoBase &other) { wrong = other.message(); });
  return wrong;
}

class Checker {
public:
  size_t accepted = 0, refused = 0, rewritten = 0;

  // "", or what is wrong with how the text is read.
  std::string check(const std::string &text, const NamedTensors &inputs) {
    auto g = parseGraph(text, "lie.isth");
    if (!g) {
      ++refused;
      return notLocated(g.takeError());
    }
    ++accepted;
    rewritten += g->isRewritten();
    const Graph original = originalOf(*g);
    if (llvm::Error e = verify(original))
      return "its original: " + toString(std::move(e));
    auto want = run(original, inputs), got = run(*g, inputs);
    if (!want || !got)
      return errorsOf(want, got);
    if (std::string d = differ(*g, *got, *want, roundedValues(*g)); !d.empty())
      return "the text and its original differ: " + d;
    auto problem = extractProblem(original, runner_.plain().target());
    if (!problem)
      return toString(problem.takeError());
    for (const NamedSchedule &s : llvm::cantFail(schedulesOf(original, *problem, accepted))) {
      const Graph anew = rematerialize(original, *problem, s.schedule);
      auto again = run(anew, inputs);
      if (!again)
        return toString(again.takeError());
      return differ(anew, *again, *want, llvm::BitVector(unsigned(anew.numValues())));
    }
    return "";
  }

private:
  Outputs run(const Graph &g, const NamedTensors &inputs) {
    return runner_.execute(g, runner_.plain(), inputs);
  }

  static std::string differ(const Graph &g, llvm::ArrayRef<Tensor> got, llvm::ArrayRef<Tensor> want,
                            const llvm::BitVector &isRounded) {
    if (got.size() != want.size())
      return "numbers of outputs";
    for (size_t i = 0; i < got.size(); ++i)
      if (!isRounded.test(g.outputs()[i].index) &&
          (got[i].type != want[i].type ||
           std::memcmp(got[i].data, want[i].data, size_t(got[i].bytes())) != 0))
        return "output " + g.valueName(g.outputs()[i]).str();
    return "";
  }

  GraphRunner runner_;
};

// Rewrites of a training graph with clones, with transfers and encodings, and with inverses.
std::vector<Graph> rewritesOf(const Graph &g, const Target &target, uint64_t seed) {
  std::vector<Graph> out;
  auto add = [&](const Graph &from, const Ways &ways) {
    const GraphProblem p = llvm::cantFail(extractProblem(from, target, ways));
    const auto schedules = ways.fetch || ways.encode || ways.invert
                               ? schedulesOfAllWays(p, seed)
                               : llvm::cantFail(schedulesOf(from, p, seed));
    for (const NamedSchedule &s : schedules)
      out.push_back(rematerialize(from, p, s.schedule));
  };
  add(g, {});
  add(g, {.fetch = true, .encode = true});
  Graph marked = g;
  for (uint32_t i = 0; i < g.numNodes(); ++i)
    if (Node &n = marked.editNode(NodeId(i)); n.op->name == "add")
      n.marks.push_back("contraction");
  Ways ways{.encode = true, .invert = true};
  ways.iterations = Ways::kLeastIterations;
  add(marked, ways);
  return out;
}

TEST(Provenance, IsCheckedNotBelieved) {
  Checker checker;
  GraphRunner runner; // what the target refers to
  const Target &target = runner.plain().target();
  size_t failures = 0;
  for (uint64_t seed = firstSeed; seed < firstSeed + numGraphs && failures < 10; ++seed) {
    RandomTableOptions options = tableOptions(seed);
    options.steps = std::min(options.steps, 6u);
    const Graph training = llvm::cantFail(firstOrder(randomTableGraph(options).graph));
    const NamedTensors inputs = drawInputs(training, seed);
    const std::vector<Graph> rewrites = rewritesOf(training, target, seed);
    for (int i = 0; i < kChanges; ++i) {
      const uint64_t change = seed * kChanges + uint64_t(i);
      const std::string text = graphText(Liar(rewrites[change % rewrites.size()], change).run());
      if (std::string wrong = checker.check(text, inputs); !wrong.empty()) {
        ADD_FAILURE() << "seed " << seed << ", change " << i << ": " << wrong << "\n" << text;
        ++failures;
      }
    }
  }
  std::fprintf(stderr, "%zu refused, %zu accepted, of which %zu are rewritten\n", checker.refused,
               checker.accepted, checker.rewritten);
  EXPECT_GT(checker.refused, checker.accepted / 4);
  EXPECT_GT(checker.rewritten, checker.refused / 10);
}

} // namespace
} // namespace isthmus

int main(int argc, char **argv) {
  return isthmus::runTestsOfSeeds(argc, argv, isthmus::numGraphs, isthmus::firstSeed);
}
