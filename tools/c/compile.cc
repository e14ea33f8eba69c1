// isthmus_compile and what it gives.

#include "ir/measured_costs.h"
#include "passes/compile/accurate_inverses.h"
#include "passes/compile/figures_json.h"
#include "passes/compile/stage_request.h"
#include "passes/inspect/live_sets.h"
#include "tools/c/search.h"
#include "tools/c/target.h"
#include <limits>

using namespace isthmus;
using namespace isthmus::c;

static_assert(int(Policy::None) == ISTHMUS_NO_POLICY - 1 &&
              int(Policy::Speed) == ISTHMUS_SPEED - 1 &&
              int(Policy::Memory) == ISTHMUS_MEMORY - 1 &&
              int(Policy::Collection) == ISTHMUS_COLLECTION - 1);
static_assert(int(ModeSource::Rule) == ISTHMUS_BY_RULE && int(ModeSource::Eval) == ISTHMUS_EVAL &&
              int(ModeSource::AsWritten) == ISTHMUS_AS_WRITTEN);
static_assert(int(ChannelLayout::Auto) == ISTHMUS_AUTO_LAYOUT &&
              int(ChannelLayout::First) == ISTHMUS_CHANNELS_FIRST &&
              int(ChannelLayout::Last) == ISTHMUS_CHANNELS_LAST);
static_assert(int(DType::F32) == ISTHMUS_F32 && int(DType::F64) == ISTHMUS_F64 &&
              int(DType::BF16) == ISTHMUS_BF16 && int(DType::F16) == ISTHMUS_F16);

static isthmus_compile_options defaults() {
  const CompileOptions usual;
  isthmus_compile_options all = {};
  all.size = sizeof all;
  all.class_axis = LossOptions().classAxis;
  all.precision = -1;
  all.budget_bytes = -1;
  all.memory_limit_bytes = -1;
  all.max_added = -1;
  all.allow = ISTHMUS_RECOMPUTE;
  all.max_inverse_error = usual.mostInverseError;
  all.host_memory = -1;
  all.smallest_checkpoint = kSmallestCheckpoint;
  return all;
}

void isthmus_compile_options_init(isthmus_compile_options *options, size_t size) {
  initialize(options, size, defaults());
}

// What is given of fields that have no effect beside the others, or null.
static const char *withoutEffect(const isthmus_compile_options &o) {
  const bool searches = o.policy == ISTHMUS_BUDGET || o.memory_limit_bytes >= 0;
  if (o.policy != ISTHMUS_BUDGET && (o.budget_bytes >= 0 || o.budget_share != 0))
    return "'budget_bytes' and 'budget_share' go with the policy ISTHMUS_BUDGET";
  if (o.checkpoints && *o.checkpoints && o.policy != ISTHMUS_COLLECTION)
    return "'checkpoints' goes with the policy ISTHMUS_COLLECTION";
  if (o.smallest_checkpoint != kSmallestCheckpoint && o.policy != ISTHMUS_MEMORY)
    return "'smallest_checkpoint' goes with the policy ISTHMUS_MEMORY";
  if (!searches && o.allow != ISTHMUS_RECOMPUTE)
    return "'allow' says how a plan within a budget is made, and there is neither a budget nor a "
           "memory limit";
  if (o.iterations && !(o.allow & ISTHMUS_INVERT))
    return "'iterations' goes with ISTHMUS_INVERT in 'allow'";
  if (o.host_memory >= 0 && !(o.allow & ISTHMUS_FETCH))
    return "'host_memory' goes with ISTHMUS_FETCH in 'allow'";
  return nullptr;
}

