// Writes a problem of the planner in the two forms that a program can give: arrays and JSON.
#pragma once

#include "passes/plan/problem.h"
#include "tools/c/isthmus.h"
#include <map>
#include <sstream>

namespace isthmus::doors {

using plan::Op;
using plan::OpIndex;
using plan::Read;

inline bool makesNothing(const Op &op) {
  return op.isView() || op.waitsForTransfer() || op.transfer == Op::Transfer::StartOffload;
}

// Changes a problem into one that both forms can hold. An op that reads one output of several reads
// a view of that output instead. A view that names an input twice means the last one. Only ops that
// are alternatives of another op, and host copies, may be alternatives.
class Expressible {
public:
  static bool is(const plan::Problem &p) {
    for (const Op &op : p.ops)
      if (op.isAlternative && op.of == Op::kNone && op.transfer == Op::Transfer::None)
        return false;
    return true;
  }

  static plan::Problem of(const plan::Problem &p) { return Expressible(p).run(); }

private:
  explicit Expressible(const plan::Problem &p) : p_(p) {}

  plan::Problem run() {
    to_.alignment = p_.alignment;
    to_.order = p_.order;
    for (OpIndex i = 0; i < p_.ops.size(); ++i) {
      now_[i] = OpIndex(to_.ops.size());
      to_.ops.push_back(p_.ops[i]);
      for (uint32_t o = 0; hasItems(i) && o < p_.ops[i].outputBytes.size(); ++o) {
        items_[{i, o}] = OpIndex(to_.ops.size());
        Op item;
        item.phase = p_.ops[i].phase;
        item.inputs = {{i, o}};
        item.viewOf = 0;
        to_.ops.push_back(item);
      }
    }
    for (OpIndex i = 0; i < to_.ops.size(); ++i)
      redirect(to_.ops[i]);
    for (const Read &r : p_.outputs)
      to_.outputs.push_back(single(r));
    for (OpIndex i : p_.forwardOutputs)
      to_.forwardOutputs.push_back(now_[i]);
    return std::move(to_);
  }

  bool hasItems(OpIndex i) const {
    return p_.ops[i].outputBytes.size() > 1 && !p_.ops[i].isAlternative;
  }

  Read single(const Read &r) const {
    auto item = items_.find({r.op, r.output});
    return item == items_.end() ? Read{now_.at(r.op), r.output} : Read{item->second, 0};
  }

  void redirect(Op &op) {
    op.name = "n" + std::to_string(&op - to_.ops.data());
    const bool isItem =
        op.isView() && op.inputs.size() == 1 && hasItems(op.inputs[0].op) &&
        &op > &to_.ops[now_[op.inputs[0].op]] &&
        &op <= &to_.ops[now_[op.inputs[0].op]] + p_.ops[op.inputs[0].op].outputBytes.size();
    const bool readsAll = op.inputs.size() > 1 && op.transfer == Op::Transfer::StartOffload;
    for (Read &r : op.inputs)
      r = isItem || readsAll ? Read{now_[r.op], r.output} : single(r);
    if (op.of != Op::kNone)
      op.of = now_[op.of];
    for (uint32_t k = 0; op.isView() && k < op.inputs.size(); ++k)
      if (op.inputs[k] == op.inputs[op.viewOf])
        op.viewOf = k;
  }

  const plan::Problem &p_;
  plan::Problem to_;
  std::map<OpIndex, OpIndex> now_;
  std::map<std::pair<OpIndex, uint32_t>, OpIndex> items_; // the views of single outputs
};

// The arrays of an expressible problem, which must outlive them.
class Arrays {
public:
  explicit Arrays(const plan::Problem &p) {
    for (const Op &op : p.ops)
      add(p, op);
    for (const Read &r : p.outputs) {
      outputOp_.push_back(r.op);
      outputOutput_.push_back(r.output);
    }
    a_.size = sizeof a_;
    a_.num_ops = p.ops.size();
    a_.cost = cost_.data();
    a_.workspace = workspace_.data();
    a_.phase = phase_.data();
    a_.flags = flags_.data();
    a_.output_begin = outputBegin_.data();
    a_.output_bytes = outputBytes_.data();
    a_.input_begin = inputBegin_.data();
    a_.input_op = inputOp_.data();
    a_.input_output = inputOutput_.data();
    a_.view_of = viewOf_.data();
    a_.num_outputs = outputOp_.size();
    a_.output_op = outputOp_.data();
    a_.output_output = outputOutput_.data();
    a_.order = p.order == plan::Order::Phases  ? ISTHMUS_BY_PHASES
               : p.order == plan::Order::Fixed ? ISTHMUS_AS_GIVEN
                                               : ISTHMUS_ANY_ORDER;
    a_.num_forward_outputs = p.forwardOutputs.size();
    a_.forward_outputs = p.forwardOutputs.data();
    a_.alignment = p.alignment;
    a_.donation_begin = donationBegin_.data();
    a_.donation_output = donationOutput_.data();
    a_.donation_input = donationInput_.data();
    a_.kind = kind_.data();
    a_.of_op = ofOp_.data();
    a_.of_output = ofOutput_.data();
    a_.transfer_time = transferTime_.data();
    a_.overwrite_begin = overwriteBegin_.data();
    a_.overwrite_input = overwriteInput_.empty() ? &none_ : overwriteInput_.data();
    // Lists of which none has an entry are not null.
    if (donationOutput_.empty())
      a_.donation_output = a_.donation_input = &none_;
  }

