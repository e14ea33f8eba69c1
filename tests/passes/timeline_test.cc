// What a picture of a step is drawn from, on graphs small enough to know the answers; and sums on
// random graphs.

#include "passes/inspect/detail_levels.h"
#include "passes/inspect/module_tree.h"
#include "passes/inspect/same_place.h"
#include "passes/place/place.h"
#include "passes/rewrite/rematerialize.h"
#include "tests/passes/small_graphs.h"
#include "tools/random/random_graph.h"
#include "llvm/ADT/STLExtras.h"
#include "gtest/gtest.h"
#include <random>

using namespace isthmus;

namespace {

// Live bytes by node, as explain_test.cc tells for the same graph: 4096, 8192, 8256, 16448, 20544,
// 16448. The gradient takes over the bytes of c.
struct Small {
  Graph g{"small"};
  ValueId a, b, c, d, loss, gradient;

  Small() {
    Builder f(g);
    ValueId x = addInput(g, "x", Type(DType::F32, {1024}), InputKind::Param);
    a = f.create("tanh", {x}, {}, "net.a");
    b = f.create("cos", {a}, {}, "net.b");
    loss = g.loss = f.create("mean", {b}, {}, "loss");
    g.addOutput(loss);
    Builder back(g, Phase::Backward);
    d = back.create("concat", {b, b}, {{"axis", 0}}, "d.net.b.concat");
    c = back.create("concat", {a, a}, {{"axis", 0}}, "d.net.a.concat");
    gradient = back.create("mul", {d, c}, {}, "grad.x");
    g.addOutput(gradient, {OutputKind::Gradient, x});
  }

  Timeline timeline() const {
    const Layout layout = cantFail(place(g, Target()));
    return cantFail(timelineOf(g, &layout, Target()));
  }
  Graph rewritten() const {
    GraphProblem p = cantFail(extractProblem(g, Target()));
    auto op = [&](uint32_t node) { return p.opOf(NodeId(node)); };
    return rematerialize(g, p, {op(0), op(1), op(2), op(3), op(0), op(4), op(5)});
  }
};

const Block &blockOf(const Timeline &t, ValueId v) {
  return *llvm::find_if(t.blocks, [&](const Block &b) { return b.value == v; });
}

TEST(Timeline, BlocksAndLiveBytesOfAStep) {
  Small s;
  const Timeline t = s.timeline();
  EXPECT_EQ(t.live, (std::vector<int64_t>{4096, 8192, 8256, 16448, 20544, 16448}));
  EXPECT_EQ(t.peakNode(), 4u);
  EXPECT_EQ(t.us.size(), 6u);
  EXPECT_EQ(t.liveOf[size_t(LiveKind::Saved)],
            (std::vector<int64_t>{4096, 8192, 8192, 8192, 4096, 0}));
  EXPECT_TRUE(t.liveOf[size_t(LiveKind::Recomputed)].empty());
  const Block &a = blockOf(t, s.a);
  EXPECT_EQ(a.maker, NodeId(0));
  EXPECT_EQ(a.kind, LiveKind::Saved);
  EXPECT_EQ(a.bytes, 4096);
  EXPECT_EQ(a.begin, 0u);
  EXPECT_EQ(a.end, 5u);
  EXPECT_EQ(t.readers[s.a.index], (std::vector<uint32_t>{1, 4}));
  EXPECT_EQ(blockOf(t, s.gradient).end, 6u) << "an output lives to the end";
}

TEST(Timeline, ADonorEndsWhereTheResultBegins) {
  Small s;
  const Timeline t = s.timeline();
  const Block &gradient = blockOf(t, s.gradient);
  EXPECT_EQ(gradient.begin, 5u);
  const Block &c = blockOf(t, s.c), &d = blockOf(t, s.d);
  EXPECT_EQ(std::min(c.end, d.end), 5u) << "one of them gives its bytes to the gradient";
  EXPECT_EQ(std::max(c.end, d.end), 6u) << "the other is read while the gradient is made";
  EXPECT_EQ(gradient.offset, c.end == 5 ? c.offset : d.offset);
}

TEST(Timeline, ClonesAreRecomputed) {
  Small s;
  const Graph r = s.rewritten();
  const Timeline t = cantFail(timelineOf(r, nullptr, Target()));
  EXPECT_EQ(llvm::count_if(t.blocks, [](const Block &b) { return b.kind == LiveKind::Recomputed; }),
            1);
  EXPECT_EQ(blockOf(t, s.a).offset, Layout::kPersistent) << "no layout is given";
}

TEST(Timeline, AnEmptyGraph) {
  const Timeline t = cantFail(timelineOf(Graph(), nullptr, Target()));
  EXPECT_TRUE(t.blocks.empty());
  EXPECT_EQ(t.peakNode(), 0u);
  EXPECT_TRUE(extremesOf(t.live).empty());
  EXPECT_EQ(arenaMapOf(t, 8, 8).columns, 0u);
}

// On random graphs: blocks add up to the peak of the layout, lie within the arena, and no two
// overlap.
TEST(Timeline, BlocksOfRandomGraphsNeverOverlap) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    Graph g = randomGraph({.seed = seed});
    const Layout layout = cantFail(place(g, Target()));
    const Timeline t = cantFail(timelineOf(g, &layout, Target()));
    std::vector<int64_t> live(g.numNodes(), 0);
    for (const Block &b : t.blocks) {
      EXPECT_GE(b.offset, 0);
      EXPECT_LE(b.offset + b.bytes, layout.arenaBytes);
      for (uint32_t i = b.begin; i < b.end; ++i)
        live[i] += b.bytes;
    }
    EXPECT_EQ(live, t.live) << seed;
    EXPECT_EQ(live.empty() ? 0 : *std::ranges::max_element(live), layout.peakBytes) << seed;
    for (size_t i = 0; i < t.blocks.size(); ++i)
      for (size_t k = 0; k < i; ++k) {
        const Block &a = t.blocks[i], &b = t.blocks[k];
        EXPECT_TRUE(a.end <= b.begin || b.end <= a.begin || a.offset + a.bytes <= b.offset ||
                    b.offset + b.bytes <= a.offset)
            << "seed " << seed << ": blocks " << i << " and " << k;
      }
  }
}