// ISTHMUS_BAD_CALL for values that are none of their enumerations, numbers out of range, and fields
// that would have no effect.
static isthmus_status checkOptions(const isthmus_compile_options &o, isthmus_error **error) {
  struct Choice {
    const char *name;
    int64_t value, least, most;
  };
  constexpr int64_t kWays =
      ISTHMUS_RECOMPUTE | ISTHMUS_INVERT | ISTHMUS_FETCH | ISTHMUS_ENCODE | ISTHMUS_CHUNK;
  for (const Choice &c : {Choice{"mode", o.mode, ISTHMUS_BY_RULE, ISTHMUS_AS_WRITTEN},
                          {"precision", o.precision, -1, ISTHMUS_F16},
                          {"layout", o.layout, ISTHMUS_AUTO_LAYOUT, ISTHMUS_CHANNELS_LAST},
                          {"policy", o.policy, ISTHMUS_NO_CHOICE, ISTHMUS_AS_IS},
                          {"allow", int64_t(o.allow), 1, kWays},
                          {"micro_batches", o.micro_batches, 0, INT64_MAX},
                          {"smallest_checkpoint", o.smallest_checkpoint, 0, INT64_MAX}})
    if (c.value < c.least || c.value > c.most)
      return fail(
          ISTHMUS_BAD_CALL,
          llvm::formatv("'{0}' is to be from {1} to {2}, got {3}", c.name, c.least, c.most, c.value)
              .str(),
          error);
  if (const char *without = withoutEffect(o))
    return fail(ISTHMUS_BAD_CALL, without, error);
  if (o.iterations &&
      (o.iterations < Ways::kLeastIterations || o.iterations > Ways::kMostIterations))
    return fail(ISTHMUS_BAD_CALL,
                llvm::formatv("'iterations' is to be 0, or from {0} to {1}, got {2}",
                              Ways::kLeastIterations, Ways::kMostIterations, o.iterations)
                    .str(),
                error);
  for (size_t i = 0; i < o.num_batch; ++i)
    if (!o.batch || !o.batch[i])
      return fail(ISTHMUS_BAD_CALL, "'batch' is to have 'num_batch' texts, and has a null", error);
  for (size_t i = 0; i < o.num_chunks; ++i)
    if (!o.chunks || !o.chunks[i])
      return fail(ISTHMUS_BAD_CALL, "'chunks' is to have 'num_chunks' texts, and has a null",
                  error);
  return checkNumbers({{"budget_share", o.budget_share},
                       {"max_inverse_error", o.max_inverse_error},
                       {"max_added", o.max_added == -1 ? 0 : o.max_added},
                       {"link", o.link},
                       {"effort", o.effort},
                       {"progress_seconds", o.progress_seconds}},
                      error);
}

static llvm::Error setStep(StepOptions &step, const isthmus_compile_options &o) {
  if (o.loss) {
    auto loss = parseLoss(o.loss);
    if (!loss)
      return loss.takeError();
    loss->classAxis = o.class_axis;
    if (o.ignore_index)
      loss->ignoreIndex = *o.ignore_index;
    step.loss = std::move(*loss);
  }
  step.wrt = parseWrt(o.wrt ? o.wrt : "");
  step.keepsOutputs = o.keep_outputs != 0;
  step.mode = ModeSource(o.mode);
  return llvm::Error::success();
}

static PlanChoice choiceOf(const isthmus_compile_options &o) {
  if (o.policy == ISTHMUS_BUDGET)
    return budgetOf(o.budget_bytes, o.budget_share);
  // A memory limit alone asks for a search.
  if (o.policy == ISTHMUS_AS_IS || (o.policy == ISTHMUS_NO_CHOICE && o.memory_limit_bytes >= 0))
    return AsItIs();
  if (o.policy == ISTHMUS_NO_CHOICE)
    return PolicyOptions();
  return PolicyOptions{Policy(o.policy - ISTHMUS_NO_POLICY), o.checkpoints ? o.checkpoints : "",
                       o.smallest_checkpoint};
}

static Ways waysOf(const isthmus_compile_options &o) {
  Ways ways;
  ways.recompute = o.allow & ISTHMUS_RECOMPUTE;
  ways.invert = o.allow & ISTHMUS_INVERT;
  ways.fetch = o.allow & ISTHMUS_FETCH;
  ways.encode = o.allow & ISTHMUS_ENCODE;
  ways.chunk = o.allow & ISTHMUS_CHUNK;
  ways.iterations = size_t(o.iterations);
  if (o.host_memory >= 0)
    ways.hostBytes = o.host_memory;
  return ways;
}

