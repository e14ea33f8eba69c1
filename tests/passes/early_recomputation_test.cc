// Tests that devices recompute before they wait for messages, as far as there is room.

#include "ir/place.h"
#include "passes/compile/compile.h"
#include "passes/stages/checkpoint_mode.h"
#include "passes/stages/early_recomputation.h"
#include "passes/stages/messages.h"
#include "tools/zoo/zoo.h"

#include <gtest/gtest.h>

namespace isthmus {
namespace {

// What starts or awaits a message, what waits until a message was taken, and what may be among
// them.
enum class Kind { Message, Wait, Release, Repeat, Other };

// Repeats between a wait for a message and the start of the next message.
size_t repeatsBehindWaits(llvm::ArrayRef<Kind> kinds) {
  size_t count = 0;
  bool isBehind = false;
  for (Kind k : kinds) {
    isBehind = k == Kind::Wait || (isBehind && k != Kind::Message);
    count += isBehind && k == Kind::Repeat;
  }
  return count;
}

// Waits until messages were taken, with nothing but starts of messages before a repeat.
size_t releasesBeforeRepeats(llvm::ArrayRef<Kind> kinds) {
  size_t count = 0;
  bool isBefore = false;
  for (Kind k : llvm::reverse(kinds)) {
    isBefore = k == Kind::Repeat || (isBefore && (k == Kind::Release || k == Kind::Message));
    count += isBefore && k == Kind::Release;
  }
  return count;
}

Kind kindOf(const Graph &g, const Node &n) {
  return n.op->isMessage()     ? Kind::Message
         : isWaitForSend(g, n) ? Kind::Release
         : n.op->is(kWait)     ? Kind::Wait
         : n.isClone()         ? Kind::Repeat
                               : Kind::Other;
}

Graph smallGpt() {
  return cantFail(buildZoo("gpt2", {{"depth", "4"},
                                    {"width", "32"},
                                    {"heads", "4"},
                                    {"batch", "16"},
                                    {"tokens", "16"},
                                    {"vocab", "100"}}));
}

TEST(EarlyRecomputation, IsWhatModesDo) {
  CompileOptions o;
  o.step.loss = cantFail(parseLoss("cross_entropy"));
  o.microBatches = 8;
  o.stages.emplace();
  o.stages->stages = 4;
  o.stages->checkpoint = CheckpointMode::Always;
  for (StageOrder order : {StageOrder::GPipe, StageOrder::OneFOneB, StageOrder::ZeroBubble}) {
    o.stages->order = order;
    Graph g = smallGpt();
    const Compiled c = cantFail(compile(std::move(g), o, Target()));
    const Places places(c.graph);
    std::vector<std::vector<Kind>> kinds(places.count());
    for (uint32_t i = 0; i < c.graph.numNodes(); ++i)
      kinds[places.of(NodeId(i))].push_back(kindOf(c.graph, c.graph.node(NodeId(i))));
    size_t clones = 0;
    // The last device waits for activations alone, and what it recomputes depends on them.
    for (uint32_t place = 0; place + 1 < places.count(); ++place) {
      EXPECT_EQ(repeatsBehindWaits(kinds[place]), 0u) << places.name(place);
      EXPECT_EQ(releasesBeforeRepeats(kinds[place]), 0u) << places.name(place);
      clones += size_t(llvm::count(kinds[place], Kind::Repeat));
    }
    EXPECT_GT(clones, 0u);
  }
}

// The first of two devices of a step, and a schedule that recomputes just before each reader.
class FirstDevice {
public:
  FirstDevice() {
    Graph g = smallGpt();
    CompileOptions o;
    o.step.loss = cantFail(parseLoss("cross_entropy"));
    o.stages.emplace();
    o.stages->stages = 2;
    o.microBatches = 2;
    o.stages->checkpoint = CheckpointMode::Never;
    graph_ = cantFail(compile(std::move(g), o, Target())).graph;
    problem_ = cantFail(extractProblem(graph_, Target()));
    place_ = placeProblems(graph_, problem_, Places(graph_)).front();
    for (plan::OpIndex i = 0; i < place_.problem.ops.size(); ++i) {
      const plan::Op &op = place_.problem.ops[i];
      if (op.isPinned)
        continue;
      if (op.phase == plan::OpPhase::Backward)
        for (const plan::Read &r : op.inputs)
          if (const plan::Op &read = place_.problem.ops[r.op];
              read.phase == plan::OpPhase::Forward && read.recomputable && !read.isPinned)
            late_.push_back(r.op);
      late_.push_back(i);
    }
  }

  plan::Schedule moved(int64_t mostBytes) const {
    return recomputedBeforeWaits(graph_, problem_, place_, late_, mostBytes);
  }
  const plan::Schedule &late() const { return late_; }
  plan::Evaluation judged(const plan::Schedule &s) const {
    return plan::evaluate(place_.problem, s);
  }

  size_t numBehindWaits(const plan::Schedule &s) const {
    std::vector<bool> hasRun(place_.problem.ops.size(), false);
    std::vector<Kind> kinds;
    for (plan::OpIndex op : s) {
      const plan::OpIndex whole = place_.whole[op];
      const bool isNode = whole != PlaceProblem::kStarted && problem_.isNode(whole);
      kinds.push_back(hasRun[op] ? Kind::Repeat
                      : isNode   ? kindOf(graph_, graph_.node(problem_.nodeOf(whole)))
                                 : Kind::Other);
      hasRun[op] = true;
    }
    return repeatsBehindWaits(kinds);
  }

private:
  Graph graph_;
  GraphProblem problem_;
  PlaceProblem place_;
  plan::Schedule late_;
};

TEST(EarlyRecomputation, MovesAsMuchAsThereIsRoomFor) {
  const FirstDevice device;
  const plan::Evaluation late = device.judged(device.late());
  ASSERT_TRUE(late.error.empty()) << late.error;
  const size_t behind = device.numBehindWaits(device.late());
  ASSERT_GT(behind, 4u);

  EXPECT_EQ(device.moved(0), device.late());
  EXPECT_EQ(device.numBehindWaits(device.moved(INT64_MAX)), 0u);

  size_t least = behind;
  for (int64_t room :
       {late.peakBytes / 2, late.peakBytes * 3 / 4, late.peakBytes, late.peakBytes * 2}) {
    const plan::Schedule s = device.moved(room);
    EXPECT_TRUE(std::is_permutation(s.begin(), s.end(), device.late().begin()));
    const plan::Evaluation e = device.judged(s);
    ASSERT_TRUE(e.error.empty()) << e.error;
    EXPECT_LE(e.peakBytes, std::max(room, late.peakBytes));
    EXPECT_LE(device.numBehindWaits(s), least);
    least = device.numBehindWaits(s);
  }
  EXPECT_EQ(least, 0u);
}

} // namespace
} // namespace isthmus
