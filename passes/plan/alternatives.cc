#include "passes/plan/alternatives.h"

namespace isthmus::plan {
namespace {

using Transfer = Op::Transfer;

class Check {
public:
  explicit Check(const Problem &p) : p_(p), waits_(p.ops.size(), 0) {
    for (const Op &op : p.ops)
      if (op.waitsForTransfer() && !op.inputs.empty())
        ++waits_[op.inputs[0].op];
  }

  // How the op breaks a rule; empty if it does not.
  std::string why(OpIndex i) const {
    const Op &op = p_.ops[i];
    if (op.isAlternative && (op.isView() || op.isPinned))
      return "an alternative must be neither a view nor pinned";
    for (std::string why : {wrongTransfer(i), wrongReads(op), wrongOf(op)})
      if (!why.empty())
        return why;
    return "";
  }

private:
  std::string wrongTransfer(OpIndex i) const {
    const Op &op = p_.ops[i];
    if (op.transfer == Transfer::None)
      return "";
    if (op.inputs.empty())
      return "a transfer needs an input";
    if (op.startsTransfer() && waits_[i] != 1)
      return "expected one wait for the transfer, found " + std::to_string(waits_[i]);
    if (op.startsTransfer() && !readsOneOp(op))
      return "the start of a transfer reads outputs of one op";
    if (op.waitsForTransfer() && p_.ops[op.inputs[0].op].transfer != startOf(op.transfer))
      return "expected the first input of a wait to be the start of its transfer, found op " +
             std::to_string(op.inputs[0].op);
    if (op.waitsForTransfer() && !op.donations.empty())
      return "a wait makes nothing of its own, so that nothing can be donated to it";
    if ((op.transfer == Transfer::WaitPrefetch) != (op.of != Op::kNone))
      return "the wait for a prefetch has an 'of', and no other start or wait has one";
    return "";
  }

  static Transfer startOf(Transfer wait) {
    return wait == Transfer::WaitOffload ? Transfer::StartOffload : Transfer::StartPrefetch;
  }

  static bool readsOneOp(const Op &op) {
    for (const Read &r : op.inputs)
      if (r.op != op.inputs[0].op)
        return false;
    return true;
  }

  std::string wrongReads(const Op &op) const {
    for (const Read &r : op.inputs) {
      const Op &from = p_.ops[r.op];
      const std::string name = "op " + std::to_string(r.op);
      if (from.isAlternative && !op.isAlternative)
        return "it reads " + name + ", which is an alternative, but is no alternative itself";
      if (from.startsTransfer() && !(op.waitsForTransfer() && r.op == op.inputs[0].op))
        return "it reads " + name + ", the start of a transfer, which only its wait may read";
      if ((from.transfer == Transfer::WaitOffload) != (op.transfer == Transfer::StartPrefetch))
        return "prefetches, and nothing else, read what was offloaded; it reads " + name;
    }
    return "";
  }

  std::string wrongOf(const Op &op) const {
    if (op.of == Op::kNone)
      return "";
    const std::string name = "op " + std::to_string(op.of);
    if (op.of >= p_.ops.size())
      return "it is of " + name + ", and there are " + std::to_string(p_.ops.size());
    const Op &from = p_.ops[op.of];
    if (from.isView() || from.isPinned || from.isAlternative)
      return "it is of " + name + ", which has no storage of its own that a run makes";
    std::vector<int64_t> made = from.outputBytes;
    if (op.ofOutput != Op::kAllOutputs) {
      if (op.ofOutput >= made.size())
        return "it is of output " + std::to_string(op.ofOutput) + " of " + name + ", which has " +
               std::to_string(made.size());
      made = {made[op.ofOutput]};
    }
    return rounded(op.outputBytes) == rounded(made)
               ? ""
               : "its bytes are not those of " + name + ", of which it makes an instance";
  }

  std::vector<int64_t> rounded(std::vector<int64_t> sizes) const {
    for (int64_t &bytes : sizes)
      bytes = p_.rounded(bytes);
    return sizes;
  }

  const Problem &p_;
  std::vector<uint32_t> waits_; // by op: how many wait for it
};

} // namespace

std::optional<Fault> faultOfAlternatives(const Problem &p) {
  const Check check(p);
  for (OpIndex i = 0; i < p.ops.size(); ++i)
    if (std::string why = check.why(i); !why.empty())
      return Fault{i, std::move(why)};
  for (const Read &r : p.outputs)
    if (p.ops[r.op].isAlternative)
      return Fault{r.op, "an alternative can be no output of the problem"};
  for (OpIndex i : p.forwardOutputs)
    if (p.ops[i].isAlternative || p.ops[i].phase != OpPhase::Forward)
      return Fault{i, "it cannot be a forward output, being an alternative or of another phase"};
  return std::nullopt;
}

} // namespace isthmus::plan
