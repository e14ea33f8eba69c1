#include "tools/view/problem_step.h"

#include "ir/units.h"
#include "passes/place/place_schedule.h"
#include "llvm/ADT/STLExtras.h"
#include <limits>

namespace isthmus {
namespace {

constexpr uint32_t kNone = ~0u;

class ProblemStep {
public:
  ProblemStep(const plan::Problem &p, const plan::Schedule &s, const ProblemLabels &labels)
      : p_(p), s_(s), labels_(labels), types_(t_.types), sources_(t_.sources),
        firstOf_(p.ops.size()), runs_(p.ops.size()), newest_(p.ops.size()) {}

  StepTable run() {
    addOps();
    for (plan::OpIndex i = 0; i < p_.ops.size(); ++i)
      if (p_.ops[i].isPinned)
        addInput(i);
    for (uint32_t k = 0; k < s_.size(); ++k)
      addNode(k);
    addBlocks();
    addModules();
    return std::move(t_);
  }

private:
  const plan::Op &op(uint32_t step) const { return p_.ops[s_[step]]; }
  std::string name(plan::OpIndex i) const {
    return labels_.names.empty() ? p_.ops[i].name : labels_.names[i];
  }
  std::string type(plan::OpIndex i, size_t output) const {
    if (!labels_.types.empty() && output < labels_.types[i].size())
      return labels_.types[i][output];
    const std::vector<int64_t> &bytes = p_.ops[i].outputBytes;
    return output < bytes.size() && bytes[output] ? bytesText(bytes[output]) : "";
  }

  void addOps() {
    std::vector<std::string> texts;
    TextNumbers numbers(texts);
    for (plan::OpIndex i = 0; i < p_.ops.size(); ++i) {
      const std::string text = labels_.ops.empty() ? "op" : labels_.ops[i];
      opOf_.push_back(numbers(text + (p_.ops[i].isView() ? "\1" : "")));
    }
    for (const std::string &text : texts) {
      const bool isView = llvm::StringRef(text).endswith("\1");
      t_.ops.push_back({isView ? text.substr(0, text.size() - 1) : text, isView});
    }
  }

  size_t numOutputs(plan::OpIndex i) const {
    const plan::Op &o = p_.ops[i];
    const bool isOfStart = o.transfer == plan::Op::Transfer::WaitPrefetch && !o.inputs.empty();
    return std::max<size_t>(1, (isOfStart ? p_.ops[o.inputs[0].op] : o).outputBytes.size());
  }

  // The values of an op, each followed by the next: the first is returned.
  uint32_t addValues(plan::OpIndex i, uint32_t maker, const std::string &suffix) {
    const uint32_t first = uint32_t(t_.values.size());
    const size_t count = numOutputs(i);
    newest_[i].resize(count);
    for (size_t k = 0; k < count; ++k) {
      const uint32_t own = uint32_t(t_.values.size());
      newest_[i][k] = own;
      const std::string part = count > 1 ? ":" + std::to_string(k) : "";
      t_.values.push_back({types_(type(i, k)), maker, runs_[i] ? firstOf_[i] + uint32_t(k) : own,
                           name(i) + part + suffix});
    }
    if (!runs_[i]++)
      firstOf_[i] = first;
    return first;
  }

  void addInput(plan::OpIndex i) {
    const uint32_t v = addValues(i, 0, "");
    t_.inputs.push_back({v, "input"});
  }

  // An alternative makes values of the op that it is for; a host copy is a transfer.
  void addNode(uint32_t k) {
    const plan::OpIndex i = s_[k];
    const plan::Op &o = p_.ops[i];
    StepTable::StepNode n{opOf_[i], Phase(o.phase)};
    if (o.transfer != plan::Op::Transfer::None)
      n.standIn = StandIn::Transfer;
    else if (runs_[i] > 0 || o.of != plan::Op::kNone)
      n.standIn = StandIn::Clone;
    else if (!labels_.isChunk.empty() && labels_.isChunk[i])
      n.standIn = StandIn::Chunk;
    if (!labels_.sources.empty() && !labels_.sources[i].empty())
      n.source = sources_(labels_.sources[i]) + 1;
    std::vector<uint32_t> &operands = t_.operands.emplace_back();
    for (const plan::Read &r : o.inputs)
      if (r.output < newest_[r.op].size())
        operands.push_back(newest_[r.op][r.output]);
    const std::string again =
        runs_[i] ? ".re" + (runs_[i] > 1 ? std::to_string(runs_[i]) : "") : "";
    n.firstResult = addValues(i, k + 1, again);
    if (o.of != plan::Op::kNone && o.ofOutput == plan::Op::kAllOutputs)
      newest_[o.of] = newest_[i];
    else if (o.of != plan::Op::kNone)
      newest_[o.of][o.ofOutput] = n.firstResult;
    t_.nodes.push_back(n);
  }

