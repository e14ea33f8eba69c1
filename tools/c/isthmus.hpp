// Isthmus in C++17: handles that own their objects, and errors as exceptions. It is a header over
// isthmus.h alone, which documents each call; no type of the standard library crosses into the
// library, so a program may use a standard library of its own.
//
//   isthmus::LoadOptions sizes;
//   sizes.dims = {{"batch", 32}};
//   isthmus::CompileOptions options;
//   options.loss = "cross_entropy";
//   options.policy = ISTHMUS_BUDGET;
//   options.budgetShare = 0.5;
//   isthmus::Compiled step = isthmus::Graph::load("model.onnx", sizes).compile(options);
//   step.graph().save("step.onnx");
//
// Handles can be moved; a problem's handle is shared by its plans. Different threads may use
// different handles at once.
#ifndef ISTHMUS_HPP
#define ISTHMUS_HPP

#include "isthmus.h"

#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace isthmus {

inline std::string version() { return isthmus_version(); }

// The status and the message of a call of the library that failed.
class Error : public std::runtime_error {
public:
  Error(isthmus_status status, const std::string &message)
      : std::runtime_error(message), status_(status) {}
  isthmus_status status() const { return status_; }

private:
  isthmus_status status_;
};

namespace detail {

template <typename Handle> struct Free;
template <> struct Free<isthmus_error> {
  void operator()(isthmus_error *p) const { isthmus_error_free(p); }
};
template <> struct Free<isthmus_text> {
  void operator()(isthmus_text *p) const { isthmus_text_free(p); }
};
template <> struct Free<isthmus_graph> {
  void operator()(isthmus_graph *p) const { isthmus_graph_free(p); }
};
template <> struct Free<isthmus_compiled> {
  void operator()(isthmus_compiled *p) const { isthmus_compiled_free(p); }
};
template <> struct Free<isthmus_problem> {
  void operator()(isthmus_problem *p) const { isthmus_problem_free(p); }
};
template <> struct Free<isthmus_plan> {
  void operator()(isthmus_plan *p) const { isthmus_plan_free(p); }
};
template <typename Handle> using Owned = std::unique_ptr<Handle, Free<Handle>>;

inline void check(isthmus_status status, isthmus_error *error) {
  const Owned<isthmus_error> owned(error);
  if (status != ISTHMUS_OK)
    throw Error(status, isthmus_error_message(error));
}

// Calls a function whose last parameter is the error.
template <typename Function, typename... Args> void call(Function f, Args... args) {
  isthmus_error *error = nullptr;
  const isthmus_status status = f(args..., &error);
  check(status, error);
}

// Calls a function whose last two parameters are its result and the error.
template <typename Handle, typename Function, typename... Args>
Owned<Handle> make(Function f, Args... args) {
  Handle *made = nullptr;
  isthmus_error *error = nullptr;
  const isthmus_status status = f(args..., &made, &error);
  Owned<Handle> owned(made);
  check(status, error);
  return owned;
}

inline std::string string(const isthmus_text &text) {
  std::size_t length = 0;
  const char *data = isthmus_text_data(&text, &length);
  return {data, length};
}

// The string of an option; null if it is empty.
inline const char *orNull(const std::string &text) { return text.empty() ? nullptr : text.c_str(); }

// Calls a function of the program during a search. Its exceptions do not pass through the library.
struct Progress {
  const std::function<bool(double, double)> &tell;
  std::exception_ptr thrown = nullptr;

  template <typename Options> void watch(Options &options) {
    if (!tell)
      return;
    options.progress = call;
    options.user = this;
  }
  void rethrow() const {
    if (thrown)
      std::rethrow_exception(thrown);
  }

  static std::int32_t call(void *user, double share, double bestCost) {
    Progress &progress = *static_cast<Progress *>(user);
    try {
      return progress.tell(share, bestCost);
    } catch (...) {
      progress.thrown = std::current_exception();
      return 0;
    }
  }
};

} // namespace detail

// Output `output` of op `op`.
struct Output {
  std::uint32_t op = 0, output = 0;
};

