#include "passes/inspect/joint_graph.h"
#include "passes/plan/faults.h"
#include "passes/plan/sizes.h"
#include "tools/c/handles.h"
#include <cmath>

using namespace isthmus;
using namespace isthmus::c;

namespace {

// Converts the arrays and checks everything but the pointers themselves.
class Reader {
public:
  explicit Reader(const isthmus_arrays &a) : a_(a) {}

  llvm::Expected<plan::Problem> run() {
    if (llvm::Error e = readTop())
      return e;
    if (llvm::Error e = checkLists())
      return e;
    for (size_t i = 0; i < a_.num_ops; ++i)
      if (llvm::Error e = addOp(i))
        return e;
    for (size_t i = 0; i < a_.num_ops; ++i)
      if (llvm::Error e = link(i))
        return e;
    if (llvm::Error e = addOutputs())
      return e;
    if (auto fault = plan::faultOf(p_))
      return failed(fault->op, "{0}", fault->why);
    return std::move(p_);
  }

private:
  std::string nameOf(size_t i) const {
    return a_.names && a_.names[i] ? a_.names[i] : "op " + std::to_string(i);
  }
  template <typename... Args> llvm::Error failed(size_t i, const char *format, Args &&...args) {
    return makeError("{0}: {1}", nameOf(i),
                     llvm::formatv(format, std::forward<Args>(args)...).str());
  }

  llvm::Error readTop() {
    if (!a_.cost || !a_.output_begin || !a_.output_bytes || !a_.input_begin || !a_.input_op ||
        (a_.num_outputs > 0 && !a_.output_op) ||
        (a_.num_forward_outputs > 0 && !a_.forward_outputs) ||
        (a_.donation_begin && (!a_.donation_output || !a_.donation_input)) ||
        (a_.overwrite_begin && !a_.overwrite_input))
      return makeError("arrays that may not be null are: cost, output_begin, output_bytes, "
                       "input_begin, input_op, output_op, forward_outputs where there are some, "
                       "with donation_begin donation_output and donation_input, and with "
                       "overwrite_begin overwrite_input");
    if (a_.num_ops >= UINT32_MAX)
      return makeError("at most 2^32 - 2 ops are supported, got {0}", a_.num_ops);
    for (size_t count : {a_.num_outputs, a_.num_forward_outputs})
      if (count > kMostItems)
        return makeError("at most 2^32 - 2 outputs are supported, got {0}", count);
    if (a_.order < ISTHMUS_ANY_ORDER || a_.order > ISTHMUS_AS_GIVEN)
      return makeError("'order' is {0}, which is none of isthmus_order", a_.order);
    if (a_.alignment < 0 || a_.alignment > int64_t(1) << 30)
      return makeError("'alignment' is to be from 0 to 2^30, got {0}", a_.alignment);
    p_.alignment = std::max<int64_t>(1, a_.alignment);
    p_.order = a_.order == ISTHMUS_BY_PHASES  ? plan::Order::Phases
               : a_.order == ISTHMUS_AS_GIVEN ? plan::Order::Fixed
                                              : plan::Order::Free;
    return llvm::Error::success();
  }

  // Lists lie in one array, so if none ends before it begins, none reaches beyond the end of the
  // last one. All of them are checked before any is read.
  static constexpr size_t kMostEntries = size_t(1) << 40;
  llvm::Error checkLists() {
    for (const size_t *begin :
         {a_.output_begin, a_.input_begin, a_.donation_begin, a_.overwrite_begin})
      for (size_t i = 0; begin && i < a_.num_ops; ++i)
        if (begin[i] > begin[i + 1] || begin[i + 1] > kMostEntries)
          return failed(i, begin[i] > begin[i + 1] ? "its lists end before they begin"
                                                   : "its lists have over 2^40 entries");
    return llvm::Error::success();
  }

  // --- Each op by itself; a view is known by viewOf, whose input is read later

  llvm::Error addOp(size_t i) {
    plan::Op op;
    op.name = nameOf(i);
    op.cost = a_.cost[i];
    op.workspace = a_.workspace ? a_.workspace[i] : 0;
    const unsigned phase = a_.phase ? a_.phase[i] : 0, flags = a_.flags ? a_.flags[i] : 0;
    if (!isTime(op.cost))
      return failed(i, "its cost is to be a number from 0 on, got {0}", op.cost);
    if (op.workspace < 0)
      return failed(i, "its workspace is negative: {0}", op.workspace);
    if (phase > ISTHMUS_UPDATE)
      return failed(i, "its phase is {0}, which is none of isthmus_phase", phase);
    if (flags & ~unsigned(ISTHMUS_PINNED | ISTHMUS_RUNS_ONCE))
      return failed(i, "its flags are {0}, some of which mean nothing", flags);
    op.phase = static_cast<plan::OpPhase>(phase);
    op.isPinned = flags & ISTHMUS_PINNED;
    op.recomputable = !(flags & ISTHMUS_RUNS_ONCE);
    if (llvm::Error e = addAlternative(i, op))
      return e;
    return addBytes(i, op);
  }