// --- Levels of detail

TEST(DetailLevels, TheMostAndTheLeastOfEachFour) {
  const ExtremeLevels levels = extremesOf(std::vector<int64_t>{3, 9, 1, 9, 5, 5});
  // Of 3 9 1 9 the first most is at 1, the least at 2; of 5 5 both are at 0. Then 9 over 5, 1
  // under 5.
  ASSERT_EQ(levels.size(), 2u);
  EXPECT_EQ(levels[0], (std::vector<uint8_t>{1 | 2 << 2, 0}));
  EXPECT_EQ(levels[1], (std::vector<uint8_t>{0}));
  EXPECT_TRUE(extremesOf(std::vector<int64_t>{7}).empty());
}

TEST(DetailLevels, ExtremesLeadToTheMostOfAnyStretch) {
  std::mt19937_64 random(1);
  std::vector<int64_t> live(1000);
  for (int64_t &l : live)
    l = int64_t(random() % 100);
  const ExtremeLevels levels = extremesOf(live);
  for (size_t k = 0; k < levels.size(); ++k)
    for (size_t i = 0; i < levels[k].size(); ++i) {
      size_t most = i, least = i;
      for (size_t level = k + 1; level-- > 0;) {
        most = 4 * most + (levels[level][most] & 3);
        least = 4 * least + (levels[level][least] >> 2);
      }
      const size_t width = size_t(1) << (2 * (k + 1)), from = i * width,
                   to = std::min(live.size(), from + width);
      EXPECT_EQ(live[most], *std::max_element(&live[from], &live[0] + to));
      EXPECT_EQ(live[least], *std::min_element(&live[from], &live[0] + to));
    }
}

TEST(DetailLevels, GroupsHoldAllBlocksInOrder) {
  std::mt19937_64 random(2);
  std::vector<Block> blocks(500);
  for (Block &b : blocks) {
    b.begin = uint32_t(random() % 1000);
    b.end = b.begin + 1 + uint32_t(random() % (1u << random() % 10));
    b.bytes = 1 + int64_t(random() % (1u << random() % 20));
  }
  std::vector<Block> sorted = blocks;
  const std::vector<BlockGroup> groups = groupBlocks(sorted);
  size_t count = 0;
  for (const BlockGroup &g : groups) {
    EXPECT_EQ(g.first, count);
    count += g.count;
    for (uint32_t i = g.first; i < g.first + g.count; ++i) {
      EXPECT_TRUE(i == g.first || sorted[i - 1].begin <= sorted[i].begin);
      EXPECT_LE(sorted[i].end - sorted[i].begin, g.longest);
      EXPECT_GT(4 * (sorted[i].end - sorted[i].begin), g.longest);
      EXPECT_LE(sorted[i].bytes, g.largest);
      EXPECT_GT(4 * sorted[i].bytes, g.largest);
    }
  }
  EXPECT_EQ(count, blocks.size());
  auto area = [](const std::vector<Block> &all) {
    int64_t sum = 0;
    for (const Block &b : all)
      sum += b.bytes * (b.end - b.begin);
    return sum;
  };
  EXPECT_EQ(area(sorted), area(blocks));
}

// Four nodes, an arena of 4 bytes. Saved bytes fill the left half from 0 to 2, a workspace of 1
// byte the third node.
TEST(DetailLevels, TheMapTellsWhatFillsACell) {
  Timeline t;
  t.live.resize(4);
  t.arenaBytes = 4;
  t.blocks = {{ValueId(0), NodeId(0), LiveKind::Saved, 0, 2, 0, 2},
              {ValueId(), NodeId(2), LiveKind::Workspace, 0, 1, 2, 3}};
  const ArenaMap map = arenaMapOf(t, 2, 2);
  ASSERT_EQ(map.columns, 2u);
  ASSERT_EQ(map.rows, 2u);
  EXPECT_EQ(map.kind, (std::vector<uint8_t>{0, 0, uint8_t(LiveKind::Workspace), 0}));
  // The workspace takes a quarter of its cell: half of its nodes, half of its bytes.
  EXPECT_EQ(map.filled, (std::vector<uint8_t>{255, 0, 64, 0}));
}