struct PlanOptions {
  std::int64_t budgetBytes = -1; // -1: see budgetShare
  double budgetShare = 0; // of the peak without recomputation; 0: the least peak found (isthmus.h)
  double effort = 0;      // about seconds of one common core; 0: by the number of ops
  std::uint64_t seed = 0;
  bool place = false; // the arena of Plan::layout must stay within the budget, not only the peak
  // Receives the share of the search that is done, and the best cost; returning false cancels the
  // search. An exception that it throws ends the search and leaves Problem::plan.
  std::function<bool(double share, double bestCost)> progress;
};

using Figures = isthmus_figures;
using Block = isthmus_block;

struct Layout {
  std::vector<Block> blocks;
  std::int64_t arenaBytes = 0;
};

// How an ONNX model is read.
struct LoadOptions {
  std::map<std::string, std::int64_t> dims; // the sizes that it leaves open
  std::vector<std::pair<std::string, std::string>> ties;
  std::string untie, learn; // lists of names
  bool allowOutside = false;
};

// As isthmus_compile_options, where empty strings stand for null.
struct CompileOptions {
  std::string loss, wrt;
  std::int64_t classAxis = 1;
  std::optional<std::int64_t> ignoreIndex;
  bool keepOutputs = false;
  isthmus_mode mode = ISTHMUS_BY_RULE;
  std::optional<isthmus_float> precision;
  isthmus_channels layout = ISTHMUS_AUTO_LAYOUT;

  isthmus_policy policy = ISTHMUS_NO_CHOICE;
  std::string checkpoints;
  std::optional<std::int64_t> smallestCheckpoint; // elements, of ISTHMUS_MEMORY
  std::int64_t budgetBytes = -1; // of ISTHMUS_BUDGET; -1: see budgetShare
  double budgetShare = 0;        // of the peak without recomputation; 0: the least that is found
  std::optional<std::int64_t> memoryLimitBytes;
  std::optional<double> maxAdded; // a share of the step's cost

  unsigned allow = ISTHMUS_RECOMPUTE;
  double maxInverseError = 1e-3;
  std::uint64_t iterations = 0;
  std::optional<std::int64_t> hostMemory;
  double link = 0;
  std::string costs;
  std::vector<std::string> chunks; // "%logits:axis=0,chunks=8"
  std::int64_t microBatches = 0;
  std::vector<std::string> batch; // "%x:axis=1", "%mask:whole"

  std::uint32_t stages = 0; // a step over several devices
  std::string schedule, checkpoint, devices, balance, batchNorm;

  double effort = 0;
  std::uint64_t seed = 0;
  // As that of PlanOptions; an exception that it throws leaves Graph::compile.
  std::function<bool(double share, double bestCost)> progress;
};

class Compiled;

// A graph of the text form or of ONNX.
class Graph {
public:
  static Graph parse(std::string_view text) {
    return Graph(detail::make<isthmus_graph>(isthmus_graph_from_text, text.data(), text.size()));
  }
  static Graph load(const std::string &path, const LoadOptions &options = {}) {
    std::vector<isthmus_dim> dims;
    for (const auto &[name, size] : options.dims)
      dims.push_back({name.c_str(), size});
    std::vector<isthmus_tie> ties;
    for (const auto &[a, b] : options.ties)
      ties.push_back({a.c_str(), b.c_str()});
    isthmus_load_options given;
    isthmus_load_options_init(&given, sizeof given);
    given.num_dims = dims.size();
    given.dims = dims.data();
    given.num_ties = ties.size();
    given.ties = ties.data();
    given.untie = detail::orNull(options.untie);
    given.learn = detail::orNull(options.learn);
    given.allow_outside = options.allowOutside;
    return Graph(detail::make<isthmus_graph>(isthmus_graph_load, path.c_str(), &given));
  }
  void save(const std::string &path) const {
    detail::call(isthmus_graph_save, handle(), path.c_str());
  }

  // Without `loss`, uses the loss that the graph names; without `wrt`, differentiates by all
  // parameters.
  Graph differentiate(const std::string &loss = "", const std::string &wrt = "") const {
    return Graph(detail::make<isthmus_graph>(isthmus_graph_differentiate, handle(),
                                             detail::orNull(loss), detail::orNull(wrt)));
  }
  // Compiles for `target`, by default a common machine without workspaces. Throws a CompileError if
  // the budget cannot be met.
  Compiled compile(const CompileOptions &options, const isthmus_target *target = nullptr) const;

