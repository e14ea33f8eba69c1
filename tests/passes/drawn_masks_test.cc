#include "ir/text/parser.h"
#include "ir/verifier.h"
#include "passes/differentiate/differentiate.h"
#include "passes/differentiate/mode.h"
#include "tests/passes/small_graphs.h"
#include "llvm/ADT/STLExtras.h"
#include <gtest/gtest.h>

namespace isthmus {
namespace {

using Names = std::vector<std::string>;

// %x, a drawn %u in [0, 1) of its shape and %c in [0, 1) for each of its rows, and then `body`,
// which makes %y.
Graph graphOf(const std::string &body) {
  return llvm::cantFail(parseGraph("isthmus 1\ngraph @g {\n"
                                   "  input %x : f32[4, 6]\n"
                                   "  const %half : f32[] = [0.5]\n"
                                   "  const %most : f32[] = [0.8]\n"
                                   "  const %zeros : f32[4, 6] = fill {value = 0.0}\n"
                                   "  %u = uniform() {dims = [4, 6], stream = 0}\n"
                                   "  %c = uniform() {dims = [4, 1], stream = 1}\n" +
                                       body + "  output %y\n}\n",
                                   "test"));
}

// The nodes in evaluation.
Names inEval(const std::string &body) {
  Graph g = withMode(graphOf(body), Mode::Eval);
  llvm::cantFail(verify(g));
  EXPECT_EQ(outputNames(g), Names{"y"});
  EXPECT_EQ(g.type(g.outputs()[0]), Type(DType::F32, {4, 6}));
  return nodeNames(g);
}

TEST(DrawnMasks, AreNotThereInEvaluation) {
  const char *bodies[] = {
      // The mask scaled, of elements and of rows.
      "%b = less(%u, %most)\n%m = cast(%b) {type = f32}\n%s = div(%m, %most)\n%y = mul(%x, %s)\n",
      "%b = less(%c, %most)\n%m = cast(%b) {type = f32}\n%s = div(%m, %most)\n%y = mul(%x, %s)\n",
      "%b = less(%c, %most)\n%m = cast(%b) {type = f32}\n%s = affine(%m) {scale = 1.25}\n"
      "%w = broadcast(%s) {dims = [4, 6]}\n%y = mul(%w, %x)\n",
      // The product scaled, the operand scaled, or each a bit.
      "%b = greater(%u, %half)\n%m = cast(%b) {type = f32}\n%p = mul(%x, %m)\n"
      "%y = affine(%p) {scale = 2.0}\n",
      "%s = div(%x, %most)\n%b = greater_equal(%most, %u)\n%m = cast(%b) {type = f32}\n"
      "%y = mul(%m, %s)\n",
      "%s = affine(%x) {scale = 4.0}\n%b = less(%u, %half)\n%m = cast(%b) {type = f32}\n"
      "%t = affine(%m) {scale = 0.25}\n%p = mul(%s, %t)\n%y = div(%p, %half)\n",
      // What is dropped is true, and is filled with zeros.
      "%s = div(%x, %most)\n%v = affine(%u) {scale = -1.0, shift = 1.0}\n%b = greater(%v, %most)\n"
      "%y = where(%b, %zeros, %s)\n",
      "%b = less(%u, %half)\n%n = not(%b)\n%p = where(%n, %x, %zeros)\n%y = div(%p, %half)\n",
      // One where the draw and the share to keep make one.
      "%s = div(%x, %most)\n%a = affine(%c) {shift = 0.8}\n%m = floor(%a)\n%y = mul(%s, %m)\n",
      "%a = add(%most, %u)\n%m = floor(%a)\n%p = mul(%x, %m)\n%y = div(%p, %most)\n",
      // Drawn in another shape.
      "%d = uniform() {dims = [4], stream = 2}\n%b = less(%d, %most)\n"
      "%r = reshape(%b) {dims = [4, 1]}\n%m = cast(%r) {type = f32}\n%s = div(%m, %most)\n"
      "%y = mul(%x, %s)\n",
      // Drawn from another interval.
      "%d = uniform() {dims = [4, 6], low = -1.0, high = 3.0, stream = 2}\n"
      "%l = full() {dims = [], value = 1.0}\n%b = less(%d, %l)\n%m = cast(%b) {type = f32}\n"
      "%p = mul(%m, %x)\n%y = add(%p, %p)\n"};
  for (const char *body : bodies)
    EXPECT_EQ(inEval(body), Names{"y"}) << body;
}

// With 0.3 dropped: scale 0.8609526, and -1.513640 + 0.454092 where it is dropped.
const char *kAlpha = "%k = full() {dims = [], value = 0.7}\n%b = less(%u, %k)\n"
                     "%m = cast(%b) {type = f32}\n%a = affine(%m) {shift = -1.0}\n"
                     "%s = affine(%a) {scale = 1.513640284538269}\n"
                     "%t = affine(%s) {shift = 0.4540920555591583}\n"
                     "%n = affine(%m) {scale = 0.860952615737915}\n%p = mul(%x, %n)\n";

TEST(DrawnMasks, OfAlphaDropoutAreNotThereInEvaluation) {
  EXPECT_EQ(inEval(std::string(kAlpha) + "%y = add(%p, %t)\n"), Names{"y"});
  // Another constant in place of those that are dropped is not it.
  EXPECT_EQ(
      inEval(std::string(kAlpha) + "%o = affine(%t) {shift = 0.1}\n%y = add(%p, %o)\n").size(),
      11u);
}

TEST(DrawnMasks, GiveWhatWasMaskedEvenIfThatIsLinearItself) {
  const char *before = "%h = affine(%x) {scale = 3.0, shift = 1.0}\n";
  const char *mask = "%b = less(%u, %half)\n%m = cast(%b) {type = f32}\n%s = div(%m, %half)\n";
  EXPECT_EQ(inEval(std::string(before) + mask + "%y = mul(%h, %s)\n"), (Names{"h", "y"}));
  // Two times over, and read on.
  EXPECT_EQ(inEval(std::string(mask) + "%d = mul(%x, %s)\n%b2 = less(%c, %most)\n"
                                       "%m2 = cast(%b2) {type = f32}\n%s2 = div(%m2, %most)\n"
                                       "%d2 = mul(%d, %s2)\n%y = tanh(%d2)\n"),
            (Names{"y"}));
}

TEST(DrawnMasks, StayWhereTheyAreNoDropout) {
  const char *bodies[] = {
      // Without its scale, and with another.
      "%b = less(%u, %most)\n%m = cast(%b) {type = f32}\n%y = mul(%x, %m)\n",
      "%b = less(%u, %most)\n%m = cast(%b) {type = f32}\n%s = div(%m, %half)\n%y = mul(%x, %s)\n",
      // Noise.
      "%y = add(%x, %u)\n", "%s = affine(%u) {scale = 2.0}\n%y = mul(%x, %s)\n",
      "%b = less(%u, %half)\n%m = cast(%b) {type = f32}\n%s = div(%m, %half)\n%y = add(%x, %s)\n",
      // A choice between two.
      "%t = tanh(%x)\n%b = less(%u, %half)\n%y = where(%b, %x, %t)\n",
      // Two masks, of which each has a half of the scale.
      "%b = less(%u, %half)\n%m = cast(%b) {type = f32}\n%d = less(%c, %half)\n"
      "%n = cast(%d) {type = f32}\n%p = mul(%m, %n)\n%q = affine(%p) {scale = 2.0}\n"
      "%y = mul(%q, %x)\n",
      // Drawn, but not evenly.
      "%n = normal() {dims = [4, 6], stream = 2}\n%b = less(%n, %half)\n"
      "%m = cast(%b) {type = f32}\n%s = div(%m, %half)\n%y = mul(%x, %s)\n",
      // A floor of what goes beyond two.
      "%a = affine(%u) {scale = 2.0, shift = 0.5}\n%m = floor(%a)\n%s = div(%m, %half)\n"
      "%y = mul(%x, %s)\n"};
  for (const char *body : bodies) {
    Names live = inEval(body);
    EXPECT_TRUE(llvm::is_contained(live, "u") || llvm::is_contained(live, "n")) << body;
    EXPECT_GT(live.size(), 1u) << body;
  }
}

// A mask has no gradient, and neither is there one in the gradient.
TEST(DrawnMasks, GoFromGradientsToo) {
  Graph g = graphOf("%b = less(%u, %most)\n%m = cast(%b) {type = f32}\n%s = div(%m, %most)\n"
                    "%d = mul(%x, %s)\n%y = tanh(%d)\n");
  ValueId seed = addInput(g, "seed", Type(DType::F32, {4, 6}));
  auto grads = llvm::cantFail(gradients(g, {g.find("y")}, {g.find("x")}, {seed}));
  g.addOutput(grads[0]);
  Graph eval = withMode(g, Mode::Eval);
  llvm::cantFail(verify(eval));
  for (uint32_t i = 0; i < eval.numNodes(); ++i)
    EXPECT_FALSE(eval.node(NodeId(i)).op->effect == Effect::Draws);
  EXPECT_EQ(outputNames(eval), outputNames(g));
}

TEST(DrawnMasks, StayInTraining) {
  Graph g = graphOf("%b = less(%u, %most)\n%m = cast(%b) {type = f32}\n%s = div(%m, %most)\n"
                    "%y = mul(%x, %s)\n");
  EXPECT_EQ(nodeNames(withMode(g, Mode::Training)), nodeNames(g));
}

} // namespace
} // namespace isthmus