static llvm::Error setStages(CompileOptions &o, const isthmus_compile_options &given) {
  if (given.batch_norm) {
    const llvm::StringRef norm = given.batch_norm;
    if (norm != "micro" && norm != "whole")
      return makeError("batch_norm expects one of micro, whole, got '{0}'", norm);
    if (given.micro_batches == 0)
      return makeError("batch_norm says what micro-batches share, so it goes with a number of "
                       "micro-batches");
    o.step.normParts = norm == "micro" ? given.micro_batches : 0;
  }
  if (!given.stages && !given.schedule && !given.checkpoint && !given.devices && !given.balance)
    return llvm::Error::success();
  StageOptions &s = o.stages.emplace();
  s.stages = given.stages;
  if (given.schedule)
    if (llvm::Error e = parseStageOrder(given.schedule, "schedule").moveInto(s.order))
      return e;
  if (given.checkpoint)
    if (llvm::Error e = parseCheckpointMode(given.checkpoint, "checkpoint").moveInto(s.checkpoint))
      return e;
  if (given.devices)
    if (llvm::Error e = parseDevices(given.devices, "devices", s))
      return e;
  if (given.balance)
    if (llvm::Error e = parseBalance(given.balance, "balance", s))
      return e;
  return checkStages(s, "");
}

static llvm::Expected<CompileOptions> optionsOf(const isthmus_compile_options &given) {
  CompileOptions o;
  if (given.precision >= 0)
    o.precision = DType(given.precision);
  if (llvm::Error e = setStep(o.step, given))
    return e;
  o.exactOnly = o.step.mode == ModeSource::AsWritten;
  o.layout = ChannelLayout(given.layout);
  o.plan = choiceOf(given);
  o.ways = waysOf(given);
  o.microBatches = given.micro_batches;
  if (llvm::Error e = setStages(o, given))
    return e;
  for (size_t i = 0; i < given.num_chunks; ++i) {
    auto request = parseChunkRequest(given.chunks[i]);
    if (!request)
      return request.takeError();
    o.chunks.push_back(std::move(*request));
  }
  for (size_t i = 0; i < given.num_batch; ++i) {
    auto request = parseBatchRequest(given.batch[i]);
    if (!request)
      return request.takeError();
    o.batch.push_back(std::move(*request));
  }
  if (given.memory_limit_bytes >= 0)
    o.memoryLimitBytes = given.memory_limit_bytes;
  if (given.max_added >= 0)
    o.mostAdded = given.max_added;
  o.effort = given.effort;
  o.seed = given.seed;
  o.mostInverseError = given.max_inverse_error;
  return o;
}

// The target, with what the options say of it.
static llvm::Expected<Target> targetOf(const isthmus_target *given,
                                       const isthmus_compile_options &o, const NoteSink &note) {
  auto target = targetOf(given);
  if (!target)
    return target;
  if (o.link > 0)
    target->linkBytesPerSecond = o.link;
  if (o.costs) {
    if (llvm::Error e = parseCosts(o.costs).moveInto(target->measured))
      return e;
    if (target->measured->target != target->name)
      note("the costs were measured on '" + target->measured->target + "', and this is '" +
           target->name + "'");
  }
  return target;
}

// The figures of the devices, if there are several; else the bytes and places of what the nodes
// make, in order.
static llvm::Error describe(isthmus_compiled &c, const Target &target) {
  const Graph &g = c.compiled.graph;
  const Layout &layout = c.compiled.layout;
  c.hasGraph = true;
  for (const StageFigures &s : c.compiled.figures.stages)
    c.devices.push_back({s.device.c_str(), s.baselinePeakBytes, s.predictedPeakBytes, s.arenaBytes,
                         s.persistentBytes, s.busySeconds,
                         s.waitBefore + s.waitBetween + s.waitAfter, s.nodes});
  if (!c.compiled.programs.empty()) // each device has an arena of its own
    return llvm::Error::success();
  auto problem = extractProblem(g, target);
  if (!problem)
    return problem.takeError();
  c.liveBytes = liveSetsOf(g, *problem).live;
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    const Node &n = g.node(NodeId(i));
    for (uint32_t r = 0; r < n.numResults; ++r) {
      const Type &type = g.type(n.result(r));
      c.placed.push_back({g.valueName(n.result(r)).data(), i, 0, type.memory == Memory::Host,
                          target.rounded(type.bytes()), layout.valueOffset[n.result(r).index]});
    }
    if (const int64_t offset = layout.workspaceOffset[i]; offset >= 0)
      c.placed.push_back({g.nodeName(NodeId(i)).data(), i, 1, 0,
                          target.rounded(problem->problem.ops[problem->opOf(NodeId(i))].workspace),
                          offset});
  }
  return llvm::Error::success();
}

