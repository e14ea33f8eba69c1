// Checks random graphs over the whole op table against all properties that graphs must have: about
// 150 graphs, or 10,000 with ISTHMUS_FULL=1. --graphs=N and --first=SEED choose others.

#include "ir/op_registry.h"
#include "ir/text/printer.h"
#include "tests/random/check_graph.h"
#include "tests/random/seed_range.h"
#include "tests/testing/reduce_graph.h"
#include "tools/random/random_table_graph.h"
#include <csignal>
#include <cstdlib>
#include <gtest/gtest.h>
#include <unistd.h>

namespace isthmus {
namespace {

uint64_t firstSeed = 0, numGraphs = 0; // from the command line
volatile uint64_t currentSeed;

bool isFull() {
  const char *full = std::getenv("ISTHMUS_FULL");
  return full && std::string(full) == "1";
}

uint64_t graphsWanted() { return numGraphs ? numGraphs : isFull() ? 10000 : 150; }

// Prints the seed of the graph at which the test aborts or crashes.
void onCrash(int signal) {
  char line[64] = "\nrandom graph, seed ";
  size_t n = 20;
  char digits[24];
  size_t d = 0;
  for (uint64_t s = currentSeed; d == 0 || s > 0; s /= 10)
    digits[d++] = char('0' + s % 10);
  while (d > 0)
    line[n++] = digits[--d];
  line[n++] = '\n';
  if (write(2, line, n) < 0)
    _exit(3);
  std::signal(signal, SIG_DFL);
  raise(signal);
}

std::string checkName(const std::string &difference) {
  return difference.substr(0, difference.find(':'));
}

TEST(RandomGraphs, KeepAllPromises) {
  for (int s : {SIGABRT, SIGSEGV, SIGFPE})
    std::signal(s, onCrash);
  GraphChecker checker;
  checker.twiceEvery = isFull() || numGraphs ? 1 : 7; // 7 meets graphs of every kind
  std::map<std::string, size_t> calls;
  size_t failures = 0, total = 0;
  const uint64_t end = firstSeed + graphsWanted();
  for (uint64_t seed = firstSeed; seed < end; ++seed) {
    currentSeed = seed;
    RandomTableGraph random = randomTableGraph(tableOptions(seed));
    for (const auto &[row, count] : random.calls) {
      calls[row] += count;
      total += count;
    }
    std::string difference = checker.check(random.graph, seed);
    if (!difference.empty()) {
      ++failures;
      std::string what = difference;
      const std::string name = checkName(difference);
      Graph small = reduce(random.graph, [&](const Graph &g) {
        std::string d = checker.check(g, seed, name);
        if (!d.empty())
          what = d;
        return !d.empty();
      });
      ADD_FAILURE() << "seed " << seed << ": " << difference << "\nreduced: " << what << "\n"
                    << graphText(small);
      if (failures == 20)
        break;
    }
    if ((seed + 1 - firstSeed) % 50 == 0 || seed + 1 == end) {
      const CheckCounts &n = checker.counts;
      std::fprintf(
          stderr,
          "%llu graphs: %zu nodes, %zu calls of %zu rows, %zu rewrites with %zu transfers, %zu "
          "encodings, %zu inverses and %zu fixed points, %zu gradients, %zu second gradients (%zu "
          "excused), %zu in f32, %zu in 16 "
          "bits; %zu of second order: %zu nodes, %zu rewrites with %zu clones, %zu rewritten and "
          "differentiated; %zu failures\n",
          static_cast<unsigned long long>(seed + 1 - firstSeed), n.nodes, total, calls.size(),
          n.firstOrder.rewrites, n.firstOrder.transfers, n.firstOrder.encodings,
          n.firstOrder.inverses, n.firstOrder.fixedPoints, n.first, n.second, n.excused,
          n.precision, n.halves, n.twice, n.twiceNodes, n.secondOrder.rewrites,
          n.secondOrder.clones, n.again, failures);
    }
  }
  if (failures > 0 || graphsWanted() < 150)
    return;
  for (const OpDef *row : OpRegistry::get().computedRows())
    EXPECT_GT(calls[row->name], 0u) << row->name << " is in no graph";
  // Many graphs can be compared with differences, and some in f32.
  EXPECT_GT(checker.counts.first, checker.counts.graphs / 3);
  EXPECT_GT(checker.counts.halves, checker.counts.graphs / 3);
  EXPECT_LT(checker.counts.excused, checker.counts.graphs / 50);
  EXPECT_GT(checker.counts.placed, checker.counts.graphs / 2);
  EXPECT_GT(checker.counts.precision, checker.counts.graphs / 20);
  EXPECT_GT(checker.counts.firstOrder.transfers, checker.counts.graphs);
  EXPECT_GT(checker.counts.firstOrder.encodings, checker.counts.graphs / 60);
  EXPECT_GT(checker.counts.firstOrder.inverses, checker.counts.graphs);
  EXPECT_GT(checker.counts.firstOrder.fixedPoints, checker.counts.graphs);
  EXPECT_GT(checker.counts.secondOrder.rewrites, checker.counts.twice * 3);
  EXPECT_GT(checker.counts.secondOrder.clones, checker.counts.twice * 20);
  EXPECT_GT(checker.counts.again, checker.counts.twice * 3);
  EXPECT_GT(checker.counts.chunked, checker.counts.graphs);
}

} // namespace
} // namespace isthmus

int main(int argc, char **argv) {
  return isthmus::runTestsOfSeeds(argc, argv, isthmus::numGraphs, isthmus::firstSeed);
}