  isthmus_arrays &get() { return a_; }

private:
  void add(const plan::Problem &p, const Op &op) {
    cost_.push_back(op.cost);
    workspace_.push_back(op.workspace);
    phase_.push_back(uint8_t(op.phase));
    flags_.push_back(
        uint8_t((op.isPinned ? ISTHMUS_PINNED : 0) | (op.recomputable ? 0 : ISTHMUS_RUNS_ONCE)));
    for (int64_t bytes : makesNothing(op) ? std::vector<int64_t>{0} : op.outputBytes)
      outputBytes_.push_back(bytes);
    outputBegin_.push_back(outputBytes_.size());
    for (size_t k = 0; k < op.inputs.size(); ++k) {
      if (op.transfer == Op::Transfer::WaitPrefetch && k > 0)
        continue; // the start's further outputs go without saying
      inputOp_.push_back(op.inputs[k].op);
      inputOutput_.push_back(op.inputs[k].output);
    }
    inputBegin_.push_back(inputOp_.size());
    viewOf_.push_back(op.isView() ? int32_t(op.viewOf) : -1);
    for (const Op::Donation &d : op.donations) {
      donationOutput_.push_back(d.output);
      donationInput_.push_back(d.input);
    }
    donationBegin_.push_back(donationOutput_.size());
    overwriteInput_.insert(overwriteInput_.end(), op.overwrites.begin(), op.overwrites.end());
    overwriteBegin_.push_back(overwriteInput_.size());
    kind_.push_back(uint8_t(op.transfer));
    ofOp_.push_back(op.of);
    ofOutput_.push_back(op.ofOutput);
    transferTime_.push_back(op.transferTime);
  }

  isthmus_arrays a_ = {};
  const uint32_t none_ = 0;
  std::vector<double> cost_, transferTime_;
  std::vector<int64_t> workspace_, outputBytes_;
  std::vector<uint8_t> phase_, flags_, kind_;
  std::vector<size_t> outputBegin_ = {0}, inputBegin_ = {0}, donationBegin_ = {0},
                      overwriteBegin_ = {0};
  std::vector<uint32_t> inputOp_, inputOutput_, outputOp_, outputOutput_, donationOutput_,
      donationInput_, overwriteInput_, ofOp_, ofOutput_;
  std::vector<int32_t> viewOf_;
};

template <typename List> std::string jsonList(const List &list) {
  std::ostringstream out;
  for (const auto &item : list)
    out << (out.tellp() ? ", " : "") << item;
  return "[" + out.str() + "]";
}

inline std::string jsonNode(const plan::Problem &p, OpIndex i) {
  const Op &op = p.ops[i];
  std::ostringstream out;
  std::vector<OpIndex> inputs;
  for (const Read &r : op.inputs) // all outputs of an op are one input
    if (inputs.empty() || op.transfer == Op::Transfer::None || inputs.back() != r.op)
      inputs.push_back(r.op);
  out << "{\"id\": " << i << ", \"name\": \"" << op.name << "\", \"cost\": " << op.cost
      << ", \"inputs\": " << jsonList(inputs)
      << ", \"recomputable\": " << (op.recomputable ? "true" : "false")
      << ", \"workspace\": " << op.workspace << ", \"phase\": \""
      << (op.phase == plan::OpPhase::Forward    ? "forward"
          : op.phase == plan::OpPhase::Backward ? "backward"
                                                : "update")
      << "\"";
  if (op.isPinned)
    out << ", \"persistent\": true";
  if (op.isView()) {
    out << ", \"view\": true, \"view_of\": " << op.inputs[op.viewOf].op;
    if (p.ops[op.inputs[op.viewOf].op].outputBytes.size() > 1)
      out << ", \"index\": " << op.inputs[op.viewOf].output;
  } else if (makesNothing(op)) {
    out << ", \"bytes\": 0";
  } else {
    out << ", \"out_bytes\": " << jsonList(op.outputBytes);
  }
  std::vector<std::string> donations;
  for (const Op::Donation &d : op.donations)
    donations.push_back("[" + std::to_string(d.output) + ", " + std::to_string(d.input) + "]");
  out << ", \"may_reuse\": " << jsonList(donations);
  if (!op.overwrites.empty())
    out << ", \"overwrites\": " << jsonList(op.overwrites);
  if (op.of != Op::kNone && op.ofOutput == Op::kAllOutputs)
    out << ", \"of\": " << op.of;
  else if (op.of != Op::kNone)
    out << ", \"of\": [" << op.of << ", " << op.ofOutput << "]";
  if (op.waitsForTransfer())
    out << ", \"kind\": \"copy_wait\"";
  if (op.startsTransfer())
    out << ", \"kind\": \"copy_start\", \"bus_us\": " << op.transferTime << ", \"direction\": \""
        << (op.transfer == Op::Transfer::StartOffload ? "to_host" : "to_device") << "\"";
  out << "}";
  return out.str();
}

// joint-graph/2.
inline std::string jsonOf(const plan::Problem &p) {
  std::vector<std::string> nodes;
  for (OpIndex i = 0; i < p.ops.size(); ++i)
    nodes.push_back(jsonNode(p, i));
  std::vector<OpIndex> outputs;
  for (const Read &r : p.outputs)
    outputs.push_back(r.op);
  const char *order = p.order == plan::Order::Phases  ? "phases"
                      : p.order == plan::Order::Fixed ? "fixed"
                                                      : "free";
  return "{\"format\": \"joint-graph/2\", \"name\": \"drawn\", \"alignment\": " +
         std::to_string(p.alignment) + ", \"order\": \"" + order +
         "\", \"forward_outputs\": " + jsonList(p.forwardOutputs) +
         ", \"outputs\": " + jsonList(outputs) + ", \"nodes\": " + jsonList(nodes) + "}";
}

} // namespace isthmus::doors