static isthmus_status checkTarget(const isthmus_target *target, isthmus_error **error) {
  if (!target || target->size == sizeof *target)
    return ISTHMUS_OK;
  return wrongSize("isthmus_target", target->size, sizeof *target, sizeof *target, error);
}

// A line on the errors of inverses; empty if they were not measured.
static std::string inversesNote(const Figures &f) {
  const auto *largest = largestError(f.inverseErrors);
  if (!largest)
    return "";
  return llvm::formatv("{0} inverses are off by {1:e1} at most, of '%{2}', as a share of a value's "
                       "largest element: measured on a first step, whose inputs were drawn from "
                       "the seed where the graph does not hold them; other inputs and parameters "
                       "have other errors\n",
                       f.inversions, largest->second, largest->first)
      .str();
}

// A budget that cannot be met leaves its figures in `*compiled`.
static isthmus_status failed(llvm::Error e, std::string notes, isthmus_compiled **compiled,
                             isthmus_error **error) {
  return fail(llvm::handleErrors(std::move(e),
                                 [&](std::unique_ptr<NotWithin> n) -> llvm::Error {
                                   if (n->kind == ErrorKind::CannotBeMet) {
                                     give(compiled);
                                     (*compiled)->compiled.figures = n->figures;
                                     (*compiled)->notes = std::move(notes);
                                   }
                                   return llvm::Error(std::move(n));
                                 }),
              error);
}

isthmus_status isthmus_compile(const isthmus_graph *graph, const isthmus_compile_options *options,
                               const isthmus_target *target, isthmus_compiled **compiled,
                               isthmus_error **error) {
  return guarded(error, [&] {
    ISTHMUS_NOT_NULL(compiled);
    *compiled = nullptr;
    ISTHMUS_NOT_NULL(graph);
    ISTHMUS_NOT_NULL(options);
    constexpr size_t kLeast = offsetof(isthmus_compile_options, stages);
    const auto asked = grown(*options, kLeast, defaults());
    if (!asked)
      return wrongSize("isthmus_compile_options", options->size, kLeast, sizeof *options, error);
    if (isthmus_status s = checkOptions(*asked, error))
      return s;
    if (isthmus_status s = checkTarget(target, error))
      return s;
    if (graph->graph.hasBackward() && (asked->loss || asked->wrt))
      return fail(ISTHMUS_BAD_INPUT,
                  "the graph is differentiated already, so a loss and what to differentiate by "
                  "have no meaning",
                  error);
    std::string notes = graph->notes;
    auto o = optionsOf(*asked);
    if (!o)
      return fail(o.takeError(), error);
    o->step.note = [&](const Remark &r) { notes += r.text + "\n"; };
    auto machine = targetOf(target, *asked, o->step.note);
    if (!machine)
      return fail(machine.takeError(), error);
    if (target && target->first_step)
      o->firstStep = firstStepOf(*target, asked->seed);
    Watched watched(*asked);
    if (!watched.begins())
      return fail(ISTHMUS_CANCELLED, "cancelled before the search began", error);
    if (watched.isAsked())
      o->progress = [&](const plan::SearchProgress &now) { return watched.goesOn(now); };
    auto made = compile(graph->graph, *o, *machine);
    if (!made)
      return failed(made.takeError(), std::move(notes), compiled, error);
    notes += inversesNote(made->figures);
    give(compiled, std::move(*made), false, std::move(notes));
    if (llvm::Error e = describe(**compiled, *machine)) {
      isthmus_compiled_free(*compiled);
      *compiled = nullptr;
      return fail(std::move(e), error);
    }
    return ISTHMUS_OK;
  });
}