  std::string text() const { return printed(ISTHMUS_TEXT); }
  std::string dot() const { return printed(ISTHMUS_DOT); }
  // Remarks for the user on how an ONNX model was read, one a line.
  std::string notes() const { return printed(ISTHMUS_NOTES); }

  const isthmus_graph *handle() const { return handle_.get(); }

private:
  friend class Compiled;
  explicit Graph(detail::Owned<isthmus_graph> handle) : handle_(std::move(handle)) {}
  std::string printed(isthmus_form form) const {
    return detail::string(*detail::make<isthmus_text>(isthmus_graph_print, handle(), form));
  }

  detail::Owned<isthmus_graph> handle_;
};

// A graph that is ready to run, and what its plan promises.
class Compiled {
public:
  Graph graph() const {
    return Graph(detail::make<isthmus_graph>(isthmus_compiled_graph, handle()));
  }
  isthmus_compiled_figures figures() const {
    isthmus_compiled_figures f = {};
    f.size = sizeof f;
    detail::call(isthmus_compiled_get_figures, handle(), &f);
    return f;
  }
  // As JSON, with the keys of the command line's --report.
  std::string report() const {
    return detail::string(*detail::make<isthmus_text>(isthmus_compiled_report, handle()));
  }
  std::vector<std::int64_t> liveBytes() const { // by node of the graph
    std::size_t count = 0;
    const std::int64_t *bytes = isthmus_compiled_live_bytes(handle(), &count);
    return {bytes, bytes + count};
  }
  // Of a step over several devices; else empty. The names belong to this object, as do those below.
  std::vector<isthmus_device_figures> devices() const {
    std::size_t count = 0;
    const isthmus_device_figures *all = isthmus_compiled_devices(handle(), &count);
    return {all, all + count};
  }
  std::vector<isthmus_placed> layout() const {
    std::size_t count = 0;
    const isthmus_placed *all = isthmus_compiled_layout(handle(), &count);
    return {all, all + count};
  }

  const isthmus_compiled *handle() const { return handle_.get(); }

private:
  friend class Graph;
  explicit Compiled(detail::Owned<isthmus_compiled> handle) : handle_(std::move(handle)) {}

  detail::Owned<isthmus_compiled> handle_;
};

// No plan within the budget was found. `compiled` has the figures of the least that was found, and
// no graph.
class CompileError : public Error {
public:
  CompileError(const std::string &message, Compiled compiled)
      : Error(ISTHMUS_CANNOT_BE_MET, message),
        compiled_(std::make_shared<Compiled>(std::move(compiled))) {}
  const Compiled &compiled() const { return *compiled_; }

private:
  std::shared_ptr<Compiled> compiled_;
};

inline Compiled Graph::compile(const CompileOptions &o, const isthmus_target *target) const {
  isthmus_compile_options given;
  isthmus_compile_options_init(&given, sizeof given);
  given.loss = detail::orNull(o.loss);
  given.wrt = detail::orNull(o.wrt);
  given.class_axis = o.classAxis;
  given.ignore_index = o.ignoreIndex ? &*o.ignoreIndex : nullptr;
  given.keep_outputs = o.keepOutputs;
  given.mode = o.mode;
  given.precision = o.precision ? *o.precision : -1;
  given.layout = o.layout;
  given.policy = o.policy;
  given.checkpoints = detail::orNull(o.checkpoints);
  if (o.smallestCheckpoint)
    given.smallest_checkpoint = *o.smallestCheckpoint;
  given.budget_bytes = o.budgetBytes;
  given.budget_share = o.budgetShare;
  given.memory_limit_bytes = o.memoryLimitBytes.value_or(-1);
  given.max_added = o.maxAdded.value_or(-1);
  given.allow = o.allow;
  given.max_inverse_error = o.maxInverseError;
  given.iterations = o.iterations;
  given.host_memory = o.hostMemory.value_or(-1);
  given.link = o.link;
  given.costs = detail::orNull(o.costs);
  auto pointers = [](const std::vector<std::string> &texts) {
    std::vector<const char *> out;
    for (const std::string &text : texts)
      out.push_back(text.c_str());
    return out;
  };
  const std::vector<const char *> chunks = pointers(o.chunks), batch = pointers(o.batch);
  given.chunks = chunks.data();
  given.num_chunks = chunks.size();
  given.micro_batches = o.microBatches;
  given.batch = batch.data();
  given.num_batch = batch.size();
  given.stages = o.stages;
  given.schedule = detail::orNull(o.schedule);
  given.checkpoint = detail::orNull(o.checkpoint);
  given.devices = detail::orNull(o.devices);
  given.balance = detail::orNull(o.balance);
  given.batch_norm = detail::orNull(o.batchNorm);
  given.effort = o.effort;
  given.seed = o.seed;
  detail::Progress progress{o.progress};
  progress.watch(given);
  isthmus_compiled *made = nullptr;
  isthmus_error *error = nullptr;
  const isthmus_status status = isthmus_compile(handle(), &given, target, &made, &error);
  const detail::Owned<isthmus_error> why(error);
  Compiled compiled{detail::Owned<isthmus_compiled>(made)};
  progress.rethrow();
  if (status == ISTHMUS_CANNOT_BE_MET && made)
    throw CompileError(isthmus_error_message(error), std::move(compiled));
  if (status != ISTHMUS_OK)
    throw Error(status, isthmus_error_message(error));
  return compiled;
}

