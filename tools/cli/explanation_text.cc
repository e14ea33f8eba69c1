// `explain` for a person: short sections, aligned.

#include "ir/spelling.h"
#include "tools/cli/explanation.h"
#include "tools/cli/table.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>

namespace isthmus {
namespace {

std::string percent(double part, double whole) {
  return whole > 0 ? llvm::formatv("{0:F1} %", 100 * part / whole).str() : "-";
}

std::string timeText(double us) { return secondsText(us * 1e-6); }

class Text {
public:
  explicit Text(const ExplainedPlan &e) : e_(e), g_(e.plan.graph) {}

  std::string run() {
    plan();
    peaks();
    largest();
    chunked();
    decisions();
    bottlenecks();
    price();
    return std::move(out_);
  }

private:
  void section(const std::string &title) { out_ += (out_.empty() ? "" : "\n") + title + "\n"; }

  void plan() {
    const Figures &r = e_.plan.figures;
    section("Plan (" + policyText() + ")");
    Table t({false, false});
    t.row({"peak", bytesText(r.baselinePeakBytes) + " without recomputation, " +
                       bytesText(r.predictedPeakBytes) + " planned (" +
                       percent(double(r.predictedPeakBytes), double(r.baselinePeakBytes)) + ")"});
    std::string arena = bytesText(r.arenaBytes);
    if (e_.plan.budgetBytes)
      arena += ", of a budget of " + bytesText(*e_.plan.budgetBytes);
    t.row({"arena", arena});
    t.row({"time", timeText(e_.why.plannedUs) + " a step, " + overheadText() + ", as " +
                       e_.plan.figures.costs + " for " + e_.target});
    t.row({"besides", bytesText(r.persistentBytes) +
                          " of parameters and inputs, always live and not counted in the peak"});
    out_ += t.text();
  }

  // The overhead may be negative: encodings may take less time than the ops that they replace.
  std::string overheadText() const {
    const double share = e_.plan.figures.recomputeOverhead;
    const std::string time = timeText(std::abs(share) * e_.why.baselineUs),
                      percents = percent(std::abs(share), 1);
    return share < 0 ? time + " less than without a plan (-" + percents + ")"
                     : time + " of it added (+" + percents + ")";
  }

  std::string policyText() const {
    const PlannedBy used = e_.options.policyUsed;
    return (used == PlannedBy::Budget ? "" : "policy ") + plannedByText(used).str();
  }

  static std::string sizeText(int64_t bytes) { return bytes ? bytesText(bytes) : "-"; }

  void peaks() {
    const PeakContents &a = e_.why.baseline, &b = e_.why.planned;
    section("Live at the peak");
    Table t({false, true, true, true, true});
    t.row({"", "without recomp.", "", "planned", ""});
    for (size_t k = 0; k < kNumLiveKinds; ++k)
      if (a.bytesOf[k] || b.bytesOf[k])
        t.row({liveKindText(LiveKind(k)).str(), sizeText(a.bytesOf[k]),
               percent(double(a.bytesOf[k]), double(a.bytes)), sizeText(b.bytesOf[k]),
               percent(double(b.bytesOf[k]), double(b.bytes))});
    t.row({"in all", sizeText(a.bytes), "", sizeText(b.bytes), ""});
    out_ += t.text();
    if (a.node && b.node)
      out_ += "  without recomputation while " + nodeText(e_.plan.original, a.node) +
              " runs,\n  planned while " + nodeText(g_, b.node) + " runs\n";
  }

  std::string nodeText(const Graph &g, NodeId n) const {
    return llvm::formatv("{0} ({1}, {2}, node {3} of {4})", valueText(g.nodeName(n)),
                         g.node(n).op->name, phaseName(g.node(n).phase), n.index + 1, g.numNodes());
  }

  std::string typeText(ValueId v) const { return g_.type(v).str(); }
  std::string opText(ValueId v) const { return g_.node(g_.value(v).def).op->name; }

  void largest() {
    const std::vector<LiveTensor> &all = e_.why.planned.tensors;
    const size_t most = std::min(all.size(), e_.options.top);
    if (most == 0)
      return;
    section(llvm::formatv("Largest at the planned peak ({0} of {1})", most, all.size()));
    Table t({false, false, false, true, false, false});
    for (const LiveTensor &l : llvm::makeArrayRef(all).take_front(most)) {
      std::string lives = llvm::formatv("node {0} to {1}, until {2}", l.first + 1, l.last + 1,
                                        l.last + 1 == g_.numNodes()
                                            ? "the end"
                                            : valueText(g_.nodeName(NodeId(l.last))) + " has run");
      if (l.first == l.last)
        lives = llvm::formatv("node {0}", l.first + 1);
      if (l.value)
        t.row({valueText(g_.valueName(l.value)), opText(l.value), typeText(l.value),
               bytesText(l.bytes), kindText(l.kind), lives});
      else
        t.row({"(workspace)", g_.node(NodeId(l.first)).op->name, "", bytesText(l.bytes),
               kindText(l.kind), lives});
    }
    out_ += t.text();
  }

  void chunked() {
    if (e_.why.chunked.empty())
      return;
    section(e_.options.of.empty() ? "Never whole: these run in chunks"
                                  : "Named: these run in chunks");
    Table t({false, false, false, true, false});
    for (const ChunkedValue &c : e_.why.chunked)
      t.row({valueText(g_.valueName(c.value)), opText(c.value), typeText(c.value),
             bytesText(g_.type(c.value).bytes()), chunksText(c)});
    out_ += t.text();
  }

