// Tests the pictures of graphs: their boxes, arrows, legends and escaped names.

#include "passes/inspect/changes.h"
#include "passes/inspect/dot.h"
#include "passes/inspect/neighbourhood.h"

#include "tests/passes/small_graphs.h"
#include "tools/zoo/zoo.h"
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

namespace isthmus {
namespace {

const Type kVector(DType::F32, {4});

bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

int count(const std::string &text, const std::string &part) {
  int n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++n;
  return n;
}

std::string svgOf(const Graph &g) {
  auto svg = renderSvg(dotText(g));
  if (!svg) {
    ADD_FAILURE() << llvm::toString(svg.takeError());
    return "";
  }
  return *svg;
}

// x -> a = exp(x) -> b = tanh(a) -> y = neg(b); backward: d = mul(again, boundary), where `again`
// recomputes b.
struct Rewritten {
  Graph g{"rewritten"};
  ValueId x, a, b, y, boundary, again, d;

  Rewritten() {
    x = addInput(g, "x", kVector);
    ValueId w = addInput(g, "w", kVector, InputKind::Param);
    Builder build(g);
    a = build.create("mul", {x, w}, {}, "a");
    b = build.create("tanh", {a}, {}, "b");
    y = build.create("neg", {b}, {}, "y");
    build.phase = Phase::Backward;
    boundary = build.create("stop_gradient", {a}, {}, "a.boundary");
    nodeOf(g, boundary).standFor(a, StandIn::Boundary);
    again = build.create("tanh", {boundary}, {}, "b.re");
    nodeOf(g, again).standFor(g.value(b).def);
    nodeOf(g, again).from.after = {g.value(y).def};
    d = build.create("mul", {again, y}, {}, "d");
    build.phase = Phase::Update;
    ValueId update = build.create("sub", {w, d}, {}, "state.w");
    g.addOutput(y);
    g.addOutput(update);
  }
  std::string id(ValueId v) const { return "n" + std::to_string(g.value(v).def.index); }
};

TEST(Dot, ShowsPhasesClonesAndBoundaries) {
  Rewritten r;
  std::string dot = dotText(r.g);
  for (const char *cluster :
       {"cluster_forward", "cluster_recomputed", "cluster_backward", "cluster_update"})
    EXPECT_EQ(count(dot, cluster), 1) << cluster;
  EXPECT_TRUE(contains(dot, "<b>boundary</b> of a"));
  EXPECT_TRUE(contains(dot, "param w f32[4]")); // in the node that reads it
  EXPECT_TRUE(contains(dot, "<b>input</b> x"));
  EXPECT_TRUE(
      contains(dot, r.id(r.y) + " -> " + r.id(r.again) + " [style=dashed")); // an `after` edge
  EXPECT_TRUE(contains(dot, "{rank=same; " + r.id(r.b) + "; " + r.id(r.again) + "}"));
  for (const char *row :
       {">input<", ">forward<", ">boundary (stop_gradient)<", ">recomputed<", ">backward<",
        ">update<", ">kept (checkpoint)<", ">graph output<", ">runs after, reads nothing<"})
    EXPECT_TRUE(contains(dot, row)) << row;
  std::string svg = svgOf(r.g);
  EXPECT_TRUE(contains(svg, "<svg"));
  EXPECT_TRUE(contains(svg, "</svg>"));
  EXPECT_TRUE(contains(svg, "b.re"));
}

// Highlights the values that boundaries pass, that are marked, or that the options list, and no
// others.
TEST(Dot, HighlightsKeptValues) {
  Rewritten r;
  auto kept = [](const std::string &dot) { return count(dot, ", penwidth=2.5"); };
  EXPECT_EQ(kept(dotText(r.g)), 1);
  DotOptions options;
  options.kept = {r.y, r.a};
  EXPECT_EQ(kept(dotText(r.g, options)), 2);
  nodeOf(r.g, r.b).marks = {"checkpoint"};
  nodeOf(r.g, r.d).marks = {"other"};
  EXPECT_EQ(kept(dotText(r.g, options)), 3);
}

TEST(Dot, AForwardNetHasNoFramesAndAShortLegend) {
  Graph g = llvm::cantFail(buildZoo("mlp"));
  std::string dot = dotText(g);
  EXPECT_FALSE(contains(dot, "subgraph"));
  EXPECT_FALSE(contains(dot, ">backward<"));
  EXPECT_FALSE(contains(dot, ">kept"));
  EXPECT_TRUE(contains(dot, "param .weight f32[784, 256]") ||
              contains(dot, "param fc1.weight f32[784, 256]"));
}

// 53 batch norms have 106 running averages, in 53 boxes.
TEST(Dot, RunningAveragesOfOneNodeAreOneBox) {
  Graph g = llvm::cantFail(buildZoo("resnet"));
  std::string dot = dotText(g);
  EXPECT_EQ(count(dot, "<b>running_average</b> x 2"), 53);
  EXPECT_EQ(count(dot, "<b>running_average</b>"), 53);
  EXPECT_TRUE(contains(svgOf(g), "state.bn1.running_mean"));
}

TEST(Dot, OddNames) {
  Graph g("a \"graph\" <of> & many \\ things");
  ValueId x = addInput(g, "x<&>\"\\\n\t", kVector);
  Builder b(g);
  ValueId y =
      b.create("exp", {x}, {}, "onnx::Conv_1/\xc3\xa4 ]]> </b>&amp; \xff\xfe \x01 \xe2\x82");
  y = b.create("neg", {y}, {}, std::string(500, 'n'));
  nodeOf(g, y).marks = {"\"><script>"};
  g.addOutput(y);
  std::string svg = svgOf(g);
  EXPECT_TRUE(contains(svg, "exp"));
  EXPECT_TRUE(contains(svg, "\xc3\xa4") || contains(svg, "&#228;"));
  EXPECT_FALSE(contains(svg, "<script>"));
  EXPECT_TRUE(contains(svg, "x&lt;&amp;&gt;&quot;"));
}

TEST(Dot, AnEmptyGraphAndABareParameter) {
  EXPECT_TRUE(contains(svgOf(Graph()), "main"));
  Graph g;
  g.addOutput(addInput(g, "w", kVector, InputKind::Param));
  EXPECT_TRUE(contains(dotText(g), "<b>param</b> w"));
}

// A node that reads a value twice has one arrow from it.
TEST(Dot, OneEdgeForEachPair) {
  Graph g;
  ValueId x = addInput(g, "x", kVector);
  Builder b(g);
  ValueId a = b.create("exp", {x}, {}, "a");
  g.addOutput(b.create("mul", {a, a}, {}, "y"));
  EXPECT_EQ(count(dotText(g), "n0 -> n1"), 1);
}

TEST(RenderSvg, SaysWhatIsWrong) {
  auto failed = renderSvg("this is no graph {");
  ASSERT_FALSE(bool(failed));
  EXPECT_NE(llvm::toString(failed.takeError()).find("'dot' failed: "), std::string::npos);
}

// The input is larger than a pipe's buffer, and the program stops reading at once. This must give
// an error, and neither a signal nor an endless wait.
TEST(RenderSvg, SurvivesAProgramThatDoesNotRead) {
  auto failed = renderSvg("digraph { a -> }\n" + std::string(1 << 22, 'x'));
  ASSERT_FALSE(bool(failed));
  llvm::consumeError(failed.takeError());
}

// Returns the error of renderSvg if PATH holds only a folder with `script` as `dot`. With an empty
// script there is no such program.
std::string failureWith(const std::string &script, unsigned limitSeconds = 120) {
  std::string folder = testing::TempDir() + "programs", path = std::getenv("PATH");
  std::filesystem::remove_all(folder);
  std::filesystem::create_directory(folder);
  if (!script.empty()) {
    std::ofstream(folder + "/dot") << "#!/bin/sh\n" << script << "\n";
    std::filesystem::permissions(folder + "/dot", std::filesystem::perms::owner_all);
  }
  setenv("PATH", folder.c_str(), 1);
  auto failed = renderSvg("digraph { a -> b }", limitSeconds);
  setenv("PATH", path.c_str(), 1);
  EXPECT_FALSE(bool(failed));
  return failed ? "" : llvm::toString(failed.takeError());
}

TEST(RenderSvg, GivesUpInTime) {
  EXPECT_NE(failureWith("exec /bin/sleep 60", /*limitSeconds=*/1).find("within 1 seconds"),
            std::string::npos);
}

TEST(RenderSvg, TellsOfASignal) {
  EXPECT_NE(failureWith("kill -SEGV $$").find("'dot' failed: Segmentation fault"),
            std::string::npos);
}

TEST(RenderSvg, TellsHowToGetGraphviz) {
  EXPECT_NE(failureWith("").find("install Graphviz"), std::string::npos);
}

// --- Folded pictures, and parts

// Five layers of a product and a tanh, the third with another size.
Graph layers() {
  Graph g("layers");
  ValueId v = addInput(g, "x", Type(DType::F32, {4, 4}));
  Builder build(g);
  for (int i = 0; i < 5; ++i) {
    const std::string name = "layer" + std::to_string(i);
    ValueId w = addInput(g, name + ".weight", Type(DType::F32, {4, 4}), InputKind::Param);
    v = build.create("matmul", {v, w}, {}, name + ".product");
    v = build.create(i == 2 ? "exp" : "tanh", {v}, {}, name + ".<act>");
  }
  g.addOutput(v);
  return g;
}

TEST(Dot, LayersThatAreAlikeAreDrawnOnce) {
  const Graph g = layers();
  const std::string text = foldedDotText(g, {.depth = 1, .us = std::vector<double>(10, 500)});
  EXPECT_EQ(count(text, "label=<<b>"), 4) << "the title and three boxes\n" << text;
  EXPECT_TRUE(contains(text, "<b>layer0 to layer1, 2 alike</b>")) << text;
  EXPECT_TRUE(contains(text, "4 nodes, 256 B, 2.0 ms")) << text;
  EXPECT_TRUE(contains(text, "<b>layer2</b>"));
  EXPECT_TRUE(contains(text, "<b>layer3 to layer4, 2 alike</b>"));
  EXPECT_EQ(count(text, " -> "), 2) << "from the first two to the third, to the last two";
}

TEST(Dot, DeeperModulesAreFramed) {
  const std::string text = foldedDotText(layers(), {.depth = 2});
  EXPECT_TRUE(contains(text, "label=<layer0 to layer1, 2 alike>")) << text;
  EXPECT_EQ(count(text, "<b>product</b>"), 3);
  EXPECT_EQ(count(text, "<b>&lt;act&gt;</b>"), 3);
  EXPECT_EQ(count(text, "style=dashed"), 2) << "each of two to the next";
  EXPECT_FALSE(contains(text, " ms"));
}

TEST(Dot, AFoldedPictureIsReadableByItself) {
  const Graph g = llvm::cantFail(buildZoo("mlp", {{"depth", "400"}, {"width", "8"}}));
  const std::string text = foldedDotText(g);
  EXPECT_LE(count(text, "fillcolor="), 40);
  EXPECT_TRUE(contains(text, "alike")) << text;
  EXPECT_FALSE(contains(foldedDotText(Graph("none")), "fillcolor"));
}

TEST(Dot, FoldedPicturesAreDrawn) {
  Rewritten r;
  for (unsigned depth : {0u, 1u, 5u}) {
    auto svg = renderSvg(foldedDotText(r.g, {.depth = depth}));
    ASSERT_TRUE(bool(svg)) << llvm::toString(svg.takeError());
    EXPECT_TRUE(contains(*svg, "recomputed"));
  }
}

TEST(Dot, APartOfAGraph) {
  const Graph g = layers();
  const ValueId middle = g.find("layer2.product");
  auto names = [&](unsigned hops) {
    std::string text;
    for (NodeId n : nodesAround(g, {middle}, hops))
      text += g.nodeName(n).str() + " ";
    return text;
  };
  EXPECT_EQ(names(0), "layer2.product ");
  EXPECT_EQ(names(1), "layer1.<act> layer2.product layer2.<act> ");
  EXPECT_EQ(names(2), "layer1.product layer1.<act> layer2.product layer2.<act> layer3.product ");
  const std::string text = dotText(g, {.only = nodesAround(g, {middle}, 1)});
  EXPECT_TRUE(contains(text, "</b>: 3 of 10 nodes")) << text;
  EXPECT_EQ(count(text, "and 1 more neighbours"), 2) << "before the first, behind the last";
  EXPECT_EQ(count(text, " -> "), 2);
  EXPECT_FALSE(contains(text, "<b>input</b>")) << "no node that is drawn reads it";
  // An input stands for its readers.
  EXPECT_EQ(nodesAround(g, {g.find("x")}, 0), std::vector<NodeId>{NodeId(0)});
}

TEST(Dot, WhatDistinguishesTwoGraphs) {
  const Graph a = layers();
  Graph b("other");
  ValueId x = addInput(b, "x", Type(DType::F32, {4, 4}));
  ValueId w = addInput(b, "layer0.weight", Type(DType::F32, {4, 4}), InputKind::Param);
  Builder build(b);
  ValueId product = build.create("matmul", {x, w}, {}, "layer0.product");
  ValueId act = build.create("exp", {product}, {}, "layer0.<act>");
  b.addOutput(build.create("neg", {act}, {}, "last"));

  const Changes c = changesOf(a, b);
  EXPECT_EQ(c.of[0], Change::Same);
  EXPECT_EQ(c.of[1], Change::Changed) << "exp is no tanh";
  EXPECT_EQ(c.of[2], Change::New);
  ASSERT_EQ(c.gone.size(), 1u);
  EXPECT_EQ(b.nodeName(c.gone[0]), "last");
  const std::string text = dotText(a, {.other = &b});
  EXPECT_EQ(count(text, "penwidth=4"), 9);
  EXPECT_TRUE(contains(text, "only in the other graph")) << text;
  EXPECT_TRUE(contains(text, "n1 -> g2")) << text;
  EXPECT_TRUE(contains(text, "not in the other graph"));
  auto svg = renderSvg(text);
  EXPECT_TRUE(bool(svg)) << llvm::toString(svg.takeError());
  EXPECT_EQ(count(dotText(a, {.other = &a}), "penwidth=4"), 0);
}

} // namespace
} // namespace isthmus