class Problem;

// A schedule for a problem; the plan shares ownership of the problem.
class Plan {
public:
  // The ops as they run; an op that occurs again is a recomputation.
  std::vector<std::uint32_t> schedule() const {
    std::size_t steps = 0;
    const std::uint32_t *ops = isthmus_plan_schedule(handle(), &steps);
    return {ops, ops + steps};
  }
  Figures figures() const {
    Figures f = {};
    f.size = sizeof f;
    detail::call(isthmus_plan_figures, handle(), &f);
    return f;
  }
  // As JSON, with the keys of the command line's --report.
  std::string report() const {
    return detail::string(
        *detail::make<isthmus_text>(isthmus_plan_report, problem_.get(), handle()));
  }
  // A page in HTML that shows the plan.
  std::string page(const isthmus_page_options &options) const {
    return detail::string(
        *detail::make<isthmus_text>(isthmus_plan_page, problem_.get(), handle(), &options));
  }
  // The place in an arena of everything that the schedule makes. The first call may take as long as
  // planning.
  Layout layout() {
    Layout out;
    const Block *blocks = nullptr;
    std::size_t count = 0;
    detail::call(isthmus_plan_layout, problem_.get(), handle_.get(), &blocks, &count,
                 &out.arenaBytes);
    out.blocks.assign(blocks, blocks + count);
    return out;
  }

  const isthmus_plan *handle() const { return handle_.get(); }

private:
  friend class Problem;
  Plan(std::shared_ptr<const isthmus_problem> problem, detail::Owned<isthmus_plan> handle)
      : problem_(std::move(problem)), handle_(std::move(handle)) {}

  std::shared_ptr<const isthmus_problem> problem_;
  detail::Owned<isthmus_plan> handle_;
};

// No plan within the budget was found. `least` is the plan of the least peak found.
class BudgetError : public Error {
public:
  BudgetError(const std::string &message, Plan least)
      : Error(ISTHMUS_CANNOT_BE_MET, message), least_(std::make_shared<Plan>(std::move(least))) {}
  Plan &least() const { return *least_; }

private:
  std::shared_ptr<Plan> least_;
};

class Problem {
public:
  // Reads the formats joint-graph/1 and joint-graph/2.
  static Problem fromJson(std::string_view json) {
    return Problem(
        detail::make<isthmus_problem>(isthmus_problem_from_json, json.data(), json.size()));
  }
  explicit Problem(const isthmus_arrays &arrays)
      : Problem(detail::make<isthmus_problem>(isthmus_problem_from_arrays, &arrays)) {}