void isthmus_compiled_free(isthmus_compiled *compiled) { delete compiled; }

isthmus_status isthmus_compiled_graph(const isthmus_compiled *compiled, isthmus_graph **graph,
                                      isthmus_error **error) {
  return guarded(error, [&] {
    ISTHMUS_NOT_NULL(graph);
    *graph = nullptr;
    ISTHMUS_NOT_NULL(compiled);
    if (!compiled->hasGraph)
      return fail(ISTHMUS_BAD_CALL, "the budget could not be met: there is no graph", error);
    return give(graph, compiled->compiled.graph, compiled->notes);
  });
}

// Without a plan. Stages are sized one by one, and then the sums of bytes are not known either.
static void eraseUnknown(isthmus_compiled_figures &f) {
  f.predicted_peak_bytes = f.arena_bytes = f.host_bytes = -1;
  f.persistent_bytes = f.persistent_bytes > 0 ? f.persistent_bytes : -1;
  f.output_bytes = f.output_bytes > 0 ? f.output_bytes : -1;
  f.recompute_overhead = std::numeric_limits<double>::quiet_NaN();
}

isthmus_status isthmus_compiled_get_figures(const isthmus_compiled *compiled,
                                            isthmus_compiled_figures *figures,
                                            isthmus_error **error) {
  return guarded(error, [&] {
    ISTHMUS_NOT_NULL(compiled);
    ISTHMUS_NOT_NULL(figures);
    if (figures->size != sizeof *figures)
      return wrongSize("isthmus_compiled_figures", figures->size, sizeof *figures, sizeof *figures,
                       error);
    const Figures &f = compiled->compiled.figures;
    figures->baseline_peak_bytes = f.baselinePeakBytes;
    figures->predicted_peak_bytes = f.predictedPeakBytes;
    figures->arena_bytes = f.arenaBytes;
    figures->persistent_bytes = f.persistentBytes;
    figures->output_bytes = f.outputBytes;
    figures->host_bytes = f.hostBytes;
    figures->lower_bound_bytes = f.lowerBoundBytes.value_or(-1);
    figures->smallest_budget_bytes = f.smallestBudgetBytes.value_or(-1);
    figures->recompute_overhead = f.recomputeOverhead;
    figures->lower_bound_overhead =
        f.lowerBoundOverhead.value_or(std::numeric_limits<double>::quiet_NaN());
    figures->nodes = f.nodes;
    figures->clones = f.clones;
    figures->transfers = f.transfers;
    figures->inversions = f.inversions;
    figures->encodings = f.encodings;
    figures->chunks = f.chunks;
    if (!f.hasPlan)
      eraseUnknown(*figures);
    return ISTHMUS_OK;
  });
}

isthmus_status isthmus_compiled_report(const isthmus_compiled *compiled, isthmus_text **text,
                                       isthmus_error **error) {
  return guarded(error, [&] {
    ISTHMUS_NOT_NULL(text);
    *text = nullptr;
    ISTHMUS_NOT_NULL(compiled);
    return give(text, jsonText(figuresJson(compiled->compiled.figures), 2) + "\n");
  });
}

const isthmus_device_figures *isthmus_compiled_devices(const isthmus_compiled *compiled,
                                                       size_t *count) {
  const bool has = compiled && !compiled->devices.empty();
  if (count)
    *count = has ? compiled->devices.size() : 0;
  return has ? compiled->devices.data() : nullptr;
}

const int64_t *isthmus_compiled_live_bytes(const isthmus_compiled *compiled, size_t *num_nodes) {
  const bool has = compiled && compiled->hasGraph && compiled->compiled.programs.empty();
  if (num_nodes)
    *num_nodes = has ? compiled->liveBytes.size() : 0;
  return has ? compiled->liveBytes.data() : nullptr;
}

const isthmus_placed *isthmus_compiled_layout(const isthmus_compiled *compiled, size_t *count) {
  const bool has = compiled && compiled->hasGraph && compiled->compiled.programs.empty();
  if (count)
    *count = has ? compiled->placed.size() : 0;
  return has ? compiled->placed.data() : nullptr;
}