  std::string chunksText(const ChunkedValue &c) const {
    std::string text = std::to_string(c.chunks) + " chunks";
    if (c.mostBytes > 0)
      text += " of " + bytesText(c.mostBytes) + " at most";
    if (e_.options.of.empty())
      return text;
    text += llvm::formatv(", node {0} to {1}", c.first + 1, c.last + 1);
    return text + (c.whole ? ", together " + valueText(g_.valueName(c.whole)) : ", never whole");
  }

  static std::string kindText(LiveKind k) {
    static const char *const kShort[kNumLiveKinds] = {
        "saved",    "recomputed",         "fetched", "rebuilt",   "encoded", "chunk",   "passing",
        "gradient", "parameter gradient", "output",  "workspace", "other",   "received"};
    return kShort[size_t(k)];
  }

  std::string addedText() const {
    return "+" + timeText(e_.why.plannedUs - e_.why.baselineUs) + " in " +
           std::to_string(e_.why.recomputations) + (e_.why.recomputations == 1 ? " run" : " runs");
  }

  void decisions() {
    section("What becomes of the tensors");
    static const char *const kTexts[] = {"kept for the backward pass",      "recomputed",
                                         "copied to the host and back",     "rebuilt by inverses",
                                         "kept as a smaller value",         "outputs",
                                         "not needed by the backward pass", "gradients"};
    Table totals({false, true, true, false});
    for (size_t k = 0; k < std::size(kTexts); ++k)
      if (const Explanation::Total &t = e_.why.totals[k]; t.tensors)
        totals.row({kTexts[k], std::to_string(t.tensors), bytesText(t.bytes),
                    k == size_t(TensorDecision::Kind::Recomputed) ? addedText() : ""});
    out_ += totals.text();
    if (e_.why.tensors.empty())
      return;
    if (e_.options.of.empty())
      section(
          llvm::formatv("The largest tensors that the backward pass needs ({0} of {1}; --top=N, "
                        "--of=NAME)",
                        e_.why.tensors.size(),
                        e_.why.totals[size_t(TensorDecision::Kind::Kept)].tensors +
                            e_.why.totals[size_t(TensorDecision::Kind::Recomputed)].tensors +
                            e_.why.totals[size_t(TensorDecision::Kind::Fetched)].tensors +
                            e_.why.totals[size_t(TensorDecision::Kind::Rebuilt)].tensors +
                            e_.why.totals[size_t(TensorDecision::Kind::Encoded)].tensors));
    else
      section("Named (" + std::to_string(e_.why.tensors.size()) + ")");
    for (const TensorDecision &f : e_.why.tensors) {
      out_ += "  " + valueText(g_.valueName(f.value)) + "  " + opText(f.value) + "  " +
              typeText(f.value) + "  " + bytesText(f.bytes) +
              (f.isAtPeak ? ", live at the peak\n" : ", not live at the peak\n");
      out_ += "      " + decisionText(e_, f) + "\n";
      if (std::string why = whyText(e_, f); !why.empty())
        out_ += "      " + why + "\n";
    }
  }

  void bottlenecks() {
    const std::vector<BottleneckDecision> &all = e_.why.bottlenecks;
    const auto taken = size_t(llvm::count_if(all, isTaken));
    if (all.empty()) {
      section("Bottlenecks");
      out_ += "  none: every value has a path around it\n";
      return;
    }
    section(llvm::formatv("Bottlenecks ({0} of {1} are kept)", taken, all.size()));
    std::vector<const BottleneckDecision *> left;
    for (const BottleneckDecision &b : all)
      if (!isTaken(b))
        left.push_back(&b);
    llvm::stable_sort(left, [](const BottleneckDecision *a, const BottleneckDecision *b) {
      return a->tensor.bytes > b->tensor.bytes;
    });
    const size_t most = std::min(left.size(), e_.options.top);
    Table t({false, false, true, false});
    for (const BottleneckDecision *b : llvm::makeArrayRef(left).take_front(most))
      t.row({valueText(g_.valueName(b->value)), typeText(b->value), bytesText(b->tensor.bytes),
             whyText(e_, *b)});
    out_ += t.text();
    if (most < left.size())
      out_ += llvm::formatv("  and {0} more that are not kept\n", left.size() - most);
  }

  void price() {
    section("Price of memory");
    const double us = e_.why.plannedUs - e_.why.baselineUs;
    const int64_t saved = e_.why.baseline.bytes - e_.why.planned.bytes;
    if (saved > 0)
      out_ += "  against no recomputation: " + bytesText(saved) + " less for " + timeText(us) +
              " a step, " +
              llvm::formatv("{0:F1} us per MiB\n", us / (double(saved) / double(1 << 20))).str();
    else if (us > 0)
      out_ += "  the plan needs as much memory as no recomputation, and a step takes " +
              timeText(us) + " longer\n";
    else
      out_ += "  nothing is recomputed, so nothing is saved or paid\n";
    if (auto worth = e_.usPerMiB())
      out_ += llvm::formatv("  one MiB more or less at this budget: {0:F1} us a step\n"
                            "  (by the bound: no plan in this order adds less than {1:F2} %, and "
                            "this one adds {2:F2} %)\n",
                            *worth, 100 * *e_.plan.figures.lowerBoundOverhead,
                            100 * e_.plan.figures.recomputeOverhead);
    else if (e_.plan.budgetBytes)
      out_ += "  the bound on the cost gives no price at this budget\n";
    if (e_.plan.figures.knee)
      out_ += "  " + kneeText(e_.plan.figures) + "\n";
    else if (e_.plan.budgetBytes)
      out_ += "  the price curve has no knee: it bends nowhere by much\n";
  }

  const ExplainedPlan &e_;
  const Graph &g_;
  std::string out_;
};

} // namespace

std::string explanationText(const ExplainedPlan &e) { return Text(e).run(); }

} // namespace isthmus