  // Throws a BudgetError if the budget cannot be met.
  Plan plan(const PlanOptions &options) const {
    detail::Progress progress{options.progress};
    isthmus_plan_options given;
    isthmus_plan_options_init(&given, sizeof given);
    given.budget_bytes = options.budgetBytes;
    given.budget_share = options.budgetShare;
    given.effort = options.effort;
    given.seed = options.seed;
    given.place = options.place;
    progress.watch(given);
    isthmus_plan *made = nullptr;
    isthmus_error *error = nullptr;
    const isthmus_status status = isthmus_plan_make(handle(), &given, &made, &error);
    const detail::Owned<isthmus_error> why(error);
    Plan plan(handle_, detail::Owned<isthmus_plan>(made));
    progress.rethrow();
    if (status == ISTHMUS_CANNOT_BE_MET)
      throw BudgetError(isthmus_error_message(error), std::move(plan));
    if (status != ISTHMUS_OK)
      throw Error(status, isthmus_error_message(error));
    return plan;
  }

  // Makes a plan of the caller's own schedule. Throws an Error if the schedule is not valid.
  Plan judge(const std::vector<std::uint32_t> &schedule) const {
    return Plan(handle_, detail::make<isthmus_plan>(isthmus_plan_from_schedule, handle(),
                                                    schedule.data(), schedule.size()));
  }

  const isthmus_problem *handle() const { return handle_.get(); }

private:
  explicit Problem(detail::Owned<isthmus_problem> handle) : handle_(std::move(handle)) {}

  std::shared_ptr<const isthmus_problem> handle_;
};

// An op of a problem.
struct Op {
  double cost = 0;                 // microseconds
  std::vector<std::int64_t> bytes; // of each output; empty: it makes nothing
  std::vector<Output> inputs;
  isthmus_phase phase = ISTHMUS_FORWARD;
  std::int64_t workspace = 0; // bytes live while it runs
  bool runsOnce = false;      // it must not run again
  std::string name;           // for messages; empty: its number

  // Input `input` donates its bytes to output `output` where this op is the last reader of the
  // input.
  struct Donation {
    std::uint32_t output = 0, input = 0;
  };
  std::vector<Donation> donations;
  std::vector<std::uint32_t> overwrites; // pinned inputs that results overwrite
};

// Fills in a problem op by op; every op comes after the ops that it reads.
class ProblemBuilder {
public:
  // Adds a storage that is always live, never computed and not counted in the peak: a parameter, an
  // input.
  Output pinned(std::int64_t bytes, std::string name = "") {
    Op op;
    op.bytes = {bytes};
    op.name = std::move(name);
    return {append(op, Row{ISTHMUS_PINNED}), 0};
  }

  // Returns the op's number; Output{number, k} is its k-th output.
  std::uint32_t add(const Op &op) { return append(op, Row{}); }

  // Adds an op whose result shares the bytes of its input number `of`.
  Output view(Op op, std::uint32_t of = 0) {
    op.bytes.clear();
    Row row;
    row.viewOf = std::int32_t(of);
    return {append(op, row), 0};
  }

  // Adds another form of an op: it makes all outputs of op `of`, or its output `output`.
  std::uint32_t addAlternative(std::uint32_t of, const Op &op,
                               std::uint32_t output = ISTHMUS_NONE) {
    Row row;
    row.of = of;
    row.ofOutput = output;
    return append(op, row);
  }

  // Lets output `of` be offloaded to host memory and prefetched, in the given microseconds each.
  // `phase` is that of the prefetch.
  void addHostCopy(Output of, double timeOut, double timeBack,
                   isthmus_phase phase = ISTHMUS_BACKWARD) {
    Op op;
    op.phase = isthmus_phase(phase_.at(of.op));
    op.inputs = {of};
    op.inputs = {{append(op, Row{0, ISTHMUS_STARTS_OFFLOAD, timeOut}), 0}};
    op.inputs = {{append(op, Row{0, ISTHMUS_WAITS_OFFLOAD}), 0}};
    op.phase = phase;
    op.bytes = {outputBytes_.at(outputBegin_.at(of.op) + of.output)};
    op.inputs = {{append(op, Row{0, ISTHMUS_STARTS_PREFETCH, timeBack}), 0}};
    op.bytes.clear();
    Row row{0, ISTHMUS_WAITS_PREFETCH};
    row.of = of.op;
    row.ofOutput = of.output;
    append(op, row);
  }

  // Adds an output of the problem; it must be live at the end.
  void output(Output o) {
    outputOp_.push_back(o.op);
    outputOutput_.push_back(o.output);
  }
  void forwardOutput(std::uint32_t op) { forwardOutputs_.push_back(op); }