  // The purpose of an instance, as that of a graph's storage (passes/inspect/live_sets.h).
  LiveKind kind(const plan::Instance &c) const {
    const plan::Op &o = op(c.first);
    if (c.isOutput)
      return o.phase == plan::OpPhase::Backward ? LiveKind::ParameterGradient
                                                : LiveKind::OtherOutput;
    switch (t_.nodes[c.first].standIn) {
    case StandIn::Clone:
      return LiveKind::Recomputed;
    case StandIn::Transfer:
      return LiveKind::Fetched;
    case StandIn::Chunk:
      return LiveKind::Chunked;
    default:
      break;
    }
    if (o.phase == plan::OpPhase::Backward)
      return LiveKind::ActivationGradient;
    if (o.phase == plan::OpPhase::Update)
      return LiveKind::Other;
    const bool isSaved = llvm::any_of(
        c.uses, [&](uint32_t step) { return op(step).phase == plan::OpPhase::Backward; });
    return isSaved ? LiveKind::Saved : LiveKind::Passing;
  }

  void addBlocks() {
    Timeline &out = t_.timeline;
    const ScheduleLayout layout = placeSchedule(p_, s_, plan::evaluate(p_, s_).peakBytes);
    const bool isPlaced = layout.arenaBytes != std::numeric_limits<int64_t>::max();
    out.arenaBytes = (isPlaced ? layout.arenaBytes : 0) + labels_.reservedBytes;
    const std::vector<plan::Instance> &all = layout.instances;
    const std::vector<plan::Instance> own = isPlaced ? all : plan::instancesOf(p_, s_);
    addReserved(isPlaced ? layout.arenaBytes : 0);
    out.readers.resize(t_.values.size());
    for (size_t i = 0; i < own.size(); ++i) {
      const plan::Instance &c = own[i];
      if (c.bytes == 0)
        continue;
      const uint32_t v = t_.nodes[c.first].firstResult + c.made.output;
      out.readers[v] = c.uses;
      const int64_t offset = isPlaced ? layout.instanceOffset[i] : Layout::kPersistent;
      out.add(Block{ValueId(v), NodeId(c.first), kind(c), offset}, c, own);
    }
    for (uint32_t k = 0; k < s_.size(); ++k) {
      out.us.push_back(op(k).cost);
      const int64_t offset = isPlaced ? layout.workspaceOffset[k] : Layout::kPersistent;
      out.add({ValueId(), NodeId(k), LiveKind::Workspace, offset, p_.rounded(op(k).workspace), k,
               k + 1});
    }
    out.finish(s_.size());
  }

  void addReserved(int64_t offset) {
    if (labels_.reservedBytes <= 0)
      return;
    const uint32_t v = uint32_t(t_.values.size());
    t_.values.push_back({types_(""), 0, v, "tangents and states"});
    t_.inputs.push_back({v, "input"});
    t_.timeline.add({ValueId(v), NodeId(0), LiveKind::Other, offset, labels_.reservedBytes, 0,
                     uint32_t(s_.size())});
  }

  void addModules() {
    std::vector<std::string> names;
    for (plan::OpIndex i : s_)
      names.push_back(name(i));
    std::vector<ModulePath> paths;
    for (uint32_t k = 0; k < s_.size(); ++k)
      paths.push_back({names[k], op(k).phase == plan::OpPhase::Forward &&
                                     t_.nodes[k].standIn == StandIn::None});
    t_.modules = modulesOf(paths);
  }

  const plan::Problem &p_;
  const plan::Schedule &s_;
  const ProblemLabels &labels_;
  StepTable t_;
  TextNumbers types_, sources_;
  std::vector<uint32_t> opOf_, firstOf_, runs_; // by op
  std::vector<std::vector<uint32_t>> newest_;   // by op: the newest value of each output
};

} // namespace

StepTable stepTableOf(const plan::Problem &p, const plan::Schedule &s,
                      const ProblemLabels &labels) {
  return ProblemStep(p, s, labels).run();
}

std::vector<SamePlace> samePlaces(const plan::Problem &p, const plan::Schedule &a,
                                  const plan::Schedule &b) {
  std::vector<uint32_t> inB(p.ops.size(), kNone);
  for (uint32_t k = uint32_t(b.size()); k-- > 0;)
    inB[b[k]] = k;
  std::vector<SamePlace> pairs;
  for (uint32_t k = 0; k < a.size(); ++k)
    if (uint32_t &in = inB[a[k]]; in != kNone) {
      pairs.push_back({k, in});
      in = kNone;
    }
  return ascending(pairs);
}

} // namespace isthmus