  llvm::Error addAlternative(size_t i, plan::Op &op) {
    const unsigned kind = a_.kind ? a_.kind[i] : unsigned(ISTHMUS_COMPUTES);
    if (kind > ISTHMUS_WAITS_PREFETCH)
      return failed(i, "its kind is {0}, which is none of isthmus_kind", kind);
    op.transfer = static_cast<plan::Op::Transfer>(kind);
    if (op.startsTransfer() && a_.transfer_time)
      op.transferTime = a_.transfer_time[i];
    if (!isTime(op.transferTime))
      return failed(i, "its transfer time is to be a number from 0 on, got {0}", op.transferTime);
    op.of = a_.of_op ? a_.of_op[i] : plan::Op::kNone;
    if (op.of != plan::Op::kNone && a_.of_output)
      op.ofOutput = a_.of_output[i];
    op.isAlternative = op.transfer != plan::Op::Transfer::None || op.of != plan::Op::kNone;
    return llvm::Error::success();
  }

  llvm::Error addBytes(size_t i, plan::Op &op) {
    const int64_t numInputs = int64_t(a_.input_begin[i + 1] - a_.input_begin[i]);
    const int32_t view = a_.view_of ? a_.view_of[i] : -1;
    if (view < -1 || view >= numInputs)
      return failed(i, "it is a view of its input {0}, and has {1}", view, numInputs);
    if (view >= 0)
      op.viewOf = uint32_t(view);
    if (op.isView() && op.isPinned)
      return failed(i, "a view cannot be pinned; what it is a view of can");
    for (size_t k = a_.output_begin[i]; k < a_.output_begin[i + 1]; ++k) {
      if (a_.output_bytes[k] < 0)
        return failed(i, "an output has {0} bytes", a_.output_bytes[k]);
      op.outputBytes.push_back(a_.output_bytes[k]);
    }
    const bool makesNothing =
        op.isView() || op.waitsForTransfer() || op.transfer == plan::Op::Transfer::StartOffload;
    if (makesNothing ? op.outputBytes != std::vector<int64_t>{0} : op.outputBytes.empty())
      return failed(
          i, makesNothing ? "a view, the start of an offload and a wait have one output, of 0 bytes"
                          : "it has no output; where nothing is made, that is 0 bytes");
    if (op.isView() || op.transfer == plan::Op::Transfer::StartOffload)
      op.outputBytes.clear();
    if (op.isPinned && op.outputBytes.size() != 1)
      return failed(i, "what is pinned has one output, got {0}", op.outputBytes.size());
    if (!sizes_.allows(op))
      return failed(i, "all storages together need over 2^62 bytes, the most that is supported");
    p_.ops.push_back(std::move(op));
    return llvm::Error::success();
  }

  // --- Relations between ops, once all are known

  llvm::Error link(size_t i) {
    plan::Op &op = p_.ops[i];
    for (size_t k = a_.input_begin[i]; k < a_.input_begin[i + 1]; ++k) {
      const plan::Read r{a_.input_op[k], a_.input_output ? a_.input_output[k] : 0};
      if (llvm::Error e = checkRead(i, r, op.isAlternative ? p_.ops.size() : i))
        return e;
      op.inputs.push_back(r);
    }
    if (op.transfer == plan::Op::Transfer::WaitPrefetch)
      if (llvm::Error e = takeWhatReturns(i))
        return e;
    for (size_t k = a_.donation_begin ? a_.donation_begin[i] : 0;
         a_.donation_begin && k < a_.donation_begin[i + 1]; ++k) {
      const plan::Op::Donation d{a_.donation_output[k], a_.donation_input[k]};
      if (d.output >= op.outputBytes.size() || d.input >= op.inputs.size())
        return failed(i,
                      "its input {0} donates to its output {1}, and it has {2} inputs and {3} "
                      "outputs with bytes of their own",
                      d.input, d.output, op.inputs.size(), op.outputBytes.size());
      op.donations.push_back(d);
    }
    for (size_t k = a_.overwrite_begin ? a_.overwrite_begin[i] : 0;
         a_.overwrite_begin && k < a_.overwrite_begin[i + 1]; ++k) {
      if (a_.overwrite_input[k] >= op.inputs.size())
        return failed(i, "it overwrites its input {0}, and has {1}", a_.overwrite_input[k],
                      op.inputs.size());
      op.overwrites.push_back(a_.overwrite_input[k]);
    }
    return llvm::Error::success();
  }