  isthmus_order order = ISTHMUS_ANY_ORDER;
  std::int64_t alignment = 1; // sizes are rounded up to it

  Problem build() const {
    std::vector<const char *> names;
    for (const std::string &name : names_)
      names.push_back(name.empty() ? nullptr : name.c_str());
    isthmus_arrays a = {};
    a.size = sizeof a;
    a.num_ops = cost_.size();
    a.cost = listOf(cost_);
    a.workspace = listOf(workspace_);
    a.phase = listOf(phase_);
    a.flags = listOf(flags_);
    a.names = listOf(names);
    a.output_begin = outputBegin_.data();
    a.output_bytes = listOf(outputBytes_);
    a.input_begin = inputBegin_.data();
    a.input_op = listOf(inputOp_);
    a.input_output = listOf(inputOutput_);
    a.view_of = listOf(viewOf_);
    a.num_outputs = outputOp_.size();
    a.output_op = listOf(outputOp_);
    a.output_output = listOf(outputOutput_);
    a.order = order;
    a.num_forward_outputs = forwardOutputs_.size();
    a.forward_outputs = listOf(forwardOutputs_);
    a.alignment = alignment;
    a.donation_begin = donationBegin_.data();
    a.donation_output = listOf(donationOutput_);
    a.donation_input = listOf(donationInput_);
    a.overwrite_begin = overwriteBegin_.data();
    a.overwrite_input = listOf(overwriteInput_);
    a.kind = listOf(kind_);
    a.of_op = listOf(ofOp_);
    a.of_output = listOf(ofOutput_);
    a.transfer_time = listOf(transferTime_);
    return Problem(a);
  }

private:
  // The properties of an op that only special ops have.
  struct Row {
    unsigned flags = 0;
    isthmus_kind kind = ISTHMUS_COMPUTES;
    double transferTime = 0;
    std::int32_t viewOf = -1;
    std::uint32_t of = ISTHMUS_NONE, ofOutput = ISTHMUS_NONE;
  };

  std::uint32_t append(const Op &op, const Row &row) {
    cost_.push_back(op.cost);
    workspace_.push_back(op.workspace);
    phase_.push_back(std::uint8_t(op.phase));
    flags_.push_back(std::uint8_t(row.flags | (op.runsOnce ? ISTHMUS_RUNS_ONCE : 0)));
    names_.push_back(op.name);
    outputBytes_.insert(outputBytes_.end(), op.bytes.begin(), op.bytes.end());
    if (op.bytes.empty())
      outputBytes_.push_back(0);
    outputBegin_.push_back(outputBytes_.size());
    for (const Output &input : op.inputs) {
      inputOp_.push_back(input.op);
      inputOutput_.push_back(input.output);
    }
    inputBegin_.push_back(inputOp_.size());
    viewOf_.push_back(row.viewOf);
    for (const Op::Donation &d : op.donations) {
      donationOutput_.push_back(d.output);
      donationInput_.push_back(d.input);
    }
    donationBegin_.push_back(donationOutput_.size());
    overwriteInput_.insert(overwriteInput_.end(), op.overwrites.begin(), op.overwrites.end());
    overwriteBegin_.push_back(overwriteInput_.size());
    kind_.push_back(std::uint8_t(row.kind));
    ofOp_.push_back(row.of);
    ofOutput_.push_back(row.ofOutput);
    transferTime_.push_back(row.transferTime);
    return std::uint32_t(cost_.size() - 1);
  }

  // The pointer of an empty list is not null either.
  template <typename T> static const T *listOf(const std::vector<T> &list) {
    static const T none = {};
    return list.empty() ? &none : list.data();
  }

  std::vector<double> cost_, transferTime_;
  std::vector<std::int64_t> workspace_, outputBytes_;
  std::vector<std::uint8_t> phase_, flags_, kind_;
  std::vector<std::string> names_;
  std::vector<std::size_t> outputBegin_ = {0}, inputBegin_ = {0}, donationBegin_ = {0},
                           overwriteBegin_ = {0};
  std::vector<std::uint32_t> inputOp_, inputOutput_, outputOp_, outputOutput_, forwardOutputs_,
      donationOutput_, donationInput_, overwriteInput_, ofOp_, ofOutput_;
  std::vector<std::int32_t> viewOf_;
};

} // namespace isthmus

#endif
