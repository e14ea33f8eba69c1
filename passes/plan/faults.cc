#include "passes/plan/faults.h"

#include "passes/plan/alternatives.h"
#include "passes/plan/op_name.h"
#include "passes/plan/overwrites.h"
#include "passes/plan/sizes.h"

#include <cstdio>

namespace isthmus::plan {
namespace {

using std::to_string;
using Transfer = Op::Transfer;

constexpr double kMostTime = 1e300; // sums of times stay finite

std::string wrongTime(const char *what, double time) {
  if (time >= 0 && time < kMostTime)
    return "";
  char got[32];
  std::snprintf(got, sizeof got, "%g", time);
  return std::string(what) + " is to be a number of microseconds from 0 to 1e300, got " + got;
}

bool makesNothing(const Op &op) {
  return op.isView() || op.waitsForTransfer() || op.transfer == Transfer::StartOffload;
}

std::string wrongSizes(const Op &op) {
  if (op.workspace < 0 || op.workspace > kMostBytes)
    return "its workspace is to be from 0 to 2^62 bytes, got " + to_string(op.workspace);
  for (int64_t bytes : op.outputBytes)
    if (bytes < 0 || bytes > kMostBytes)
      return "an output has " + to_string(bytes) + " bytes, and is to have from 0 to 2^62";
  if (op.isView() && op.isPinned)
    return "a view cannot be pinned; what it is a view of can";
  if (makesNothing(op) && op.outputBytes != std::vector<int64_t>{0})
    return "a view, the start of an offload and a wait have one output, of 0 bytes";
  if (op.outputBytes.empty())
    return "it has no output; where nothing is made, that is 0 bytes";
  if (op.isPinned && op.outputBytes.size() != 1)
    return "what is pinned has one output, got " + to_string(op.outputBytes.size());
  return "";
}

// The wait for a prefetch has the outputs of its start.
size_t numOutputs(const Problem &p, OpIndex i) {
  const Op &op = p.ops[i];
  const bool isReturn =
      op.transfer == Transfer::WaitPrefetch && !op.inputs.empty() && op.inputs[0].op < p.ops.size();
  return (isReturn ? p.ops[op.inputs[0].op] : op).outputBytes.size();
}

std::string wrongReads(const Problem &p, OpIndex i) {
  const Op &op = p.ops[i];
  for (const Read &r : op.inputs) {
    if (r.op >= i && !op.isAlternative)
      return "it reads op " + to_string(r.op) + ", which does not come before it";
    if (r.op >= p.ops.size())
      return "it reads op " + to_string(r.op) + ", and there are " + to_string(p.ops.size());
    if (r.output >= numOutputs(p, r.op))
      return "it reads output " + to_string(r.output) + " of " + calledInMessages(p, r.op) +
             ", which has " + to_string(numOutputs(p, r.op));
  }
  if (op.transfer == Transfer::WaitPrefetch && !op.inputs.empty() && op.inputs[0].output != 0)
    return "the first input of a wait is to be output 0 of its start";
  return "";
}

// What the op says of its own inputs.
std::string wrongInputs(const Op &op) {
  const size_t inputs = op.inputs.size(), own = makesNothing(op) ? 0 : op.outputBytes.size();
  if (op.isView() && op.viewOf >= inputs)
    return "it is a view of its input " + to_string(op.viewOf) + ", and has " + to_string(inputs);
  for (const Op::Donation &d : op.donations)
    if (d.input >= inputs || (d.output >= own && !op.waitsForTransfer()))
      return "its input " + to_string(d.input) + " donates to its output " + to_string(d.output) +
             ", and it has " + to_string(inputs) + " inputs and " + to_string(own) +
             " outputs with bytes of their own";
  for (uint32_t input : op.overwrites)
    if (input >= inputs)
      return "it overwrites its input " + to_string(input) + ", and has " + to_string(inputs);
  return "";
}

std::optional<Fault> faultOfOps(const Problem &p) {
  SizeLimit sizes(p);
  for (OpIndex i = 0; i < p.ops.size(); ++i) {
    const Op &op = p.ops[i];
    for (std::string why :
         {wrongTime("its cost", op.cost), wrongTime("its transfer time", op.transferTime),
          wrongSizes(op), wrongReads(p, i), wrongInputs(op)})
      if (!why.empty())
        return Fault{i, std::move(why)};
    if (!sizes.allows(op))
      return Fault{i, "all storages and the largest workspace together need over 2^62 bytes, the "
                      "most that is supported"};
  }
  return std::nullopt;
}

std::optional<Fault> faultOfOutputs(const Problem &p) {
  const std::string count = ", and there are " + to_string(p.ops.size());
  for (const Read &r : p.outputs)
    if (r.op >= p.ops.size())
      return Fault{Op::kNone, "an output of the problem is op " + to_string(r.op) + count};
    else if (r.output >= numOutputs(p, r.op))
      return Fault{r.op, "its output " + to_string(r.output) +
                             " is one of the problem, and it has " +
                             to_string(numOutputs(p, r.op))};
  for (OpIndex op : p.forwardOutputs)
    if (op >= p.ops.size())
      return Fault{Op::kNone, "a forward output is op " + to_string(op) + count};
  return std::nullopt;
}

// Lets the wait for a prefetch read and make all outputs of its start.
void completeWait(Op &wait, const Op &start) {
  const OpIndex from = wait.inputs[0].op;
  std::vector<Read> inputs;
  for (uint32_t o = 0; o < start.outputBytes.size(); ++o)
    inputs.push_back({from, o});
  for (const Read &r : wait.inputs)
    if (r.op != from)
      inputs.push_back(r);
  wait.inputs = std::move(inputs);
  wait.outputBytes = start.outputBytes;
}

} // namespace

// The check of overwrites expects valid alternatives.
std::optional<Fault> faultOf(const Problem &p) {
  const std::optional<Fault> fault = faultOfAlternatives(p);
  return fault ? fault : faultOfOverwrites(p);
}

std::optional<Fault> acceptGiven(Problem &p) {
  for (std::optional<Fault> fault : {faultOfOps(p), faultOfOutputs(p)})
    if (fault)
      return fault;
  for (Op &op : p.ops) {
    if (op.isView() || op.transfer == Transfer::StartOffload)
      op.outputBytes.clear();
    if (op.transfer == Transfer::WaitPrefetch && !op.inputs.empty() &&
        p.ops[op.inputs[0].op].transfer == Transfer::StartPrefetch)
      completeWait(op, p.ops[op.inputs[0].op]);
  }
  return faultOf(p);
}

} // namespace isthmus::plan