  // The wait for a prefetch reads all outputs of its start and turns them into instances of its
  // `of`.
  llvm::Error takeWhatReturns(size_t i) {
    plan::Op &op = p_.ops[i];
    if (op.inputs.empty() || op.inputs[0].output != 0)
      return failed(i, "the first input of a wait is to be output 0 of its start");
    const plan::Op &start = p_.ops[op.inputs[0].op];
    op.outputBytes = start.outputBytes;
    std::vector<plan::Read> all;
    for (uint32_t o = 0; o < start.outputBytes.size(); ++o)
      all.push_back({op.inputs[0].op, o});
    op.inputs.erase(op.inputs.begin());
    op.inputs.insert(op.inputs.begin(), all.begin(), all.end());
    return llvm::Error::success();
  }

  // `before`: the reader comes before ops from this index on.
  llvm::Error checkRead(size_t i, const plan::Read &r, size_t before) {
    if (r.op >= p_.ops.size())
      return failed(i, "it reads op {0}, and there are {1}", r.op, p_.ops.size());
    if (r.op >= before)
      return failed(i, "it reads op {0}, which does not come before it", r.op);
    const plan::Op &from = p_.ops[r.op];
    const size_t outputs = std::max<size_t>(1, from.outputBytes.size()); // 1 of a view
    return r.output < outputs ? llvm::Error::success()
                              : failed(i, "it reads output {0} of '{1}', which has {2}", r.output,
                                       from.name, outputs);
  }

  llvm::Error addOutputs() {
    for (size_t k = 0; k < a_.num_outputs; ++k) {
      const plan::Read r{a_.output_op[k], a_.output_output ? a_.output_output[k] : 0};
      if (r.op >= p_.ops.size())
        return makeError("an output of the problem is op {0}, and there are {1}", r.op,
                         p_.ops.size());
      if (llvm::Error e = checkRead(r.op, r, p_.ops.size()))
        return e;
      p_.outputs.push_back(r);
    }
    for (size_t k = 0; k < a_.num_forward_outputs; ++k) {
      const uint32_t op = a_.forward_outputs[k];
      if (op >= p_.ops.size())
        return makeError("a forward output is op {0}, and there are {1}", op, p_.ops.size());
      p_.forwardOutputs.push_back(op);
    }
    return llvm::Error::success();
  }

  static bool isTime(double t) { return t >= 0 && !std::isinf(t); }

  const isthmus_arrays &a_;
  plan::Problem p_;
  plan::SizeLimit sizes_{p_};
};

isthmus_status made(llvm::Expected<plan::Problem> p, isthmus_problem **problem,
                    isthmus_error **error) {
  if (!p)
    return fail(p.takeError(), error);
  if (plan::Evaluation e = plan::evaluate(*p, plan::sourceOrder(*p)); !e.error.empty())
    return fail(ISTHMUS_BAD_INPUT, "the order of the ops is no schedule: " + e.error, error);
  return give(problem, std::move(*p));
}

} // namespace

isthmus_status isthmus_problem_from_arrays(const isthmus_arrays *arrays, isthmus_problem **problem,
                                           isthmus_error **error) {
  return guarded(error, [&] {
    ISTHMUS_NOT_NULL(problem);
    *problem = nullptr;
    ISTHMUS_NOT_NULL(arrays);
    constexpr size_t kLeast = offsetof(isthmus_arrays, donation_begin);
    auto all = grown(*arrays, kLeast);
    if (!all)
      return wrongSize("isthmus_arrays", arrays->size, kLeast, sizeof *arrays, error);
    return made(Reader(*all).run(), problem, error);
  });
}

isthmus_status isthmus_problem_from_json(const char *json, size_t length, isthmus_problem **problem,
                                         isthmus_error **error) {
  return guarded(error, [&] {
    ISTHMUS_NOT_NULL(problem);
    *problem = nullptr;
    ISTHMUS_NOT_NULL(json);
    if (isthmus_status s = checkCount("length", length, PTRDIFF_MAX, error))
      return s;
    auto g = parseJointGraph(llvm::StringRef(json, length), "the problem");
    if (!g)
      return fail(g.takeError(), error);
    return made(std::move(g->problem), problem, error);
  });
}

void isthmus_problem_free(isthmus_problem *problem) { delete problem; }
