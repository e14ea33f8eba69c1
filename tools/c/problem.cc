#include "passes/inspect/joint_graph.h"
#include "passes/plan/bound.h"
#include "passes/plan/sizes.h"
#include "tools/c/handles.h"
#include <cmath>

using namespace isthmus;
using namespace isthmus::c;

namespace {

// Checks everything that a wrong pointer does not hide.
class Reader {
public:
  explicit Reader(const isthmus_arrays &a) : a_(a) {}

  llvm::Expected<plan::Problem> run() {
    if (!a_.cost || !a_.output_begin || !a_.output_bytes || !a_.input_begin || !a_.input_op ||
        (a_.num_outputs > 0 && !a_.output_op) ||
        (a_.num_forward_outputs > 0 && !a_.forward_outputs))
      return makeError("arrays that may not be null are: cost, output_begin, output_bytes, "
                       "input_begin, input_op, output_op and forward_outputs");
    if (a_.num_ops >= UINT32_MAX)
      return makeError("at most 2^32 - 2 ops are supported, got {0}", a_.num_ops);
    if (a_.order < ISTHMUS_ANY_ORDER || a_.order > ISTHMUS_AS_GIVEN)
      return makeError("'order' is {0}, which is none of isthmus_order", a_.order);
    if (a_.alignment < 0 || a_.alignment > int64_t(1) << 30)
      return makeError("'alignment' is to be from 0 to 2^30, got {0}", a_.alignment);
    p_.alignment = std::max<int64_t>(1, a_.alignment);
    p_.order = a_.order == ISTHMUS_BY_PHASES  ? plan::Order::Phases
               : a_.order == ISTHMUS_AS_GIVEN ? plan::Order::Fixed
                                              : plan::Order::Free;
    for (size_t i = 0; i < a_.num_ops; ++i)
      if (llvm::Error e = addOp(i))
        return e;
    if (llvm::Error e = addOutputs())
      return e;
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

  llvm::Error addOp(size_t i) {
    plan::Op op;
    op.name = nameOf(i);
    op.cost = a_.cost[i];
    op.workspace = a_.workspace ? a_.workspace[i] : 0;
    const unsigned phase = a_.phase ? a_.phase[i] : 0, flags = a_.flags ? a_.flags[i] : 0;
    if (!(op.cost >= 0) || std::isinf(op.cost))
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
    if (a_.output_begin[i] > a_.output_begin[i + 1] || a_.input_begin[i] > a_.input_begin[i + 1])
      return failed(i, "its lists end before they begin");
    if (llvm::Error e = addInputs(i, op))
      return e;
    return addBytes(i, op);
  }

  llvm::Error addInputs(size_t i, plan::Op &op) {
    for (size_t k = a_.input_begin[i]; k < a_.input_begin[i + 1]; ++k) {
      const plan::Read r{a_.input_op[k], a_.input_output ? a_.input_output[k] : 0};
      if (llvm::Error e = checkRead(i, r, i))
        return e;
      op.inputs.push_back(r);
    }
    const int32_t view = a_.view_of ? a_.view_of[i] : -1;
    if (view < -1 || view >= int64_t(op.inputs.size()))
      return failed(i, "it is a view of its input {0}, and has {1}", view, op.inputs.size());
    if (view >= 0)
      op.viewOf = uint32_t(view);
    if (op.isView() && op.isPinned)
      return failed(i, "a view cannot be pinned; what it is a view of can");
    return llvm::Error::success();
  }

  // `before`: the op that reads; ops from there on do not come before it.
  llvm::Error checkRead(size_t i, const plan::Read &r, size_t before) {
    if (r.op >= before)
      return failed(i, "it reads op {0}, which does not come before it", r.op);
    const plan::Op &from = p_.ops[r.op];
    const size_t outputs = from.isView() ? 1 : from.outputBytes.size();
    return r.output < outputs ? llvm::Error::success()
                              : failed(i, "it reads output {0} of '{1}', which has {2}", r.output,
                                       from.name, outputs);
  }

  llvm::Error addBytes(size_t i, plan::Op &op) {
    for (size_t k = a_.output_begin[i]; k < a_.output_begin[i + 1]; ++k) {
      if (a_.output_bytes[k] < 0)
        return failed(i, "an output has {0} bytes", a_.output_bytes[k]);
      op.outputBytes.push_back(a_.output_bytes[k]);
    }
    if (op.isView() ? op.outputBytes != std::vector<int64_t>{0} : op.outputBytes.empty())
      return failed(i, op.isView() ? "a view has one output, of 0 bytes"
                                   : "it has no output; where nothing is made, that is 0 bytes");
    if (op.isView())
      op.outputBytes.clear();
    if (op.isPinned && op.outputBytes.size() != 1)
      return failed(i, "what is pinned has one output, got {0}", op.outputBytes.size());
    if (!sizes_.allows(op))
      return failed(i, "all storages together need over 2^62 bytes, the most that is supported");
    p_.ops.push_back(std::move(op));
    return llvm::Error::success();
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
      if (op >= p_.ops.size() || p_.ops[op].phase != plan::OpPhase::Forward)
        return makeError("forward output {0} is no op of the forward phase", op);
      p_.forwardOutputs.push_back(op);
    }
    return llvm::Error::success();
  }

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
  GraphProblem of;
  of.problem = std::move(*p);
  return give(problem, std::move(of), nullptr);
}

} // namespace

isthmus_status isthmus_problem_from_arrays(const isthmus_arrays *arrays, isthmus_problem **problem,
                                           isthmus_error **error) {
  return guarded(error, [&] {
    ISTHMUS_NOT_NULL(problem);
    *problem = nullptr;
    ISTHMUS_NOT_NULL(arrays);
    if (arrays->size != sizeof *arrays)
      return fail(ISTHMUS_BAD_CALL, "'size' of isthmus_arrays is not that of this library", error);
    return made(Reader(*arrays).run(), problem, error);
  });
}

isthmus_status isthmus_problem_from_json(const char *json, size_t length, isthmus_problem **problem,
                                         isthmus_error **error) {
  return guarded(error, [&] {
    ISTHMUS_NOT_NULL(problem);
    *problem = nullptr;
    ISTHMUS_NOT_NULL(json);
    auto g = parseJointGraph(llvm::StringRef(json, length), "the problem");
    if (!g)
      return fail(g.takeError(), error);
    return made(std::move(g->problem), problem, error);
  });
}

void isthmus_problem_free(isthmus_problem *problem) { delete problem; }
