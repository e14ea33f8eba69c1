#include "passes/inspect/joint_graph.h"
#include "passes/plan/faults.h"
#include "tools/c/handles.h"

using namespace isthmus;
using namespace isthmus::c;

namespace {

// Converts the arrays. Checks what they hold that a problem cannot, but not the pointers
// themselves; acceptGiven checks the problem.
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
    for (size_t k = 0; k < a_.num_outputs; ++k)
      p_.outputs.push_back({a_.output_op[k], at(a_.output_output, k, 0u)});
    for (size_t k = 0; k < a_.num_forward_outputs; ++k)
      p_.forwardOutputs.push_back(a_.forward_outputs[k]);
    if (auto fault = plan::acceptGiven(p_))
      return fault->op == plan::Op::kNone ? makeError("{0}", fault->why)
                                          : failed(fault->op, "{0}", fault->why);
    return std::move(p_);
  }

private:
  template <typename T> static T at(const T *array, size_t i, T byDefault) {
    return array ? array[i] : byDefault;
  }
  std::string nameOf(size_t i) const {
    return at<const char *>(a_.names, i, nullptr) ? a_.names[i] : "op " + std::to_string(i);
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
    if (a_.num_ops > kMostItems)
      return makeError("at most 2^32 - 2 ops are supported, got {0}", a_.num_ops);
    for (size_t count : {a_.num_outputs, a_.num_forward_outputs})
      if (count > kMostItems)
        return makeError("at most 2^32 - 2 outputs are supported, got {0}", count);
    if (a_.order < ISTHMUS_ANY_ORDER || a_.order > ISTHMUS_AS_GIVEN)
      return makeError("'order' is {0}, which is none of isthmus_order", a_.order);
    if (a_.alignment < 0 || a_.alignment > int64_t(1) << 30)
      return makeError("'alignment' is to be from 0 to 2^30, got {0}", a_.alignment);
    p_.alignment = std::max<int64_t>(1, a_.alignment);
    p_.order = static_cast<plan::Order>(a_.order);
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

  llvm::Error addOp(size_t i) {
    const unsigned phase = at<uint8_t>(a_.phase, i, ISTHMUS_FORWARD);
    const unsigned flags = at<uint8_t>(a_.flags, i, 0);
    const unsigned kind = at<uint8_t>(a_.kind, i, ISTHMUS_COMPUTES);
    const int32_t view = at<int32_t>(a_.view_of, i, -1);
    if (phase > ISTHMUS_UPDATE)
      return failed(i, "its phase is {0}, which is none of isthmus_phase", phase);
    if (flags & ~unsigned(ISTHMUS_PINNED | ISTHMUS_RUNS_ONCE))
      return failed(i, "its flags are {0}, some of which mean nothing", flags);
    if (kind > ISTHMUS_WAITS_PREFETCH)
      return failed(i, "its kind is {0}, which is none of isthmus_kind", kind);
    if (view < -1)
      return failed(i, "it is a view of its input {0}, which is to be from -1 on", view);
    plan::Op &op = p_.ops.emplace_back();
    op.name = nameOf(i);
    op.cost = a_.cost[i];
    op.workspace = at<int64_t>(a_.workspace, i, 0);
    op.phase = static_cast<plan::OpPhase>(phase);
    op.isPinned = flags & ISTHMUS_PINNED;
    op.recomputable = !(flags & ISTHMUS_RUNS_ONCE);
    op.viewOf = view < 0 ? plan::Op::kNoView : uint32_t(view);
    op.transfer = static_cast<plan::Op::Transfer>(kind);
    op.transferTime = op.startsTransfer() ? at<double>(a_.transfer_time, i, 0) : 0;
    op.of = at<uint32_t>(a_.of_op, i, plan::Op::kNone);
    if (op.of != plan::Op::kNone)
      op.ofOutput = at<uint32_t>(a_.of_output, i, plan::Op::kAllOutputs);
    op.isAlternative = op.transfer != plan::Op::Transfer::None || op.of != plan::Op::kNone;
    addLists(i, op);
    return llvm::Error::success();
  }

  void addLists(size_t i, plan::Op &op) const {
    auto each = [i](const size_t *begin, auto add) {
      for (size_t k = begin ? begin[i] : 0; begin && k < begin[i + 1]; ++k)
        add(k);
    };
    each(a_.output_begin, [&](size_t k) { op.outputBytes.push_back(a_.output_bytes[k]); });
    each(a_.input_begin, [&](size_t k) {
      op.inputs.push_back({a_.input_op[k], at(a_.input_output, k, 0u)});
    });
    each(a_.donation_begin, [&](size_t k) {
      op.donations.push_back({a_.donation_output[k], a_.donation_input[k]});
    });
    each(a_.overwrite_begin, [&](size_t k) { op.overwrites.push_back(a_.overwrite_input[k]); });
  }

  const isthmus_arrays &a_;
  plan::Problem p_;
};

isthmus_status made(llvm::Expected<plan::Problem> p, std::string name, isthmus_problem **problem,
                    isthmus_error **error) {
  if (!p)
    return fail(p.takeError(), error);
  if (plan::Evaluation e = plan::evaluate(*p, plan::sourceOrder(*p)); !e.error.empty())
    return fail(ISTHMUS_BAD_INPUT, "the order of the ops is no schedule: " + e.error, error);
  return give(problem, std::move(*p), std::move(name));
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
    return made(Reader(*all).run(), all->name ? all->name : "problem", problem, error);
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
    return made(std::move(g->problem), std::move(g->name), problem, error);
  });
}

isthmus_status isthmus_problem_print(const isthmus_problem *problem, int32_t form,
                                     isthmus_text **text, isthmus_error **error) {
  return guarded(error, [&] {
    ISTHMUS_NOT_NULL(text);
    *text = nullptr;
    ISTHMUS_NOT_NULL(problem);
    switch (form) {
    case ISTHMUS_JOINT_GRAPH:
      return give(text, printJointGraph(problem->name, problem->problem));
    case ISTHMUS_OPS:
      return give(text, printOps(problem->name, problem->problem));
    }
    return fail(ISTHMUS_BAD_CALL,
                llvm::formatv("'form' is {0}, which is none of isthmus_problem_form", form).str(),
                error);
  });
}

isthmus_status isthmus_problem_live_bytes(const isthmus_problem *problem, const uint32_t *ops,
                                          size_t num_ops, int64_t *bytes, isthmus_error **error) {
  return guarded(error, [&] {
    ISTHMUS_NOT_NULL(problem);
    if (isthmus_status s = checkCount("num_ops", num_ops, kMostItems, error))
      return s;
    if (num_ops > 0) {
      ISTHMUS_NOT_NULL(ops);
      ISTHMUS_NOT_NULL(bytes);
    }
    const plan::Problem &p = problem->problem;
    const plan::Schedule s(ops, ops + num_ops);
    if (plan::Evaluation e = plan::evaluate(p, s); !e.error.empty())
      return fail(ISTHMUS_BAD_INPUT, "the schedule is not valid: " + e.error, error);
    const std::vector<int64_t> live = plan::liveBytesOf(p, s, plan::instancesOf(p, s));
    std::copy(live.begin(), live.end(), bytes);
    return ISTHMUS_OK;
  });
}

void isthmus_problem_free(isthmus_problem *problem) { delete problem; }
