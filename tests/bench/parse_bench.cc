// Measures how fast the text form is read and written.
//
//   bazel run //tests/bench:parse_bench [-- NODES]      (default: a million)
//
// The graph is that of a deep residual training step: products, norms with attributes and three
// results, skips, a clone behind a boundary every eight nodes, types on every line.

#include "ir/text/parser.h"
#include "ir/text/printer.h"
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>

using namespace isthmus;

namespace {

std::string text(size_t nodes) {
  std::string t =
      "isthmus 2\nrecord {policy = memory, target = \"cpu avx2 threads=2\"}\ngraph @deep {\n"
      "  input %x : f32[32, 256]\n  param %w : f32[256, 256] = normal {seed = 1, std = 0.05}\n"
      "  param %g : f32[256] = fill {value = 1.0}\n  param %b : f32[256] = fill {value = 0.0}\n";
  std::string last = "%x";
  for (size_t i = 0; i < nodes / 8; ++i) {
    std::string p = "%block" + std::to_string(i) + ".";
    t += "  " + p + "h = matmul(" + last + ", %w) : f32[32, 256] #checkpoint\n";
    t += "  " + p + "y, " + p + "mean, " + p + "rstd = layer_norm(" + p +
         "h, %g, %b) {epsilon = 0.001}" + " : f32[32, 256], f32[32, 1], f32[32, 1]\n";
    t += "  " + p + "a = gelu(" + p + "y) {approximate = tanh} : f32[32, 256]\n";
    t += "  " + p + "d = dropout(" + p + "a) {ratio = 0.1, stream = " + std::to_string(i) +
         "} : f32[32, 256]\n";
    t += "  " + p + "out = add(" + p + "d, " + last + ") : f32[32, 256]\n";
    t += "  " + p + "h.sg = stop_gradient(" + p + "y) : f32[32, 256] backward boundary(" + p +
         "y) at(" + std::to_string(8 * i) + ")\n";
    t += "  " + p + "a.re = gelu(" + p +
         "h.sg) {approximate = tanh} : f32[32, 256] backward clone(" + p + "a) after(" + p +
         "out) at(" + std::to_string(8 * i + 2) + ")\n";
    t += "  " + p + "dx = mul(" + p + "a.re, " + p + "out) : f32[32, 256] backward\n";
    last = p + "out";
  }
  return t + "  output " + last + "\n}\n";
}

// On a busy machine, the processor's time is the one to compare.
struct Times {
  double elapsed, processor;
};
Times now() {
  auto clock = std::chrono::steady_clock::now().time_since_epoch();
  return {std::chrono::duration<double>(clock).count(), double(std::clock()) / CLOCKS_PER_SEC};
}

void report(const char *what, Times start, size_t nodes, size_t bytes) {
  Times end = now();
  double elapsed = end.elapsed - start.elapsed, processor = end.processor - start.processor;
  std::printf("%s: %.2f s (%.2f s of the processor), %.1f MB/s, %.0f nodes/s\n", what, elapsed,
              processor, double(bytes) * 1e-6 / elapsed, double(nodes) / elapsed);
}

} // namespace

int main(int argc, char **argv) {
  size_t nodes = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1000000;
  const std::string source = text(nodes);
  Times start = now();
  auto g = parseGraph(source, "deep.isth");
  if (!g) {
    llvm::errs() << llvm::toString(g.takeError()) << "\n";
    return 1;
  }
  std::printf("%zu nodes, %.1f MB\n", g->numNodes(), double(source.size()) * 1e-6);
  report("parse", start, g->numNodes(), source.size());
  start = now();
  std::string printed = graphText(*g);
  report("print", start, g->numNodes(), printed.size());
  return printed == source ? 0 : 1;
}
