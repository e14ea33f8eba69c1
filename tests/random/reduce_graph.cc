// reduce_graph SEED | FILE.isth [CHECK]: prints what a random graph, or a forward graph with a loss
// from a file, fails, and the smallest graph found that still fails it.

#include "tests/testing/reduce_graph.h"
#include "ir/text/isth_file.h"
#include "ir/text/printer.h"
#include "tests/random/check_graph.h"
#include "tools/random/random_table_graph.h"

using namespace isthmus;

namespace {

int usage() {
  llvm::errs() << "usage: reduce_graph SEED|FILE.isth [CHECK]\nchecks:";
  for (llvm::StringRef name : GraphChecker::names())
    llvm::errs() << " " << name;
  llvm::errs() << "\n";
  return 2;
}

llvm::Expected<Graph> graphOf(llvm::StringRef what, uint64_t &seed) {
  if (!what.getAsInteger(10, seed))
    return randomTableGraph(tableOptions(seed)).graph;
  return loadIsth(what);
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 2 || argc > 3)
    return usage();
  uint64_t seed = 0;
  auto g = graphOf(argv[1], seed);
  if (!g) {
    llvm::errs() << llvm::toString(g.takeError()) << "\n";
    return 1;
  }
  if (!g->loss) {
    llvm::errs() << argv[1] << " names no loss; write `loss %value` there\n";
    return 1;
  }
  GraphChecker checker;
  std::string name = argc > 2 ? argv[2] : "";
  if (argc > 2 && !llvm::is_contained(GraphChecker::names(), llvm::StringRef(name)))
    return usage();
  std::string difference = name.empty() ? checker.check(*g, seed) : checker.check(*g, seed, name);
  if (difference.empty()) {
    llvm::outs() << "nothing fails\n";
    return 0;
  }
  llvm::outs() << difference << "\n";
  name = difference.substr(0, difference.find(':'));
  Graph small = reduce(*g, [&](const Graph &smaller) {
    std::string d = checker.check(smaller, seed, name);
    if (d.empty())
      return false;
    difference = d;
    llvm::errs() << smaller.numNodes() << " nodes\n";
    return true;
  });
  llvm::outs() << "reduced: " << difference << "\n" << graphText(small);
  return 1;
}