// --- Modules

std::string text(const ModuleTree &t) {
  std::string out;
  for (size_t m = 1; m < t.modules.size(); ++m) {
    for (uint32_t up = t.modules[m].parent; up; up = t.modules[up].parent)
      out += "  ";
    out += t.modules[m].name + ":";
    for (size_t i = 0; i < t.moduleOf.size(); ++i)
      if (t.moduleOf[i] == m)
        out += " " + std::to_string(i);
    out += "\n";
  }
  return out;
}

TEST(Modules, BackwardNodesAndClonesLieWithTheirValues) {
  Small s;
  EXPECT_EQ(text(modulesOf(s.g)), "net:\n"
                                  "  a: 0\n"
                                  "    concat: 4\n"
                                  "  b: 1\n"
                                  "    concat: 3\n"
                                  "loss: 2\n"
                                  "x: 5\n");
  const Graph r = s.rewritten();
  const ModuleTree t = modulesOf(r);
  for (uint32_t i = 0; i < r.numNodes(); ++i)
    if (r.node(NodeId(i)).isClone()) {
      EXPECT_EQ(t.moduleOf[i], t.moduleOf[r.node(NodeId(i)).from.origin.index]);
    }
}

TEST(Modules, PathsMayHaveSlashesAndASinglePathIsOneModule) {
  Graph g;
  Builder f(g);
  ValueId v = addInput(g, "x", Type(DType::F32, {4}));
  for (const char *name : {"/net/block/0/conv", "/net/block/0/relu", "...", "net.block.1.conv"})
    v = f.create("tanh", {v}, {}, name);
  g.addOutput(v);
  const ModuleTree t = modulesOf(g);
  EXPECT_EQ(text(t), "net.block:\n"
                     "  0:\n"
                     "    conv: 0\n"
                     "    relu: 1\n"
                     "  1.conv: 3\n");
  EXPECT_EQ(t.moduleOf[2], Module::kRoot) << "the name has no parts";
}

TEST(Modules, ManySiblingsAreDividedIntoRanges) {
  Graph g;
  Builder f(g);
  ValueId v = addInput(g, "x", Type(DType::F32, {4}));
  constexpr size_t kMost = ModuleTree::kMostChildren, kLayers = kMost * kMost + 1;
  for (size_t i = 0; i < kLayers; ++i)
    v = f.create("tanh", {v}, {}, "layer" + std::to_string(i));
  g.addOutput(v);
  const ModuleTree t = modulesOf(g);
  std::vector<size_t> children(t.modules.size(), 0);
  for (size_t m = 1; m < t.modules.size(); ++m) {
    EXPECT_LT(t.modules[m].parent, m);
    ++children[t.modules[m].parent];
  }
  EXPECT_LE(*std::ranges::max_element(children), kMost);
  EXPECT_EQ(t.modules[1].name, "layer0 to layer4095");
  EXPECT_TRUE(t.modules[1].isRange);
  EXPECT_EQ(t.modules[2].name, "layer0 to layer63");
  EXPECT_EQ(t.modules.back().name, "layer4096") << "a range of one is no range";
  EXPECT_FALSE(t.modules.back().isRange);
}

// --- The same place in two graphs

std::vector<std::pair<std::string, std::string>> pairsOf(const Graph &a, const Graph &b) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const SamePlace &p : samePlaces(a, b))
    out.emplace_back(a.nodeName(NodeId(p.a)), b.nodeName(NodeId(p.b)));
  return out;
}

Graph chainOf(llvm::ArrayRef<const char *> names) {
  Graph g;
  Builder f(g);
  const ValueId x = addInput(g, "x", Type(DType::F32, {4}));
  for (const char *name : names)
    g.addOutput(f.create("tanh", {x}, {}, name));
  return g;
}

TEST(SamePlaces, AreAscendingInBoth) {
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  // `late` ran last in one and first in the other: the others agree.
  EXPECT_EQ(pairsOf(chainOf({"a", "b", "c", "late"}), chainOf({"late", "a", "new", "b", "c"})),
            (Pairs{{"a", "a"}, {"b", "b"}, {"c", "c"}}));
  EXPECT_EQ(pairsOf(chainOf({"a"}), chainOf({"b"})), Pairs());
  EXPECT_EQ(pairsOf(Graph(), chainOf({"b"})), Pairs());
}

TEST(SamePlaces, ClonesHaveNone) {
  Small s;
  const auto pairs = pairsOf(s.rewritten(), s.g);
  EXPECT_EQ(pairs.size(), s.g.numNodes());
  for (const auto &[a, b] : pairs)
    EXPECT_EQ(a, b);
}

} // namespace
