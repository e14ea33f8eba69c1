#include "ir/json.h"
#include "passes/inspect/joint_graph.h"
#include <map>
#include <set>

namespace isthmus {
namespace {

using Json = nlohmann::ordered_json;
using plan::Op;
using plan::OpIndex;
using plan::Read;

bool isBefore(const Read &a, const Read &b) {
  return std::pair(a.op, a.output) < std::pair(b.op, b.output);
}

// Makes a node of each op. Right after it follows a view, an item, for each of its outputs that is
// needed without the others.
class Writer {
public:
  Writer(const std::string &name, const plan::Problem &p) : name_(name), p_(p) {}

  std::string run() {
    for (const Op &op : p_.ops)
      for (const Input &input : inputsOf(op))
        if (!input.isWhole)
          items_[input.read] = 0;
    wanted_.insert(p_.outputs.begin(), p_.outputs.end());
    for (const Read &r : p_.outputs)
      if (!isWanted(r.op))
        items_[r] = 0;
    numberNodes();
    Json nodes = Json::array();
    for (OpIndex i = 0; i < p_.ops.size(); ++i) {
      nodes.push_back(node(p_.ops[i], idOf_[i]));
      for (auto it = items_.lower_bound({i, 0}); it != items_.end() && it->first.op == i; ++it)
        nodes.push_back(node(item(it->first), it->second));
    }
    Json file = frame();
    file["nodes"] = std::move(nodes);
    return jsonText(file);
  }

private:
  // What one input of a node stands for.
  struct Input {
    Read read;    // the first
    bool isWhole; // the input is the node of the op itself, and no item
    size_t first; // the index of the read in the op's list
  };

  static size_t numOutputs(const Op &op) { return std::max<size_t>(1, op.outputBytes.size()); }

  // The base of a view is whole: the view says which output it uses.
  std::vector<Input> inputsOf(const Op &op) const {
    std::vector<char> isAlone(op.inputs.size(), 0); // whether the op refers to the read by itself
    for (const Op::Donation &d : op.donations)
      isAlone[d.input] = 1;
    for (uint32_t input : op.overwrites)
      isAlone[input] = 1;
    if (op.isView())
      isAlone[op.viewOf] = 1;
    std::vector<Input> inputs;
    for (size_t k = 0; k < op.inputs.size();) {
      const size_t count = numOutputs(p_.ops[op.inputs[k].op]);
      bool isAll = k + count <= op.inputs.size();
      for (uint32_t o = 0; isAll && o < count; ++o)
        isAll = op.inputs[k + o] == Read{op.inputs[k].op, o} && !(isAlone[k + o] && count > 1);
      inputs.push_back({op.inputs[k], isAll || k == op.viewOf, k});
      k += isAll ? count : 1;
    }
    return inputs;
  }

  void numberNodes() {
    size_t next = 0;
    auto it = items_.begin();
    for (OpIndex i = 0; i < p_.ops.size(); ++i) {
      idOf_.push_back(next++);
      for (; it != items_.end() && it->first.op == i; ++it)
        it->second = next++;
    }
  }

  // Whether all outputs of the op are outputs of the problem.
  bool isWanted(OpIndex i) const {
    for (uint32_t o = 0; o < numOutputs(p_.ops[i]); ++o)
      if (!wanted_.count({i, o}))
        return false;
    return true;
  }

  Json frame() const {
    Json outputs = Json::array(), forward = Json::array(), persistent = Json::array();
    std::set<size_t> listed;
    for (const Read &r : p_.outputs)
      if (const size_t id = isWanted(r.op) ? idOf_[r.op] : items_.at(r); listed.insert(id).second)
        outputs.push_back(id);
    for (OpIndex i : p_.forwardOutputs)
      forward.push_back(idOf_[i]);
    int64_t bytes = 0;
    for (OpIndex i = 0; i < p_.ops.size(); ++i)
      if (p_.ops[i].isPinned) {
        persistent.push_back(idOf_[i]);
        bytes += p_.ops[i].outputBytes[0];
      }
    return {{"format", "joint-graph/2"},
            {"name", name_},
            {"order", kOrderNames[size_t(p_.order)]},
            {"alignment", p_.alignment},
            {"outputs", outputs},
            {"forward_outputs", forward},
            {"inputs", persistent},
            {"params", Json::array()},
            {"grads", Json::array()},
            {"persistent_bytes", bytes}};
  }

  Json node(const Op &op, size_t id) const {
    const bool hasBytes = !op.isView() && op.transfer != Op::Transfer::WaitPrefetch;
    int64_t bytes = 0;
    for (int64_t each : op.outputBytes)
      bytes += hasBytes ? each : 0;
    const std::vector<Input> inputs = inputsOf(op);
    std::vector<size_t> ids, position(op.inputs.size()); // by read: its input
    for (const Input &input : inputs) {
      position[input.first] = ids.size();
      ids.push_back(input.isWhole ? idOf_[input.read.op] : items_.at(input.read));
    }
    Json n{{"id", id},
           {"op", op.isPinned ? "input" : "op"},
           {"name", op.name},
           {"phase", kPhaseNames[size_t(op.phase)]},
           {"inputs", ids},
           {"bytes", bytes},
           {"view", op.isView()},
           {"cost", op.cost},
           {"recomputable", op.recomputable}};
    if (hasBytes && op.outputBytes.size() > 1)
      n["out_bytes"] = op.outputBytes;
    if (op.isView()) {
      const Read &base = op.inputs[op.viewOf];
      n["view_of"] = idOf_[base.op];
      if (numOutputs(p_.ops[base.op]) > 1)
        n["index"] = base.output;
    }
    if (op.isPinned)
      n["persistent"] = true;
    if (op.workspace)
      n["workspace"] = op.workspace;
    for (const Op::Donation &d : op.donations)
      n["may_reuse"].push_back({d.output, position[d.input]});
    for (uint32_t input : op.overwrites)
      n["overwrites"].push_back(position[input]);
    addAlternative(n, op);
    return n;
  }

  void addAlternative(Json &n, const Op &op) const {
    if (op.of != Op::kNone && op.ofOutput == Op::kAllOutputs)
      n["of"] = idOf_[op.of];
    else if (op.of != Op::kNone)
      n["of"] = {idOf_[op.of], op.ofOutput};
    if (op.transfer == Op::Transfer::None)
      return;
    n["kind"] = op.startsTransfer() ? "copy_start" : "copy_wait";
    const bool isToHost =
        op.transfer == Op::Transfer::StartOffload || op.transfer == Op::Transfer::WaitOffload;
    n["direction"] = isToHost ? "to_host" : "to_device";
    if (op.startsTransfer())
      n["bus_us"] = op.transferTime;
  }

  // A view of one output.
  Op item(const Read &r) const {
    Op view;
    view.name = p_.ops[r.op].name + "." + std::to_string(r.output);
    view.phase = p_.ops[r.op].phase;
    view.inputs = {r};
    view.viewOf = 0;
    return view;
  }

  const std::string &name_;
  const plan::Problem &p_;
  std::vector<size_t> idOf_;                                    // by op
  std::map<Read, size_t, decltype(&isBefore)> items_{isBefore}; // with their ids
  std::set<Read, decltype(&isBefore)> wanted_{isBefore};        // the outputs of the problem
};

} // namespace

std::string printJointGraph(const std::string &name, const plan::Problem &p) {
  return Writer(name, p).run();
}

} // namespace isthmus
