/* Isthmus in C: a planner for problems that any framework can fill in, and the compiler of graphs
 * in the text form or in ONNX to training steps that need less memory. The header is C99 and C++; no C++ types and no exceptions cross
 * it.
 *
 *   isthmus_graph *forward, *step;
 *   isthmus_compiled *compiled;
 *   isthmus_compile_options options;
 *   isthmus_graph_load("model.onnx", NULL, &forward, &error);
 *   isthmus_compile_options_init(&options, sizeof options);
 *   options.loss = "cross_entropy";
 *   options.policy = ISTHMUS_BUDGET;
 *   options.budget_share = 0.5;
 *   isthmus_compile(forward, &options, NULL, &compiled, &error);
 *   isthmus_compiled_graph(compiled, &step, &error);
 *   isthmus_graph_save(step, "step.onnx", &error);
 *
 * Every function that can fail returns a status. If it is not ISTHMUS_OK and `error` is not
 * null, `*error` receives an error that the caller frees; the result is null unless the function
 * says otherwise. The caller owns every handle and frees it with the function of its kind, which
 * accepts null. Pointers into a handle are valid as long as the handle. Handles do not refer to
 * one another, and different threads may use different handles at once.
 *
 * Strings are UTF-8 and end with a zero. The library prints nothing and ends no process. */
#ifndef ISTHMUS_H
#define ISTHMUS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ISTHMUS_API __attribute__((visibility("default")))

/* Raised by every change after which a program must be compiled anew. Structs begin with their
 * size, so they can grow without a new version: a field that a program's smaller struct lacks is
 * null, 0 or the default. */
#define ISTHMUS_ABI_VERSION 4
ISTHMUS_API int32_t isthmus_abi_version(void);
ISTHMUS_API const char *isthmus_version(void); /* "0.1.0" */

typedef enum {
  ISTHMUS_OK = 0,
  ISTHMUS_BAD_INPUT = 1, /* the input is wrong or unreadable */
  ISTHMUS_BAD_CALL = 2,  /* the call is wrong: a null pointer, a wrong size, unrelated handles */
  ISTHMUS_CANNOT_BE_MET = 3, /* no plan within the budget was found */
  ISTHMUS_UNSUPPORTED = 4,   /* the input is valid, but not supported */
  ISTHMUS_INTERNAL = 5,      /* a bug of the library */
  ISTHMUS_CANCELLED = 6, /* by the progress function, before a plan within the budget was found */
  ISTHMUS_OUT_OF_MEMORY = 7
} isthmus_status;

typedef struct isthmus_error isthmus_error;
ISTHMUS_API const char *isthmus_error_message(const isthmus_error *error);
ISTHMUS_API void isthmus_error_free(isthmus_error *error);

/* Bytes that the library made. They are followed by a zero, which `length` does not count. */
typedef struct isthmus_text isthmus_text;
ISTHMUS_API const char *isthmus_text_data(const isthmus_text *text, size_t *length);
ISTHMUS_API void isthmus_text_free(isthmus_text *text);

/* Parses a budget: "2GiB", "500MB" or a number of bytes; "60%" of the peak without recomputation;
 * "min", the least that is found. Sets both numbers as options take them. */
ISTHMUS_API isthmus_status isthmus_budget_parse(const char *text, int64_t *bytes, double *share,
                                                isthmus_error **error);

/* --- Problems: ops with their costs, the sizes of their outputs, and their inputs */

typedef struct isthmus_problem isthmus_problem;

typedef enum { ISTHMUS_FORWARD = 0, ISTHMUS_BACKWARD = 1, ISTHMUS_UPDATE = 2 } isthmus_phase;

/* Flags of an op. */
#define ISTHMUS_PINNED 1 /* always live, never run, not counted in the peak: parameters, inputs */
#define ISTHMUS_RUNS_ONCE 2 /* must not run again */

/* The orders in which ops may run for the first time: any order; only ops of the forward phase
 * until all forward outputs (the problem's outputs of that phase, and `forward_outputs`) are
 * computed; the order given. */
typedef enum { ISTHMUS_ANY_ORDER = 0, ISTHMUS_BY_PHASES = 1, ISTHMUS_AS_GIVEN = 2 } isthmus_order;

/* The kind of an op. A host copy is two pairs of ops: an offload (to the host) and a prefetch
 * (back from it). Each pair is a start, which takes time on the link alone, and a wait, whose
 * first input is output 0 of the start. */
typedef enum {
  ISTHMUS_COMPUTES = 0,
  ISTHMUS_STARTS_OFFLOAD = 1,  /* reads outputs of one op, which stay live until the wait */
  ISTHMUS_WAITS_OFFLOAD = 2,   /* its output is in host memory; starts of prefetches may read it */
  ISTHMUS_STARTS_PREFETCH = 3, /* reads such a wait; its outputs are as large as the offloaded */
  ISTHMUS_WAITS_PREFETCH = 4   /* makes them instances of the op that it is `of` */
} isthmus_kind;

#define ISTHMUS_NONE UINT32_MAX

/* Ops are numbered so that every op comes after the ops that it reads. A list of lists is stored
 * as one flat list, and an array of where the entries of each op begin in it: op i has the
 * entries begin[i] to begin[i + 1] - 1, so `begin` has num_ops + 1 entries. Pointers that may be
 * null say so.
 *
 * An op that makes no bytes of its own has one output, of 0 bytes: a view, the start of an
 * offload, a wait, an op without results.
 *
 * Alternatives are ops that no schedule has to run and that only alternatives may read: other
 * forms of an op, and host copies. An alternative that is `of` another op makes a new instance
 * of all outputs of that op, or of one, with the same bytes. Alternatives may come before the
 * ops that they read. */
typedef struct {
  size_t size; /* sizeof(isthmus_arrays) */
  size_t num_ops;
  const double *cost;       /* microseconds */
  const int64_t *workspace; /* bytes live while the op runs; null: none */
  const uint8_t *phase;     /* of isthmus_phase; null: forward */
  const uint8_t *flags;     /* null: none */
  const char *const *names; /* for messages; null: numbers */
  const size_t *output_begin;
  const int64_t *output_bytes;
  const size_t *input_begin;
  const uint32_t *input_op, *input_output; /* input_output null: each reads output 0 */
  const int32_t *view_of; /* the input, counted within the op, whose bytes its result shares; -1:
                             not a view. Null: no op is a view. */
  size_t num_outputs;     /* of the problem; they must be live at the end */
  const uint32_t *output_op, *output_output; /* output_output null: output 0 of each */
  int32_t order;                             /* of isthmus_order */
  size_t num_forward_outputs;
  const uint32_t *forward_outputs;
  int64_t alignment; /* sizes are rounded up to it; 0: 1 */

  /* Donations: output donation_output[k] of the op takes over the bytes of its input
   * donation_input[k] where the op is the last reader of that input and the input is large
   * enough. Both are counted within the op. Donations are tried in the order given. Null: none. */
  const size_t *donation_begin;
  const uint32_t *donation_output, *donation_input;

  const uint8_t *kind;   /* of isthmus_kind; null: all compute */
  const uint32_t *of_op; /* the op for which this is an alternative; ISTHMUS_NONE: it is none. Null:
                            ISTHMUS_NONE for every op. */
  const uint32_t *of_output;   /* the output of that op; ISTHMUS_NONE: all. Null: all, of each. */
  const double *transfer_time; /* of starts of transfers, microseconds; null: 0 */

  /* Pinned inputs that the op overwrites, counted within the op. An output that takes the place
   * of one has 0 bytes. The op runs once, after all readers of these inputs and of views of
   * them. Null: nothing is overwritten. */
  const size_t *overwrite_begin;
  const uint32_t *overwrite_input;

  const char *name; /* of the problem; null: "problem" */
} isthmus_arrays;

ISTHMUS_API isthmus_status isthmus_problem_from_arrays(const isthmus_arrays *arrays,
                                                       isthmus_problem **problem,
                                                       isthmus_error **error);
/* Reads the formats joint-graph/1 and joint-graph/2. */
ISTHMUS_API isthmus_status isthmus_problem_from_json(const char *json, size_t length,
                                                     isthmus_problem **problem,
                                                     isthmus_error **error);
/* ISTHMUS_JOINT_GRAPH gives joint-graph/2, where a node reads all outputs of another one: single
 * outputs of several are nodes of their own, which are views. ISTHMUS_OPS gives a list for each
 * field of the ops, as JSON, with words for enumerators. `form` is an isthmus_problem_form. */
typedef enum { ISTHMUS_JOINT_GRAPH = 0, ISTHMUS_OPS = 1 } isthmus_problem_form;
ISTHMUS_API isthmus_status isthmus_problem_print(const isthmus_problem *problem, int32_t form,
                                                 isthmus_text **text, isthmus_error **error);
ISTHMUS_API void isthmus_problem_free(isthmus_problem *problem);

/* Sets bytes[k] to the bytes that are live while step k of a schedule runs, its workspace included.
 * ISTHMUS_BAD_INPUT if the schedule is not valid. */
ISTHMUS_API isthmus_status isthmus_problem_live_bytes(const isthmus_problem *problem,
                                                      const uint32_t *ops, size_t num_ops,
                                                      int64_t *bytes, isthmus_error **error);

/* --- Plans: schedules, lists of ops as they run; an op that occurs again is a recomputation */

typedef struct isthmus_plan isthmus_plan;

/* Called on the thread that plans, with the share of the search that is done and the cost of the
 * best plan so far (0: none yet). Returning 0 cancels the search. */
typedef int32_t (*isthmus_progress)(void *user, double share, double best_cost);

typedef struct {
  size_t size;
  int64_t budget_bytes; /* the peak must not exceed it; -1: see budget_share */
  double budget_share;  /* of the peak without recomputation; 0: the least peak found that
                           adds no more than 100 % of the cost */
  double effort; /* about seconds of one common core, with the same plan on every machine; 0: by the
                    number of ops */
  uint64_t seed;
  isthmus_progress progress; /* null: none */
  void *user;                /* passed to `progress` */
  int32_t place; /* not 0: the arena of isthmus_plan_layout stays within the budget, not only the
                    peak. For callers that place by that layout; the search takes longer. */
  double progress_seconds; /* the least time between two calls of `progress`; 0: none */
  const volatile int32_t *cancelled; /* null: none. Another thread, or a signal handler, cancels
                                        the search by making it not 0, as `progress` does. */
} isthmus_plan_options;
/* All defaults: the least peak, effort by size, seed 0. `size` is sizeof(isthmus_plan_options). */
ISTHMUS_API void isthmus_plan_options_init(isthmus_plan_options *options, size_t size);

/* With ISTHMUS_CANNOT_BE_MET, `*plan` is the plan of the least peak found. If the search is
 * cancelled after a plan within the budget was found, `*plan` is the best plan until then, with
 * ISTHMUS_OK. */
ISTHMUS_API isthmus_status isthmus_plan_make(const isthmus_problem *problem,
                                             const isthmus_plan_options *options,
                                             isthmus_plan **plan, isthmus_error **error);
/* Makes a plan of the caller's own schedule; ISTHMUS_BAD_INPUT if the schedule is not valid. */
ISTHMUS_API isthmus_status isthmus_plan_from_schedule(const isthmus_problem *problem,
                                                      const uint32_t *ops, size_t num_ops,
                                                      isthmus_plan **plan, isthmus_error **error);
ISTHMUS_API void isthmus_plan_free(isthmus_plan *plan);

ISTHMUS_API const uint32_t *isthmus_plan_schedule(const isthmus_plan *plan, size_t *num_ops);

typedef struct {
  size_t size; /* set before the call */
  int64_t baseline_peak_bytes, peak_bytes, output_bytes;
  int64_t lower_bound_bytes;   /* no schedule has a lower peak; -1: not known */
  int64_t smallest_peak_bytes; /* the least found, with `place` of the arena; -1: not looked for */
  double baseline_cost, cost;  /* microseconds */
  double lower_bound_cost;     /* for the same order of first runs; NaN: not known */
  uint64_t recomputed, transfers;
} isthmus_figures;
ISTHMUS_API isthmus_status isthmus_plan_figures(const isthmus_plan *plan, isthmus_figures *figures,
                                                isthmus_error **error);

/* The figures and more as JSON, with the keys of the command line's --report (isthmus.report/1).
 * Unknown figures are null, as is `arena_bytes` until the plan has a layout. */
ISTHMUS_API isthmus_status isthmus_plan_report(const isthmus_problem *problem,
                                               const isthmus_plan *plan, isthmus_text **text,
                                               isthmus_error **error);

/* The place of an instance or a workspace in the arena, and the steps of the schedule in which
 * it is live: from the first to the last, both included. */
typedef struct {
  uint32_t op;     /* the op that the first step runs */
  uint32_t output; /* the output of that op; ISTHMUS_NONE: its workspace */
  uint32_t first_step, last_step;
  int64_t bytes, offset;
} isthmus_block;

/* Places all instances and workspaces of the plan. For each step, in order, the blocks are an
 * instance for each output of its op, then its workspace. Views, starts of offloads and waits
 * for prefetches make no instances of their own; an instance of 0 bytes has offset 0. Blocks
 * that are live at once do not overlap, except where bytes are donated: the new instance lies at
 * the offset of the one whose bytes it takes over, which ends at the step where the new one
 * begins. The plan owns the blocks. The first call computes them, which may take as long as the
 * search. */
ISTHMUS_API isthmus_status isthmus_plan_layout(const isthmus_problem *problem, isthmus_plan *plan,
                                               const isthmus_block **blocks, size_t *num_blocks,
                                               int64_t *arena_bytes, isthmus_error **error);

/* A page in HTML that shows a plan (docs/view.md): live bytes, tensors, ops by modules, and beside
 * it another plan of the same problem. Texts are UTF-8. Fields after `size` may be null or 0. */
typedef struct {
  size_t size; /* sizeof(isthmus_page_options) */
  const char *title;        /* null: the problem's name */
  const char *target;       /* what the costs are meant for */
  const char *const *names; /* of ops, as paths: dots and slashes divide them into modules. Null:
                               those of the problem */
  const char *const *ops;   /* by op, what it does: "aten.mm" */
  const char *const *sources; /* by op, the line of the program that it comes from; "": unknown */
  const char *const *types;   /* by output, of all ops one after the other: "f32[8, 16]" */
  const uint8_t *chunks; /* by op: not 0 if it computes a part of a tensor, or puts parts together */
  int64_t budget_bytes;  /* drawn as a line; 0: none */
  int64_t reserved_bytes;     /* live at every step, besides what the problem knows */
  const isthmus_plan *beside; /* null: every op once, in the order of the problem */
  const char *beside_name;
  const char *snapshot; /* the content of a snapshot of PyTorch's allocator, shown in its place */
  size_t snapshot_length;
  size_t num_prices; /* other plans of the problem, for the curve of budgets: */
  const int64_t *price_peak; /* with the reserved bytes */
  const double *price_cost;  /* microseconds */
} isthmus_page_options;
ISTHMUS_API isthmus_status isthmus_plan_page(const isthmus_problem *problem,
                                             const isthmus_plan *plan,
                                             const isthmus_page_options *options,
                                             isthmus_text **page, isthmus_error **error);

/* --- Graphs, of the text form (docs/language.md) or of ONNX */

typedef struct isthmus_graph isthmus_graph;

ISTHMUS_API isthmus_status isthmus_graph_from_text(const char *text, size_t length,
                                                   isthmus_graph **graph, isthmus_error **error);

/* A size that an ONNX model leaves open. */
typedef struct {
  const char *name;
  int64_t size;
} isthmus_dim;

/* Two tensors of an ONNX model that are one parameter. */
typedef struct {
  const char *a, *b;
} isthmus_tie;

/* How an ONNX model is read; docs/onnx.md tells what is decided without. Lists of names have
 * commas between names, and wildcards * and ?. */
typedef struct {
  size_t size;
  size_t num_dims;
  const isthmus_dim *dims;
  size_t num_ties;
  const isthmus_tie *ties;
  const char *untie;       /* tensors that are parameters of their own although they equal others;
                              null: none */
  const char *learn;       /* tensors that are parameters whatever the model says; null: none */
  int32_t allow_outside;   /* not 0: weights may lie outside the model's folder */
} isthmus_load_options;
/* All defaults: nothing is bound or decided. `size` is sizeof(isthmus_load_options). */
ISTHMUS_API void isthmus_load_options_init(isthmus_load_options *options, size_t size);

/* Loads a file .isth or .onnx. `options` may be null: all defaults. Only `allow_outside` concerns
 * files .isth. */
ISTHMUS_API isthmus_status isthmus_graph_load(const char *path,
                                              const isthmus_load_options *options,
                                              isthmus_graph **graph, isthmus_error **error);
/* Writes a file .isth or .onnx, by the suffix of the path, whole or not at all. Large weights go
 * to a file beside it, NAME.safetensors or NAME.onnx.data. */
ISTHMUS_API isthmus_status isthmus_graph_save(const isthmus_graph *graph, const char *path,
                                              isthmus_error **error);
ISTHMUS_API void isthmus_graph_free(isthmus_graph *graph);

/* Makes the training step without planning it; the model's outputs stay outputs. isthmus_compile
 * does both. `loss` has the form of the command line's --loss; null: the loss that the graph
 * names. `wrt` is a list of names; null: all parameters. */
ISTHMUS_API isthmus_status isthmus_graph_differentiate(const isthmus_graph *graph, const char *loss,
                                                       const char *wrt, isthmus_graph **step,
                                                       isthmus_error **error);
/* ISTHMUS_NOTES gives remarks for the user on how isthmus_graph_load read an ONNX model, one a
 * line; a graph that was made in another way has none. */
typedef enum { ISTHMUS_TEXT = 0, ISTHMUS_DOT = 1, ISTHMUS_NOTES = 2 } isthmus_form;
/* `form` is an isthmus_form. */
ISTHMUS_API isthmus_status isthmus_graph_print(const isthmus_graph *graph, int32_t form,
                                               isthmus_text **text, isthmus_error **error);

/* --- Compiling: from a graph to a training step within a budget, ready to run */

/* The machine that a graph is compiled for. isthmus_run_target (isthmus_run.h) makes that of the
 * machine on which the program runs. */
typedef struct isthmus_target {
  size_t size;
  const char *json; /* isthmus.target/1, as ir/target_text.h describes it; null: a common machine */
  void *user;       /* passed to the functions below */

  /* Sets `*bytes` to the memory that a kernel needs beside operands and results. `call` tells
   * the op, as in "sum(f64[2, 3]) {axes = [0]}". A function that fails returns a status other than ISTHMUS_OK and
   * writes a message of up to `capacity` bytes, its ending zero included. Null: no workspaces. */
  isthmus_status (*workspace)(void *user, const char *call, size_t length, int64_t *bytes,
                              char *message, size_t capacity);

  /* Runs the first step of the graph in the file `path`, .isth, and sets `values` to the outputs
   * named, which have one element each. `seed` is that of the options. Null: the errors of inverses
   * are not measured. */
  isthmus_status (*first_step)(void *user, const char *path, uint64_t seed,
                               const char *const *outputs, size_t num_outputs, double *values,
                               char *message, size_t capacity);
} isthmus_target;

typedef enum {
  ISTHMUS_NO_CHOICE = 0, /* with a memory limit: a plan within it; otherwise as ISTHMUS_NO_POLICY */
  ISTHMUS_NO_POLICY = 1, /* nothing is recomputed */
  ISTHMUS_SPEED = 2,
  ISTHMUS_MEMORY = 3,
  ISTHMUS_COLLECTION = 4, /* keeps `checkpoints`, or what is marked #checkpoint */
  ISTHMUS_BUDGET = 5,     /* a plan within budget_bytes or budget_share */
  ISTHMUS_AS_IS = 6 /* keeps the plan of a graph that was planned; others as ISTHMUS_NO_CHOICE */
} isthmus_policy;

/* Batch norm and dropout: training if the graph is differentiated, otherwise as the file says;
 * inference; as the file says, and no pass that changes rounding runs. */
typedef enum { ISTHMUS_BY_RULE = 0, ISTHMUS_EVAL = 1, ISTHMUS_AS_WRITTEN = 2 } isthmus_mode;

typedef enum {
  ISTHMUS_AUTO_LAYOUT = 0, /* what the target is faster with */
  ISTHMUS_CHANNELS_FIRST = 1,
  ISTHMUS_CHANNELS_LAST = 2
} isthmus_channels;

/* The element types of floating-point tensors. */
typedef enum { ISTHMUS_F32 = 0, ISTHMUS_F64 = 1, ISTHMUS_BF16 = 2, ISTHMUS_F16 = 3 } isthmus_float;

/* The alternatives to keeping a tensor, for plans within a budget. */
#define ISTHMUS_RECOMPUTE 1
#define ISTHMUS_INVERT 2 /* from results computed from it, which rounds */
#define ISTHMUS_FETCH 4  /* from the host's memory; needs a target with a link */
#define ISTHMUS_ENCODE 8 /* by keeping a smaller value instead, such as a mask */
#define ISTHMUS_CHUNK 16 /* by never making it whole: regions run part by part */

/* The options of `isthmus opt`, by its names where they are not its own. The same graph, options
 * and target give the same plan as there, byte for byte. A budget, checkpoints, ways, iterations or
 * host memory without what they go with are ISTHMUS_BAD_CALL. */
typedef struct {
  size_t size;

  const char *loss; /* as isthmus_graph_differentiate takes it */
  const char *wrt;  /* "params", "inputs", "all", or a list of names; null: params */
  int64_t class_axis;
  const int64_t *ignore_index; /* a label that does not count; null: none */
  int32_t keep_outputs; /* not 0: the model's outputs stay outputs of a step with a loss of a kind */
  int32_t mode;         /* isthmus_mode */
  int32_t precision;    /* isthmus_float; -1: the graph's own */
  int32_t layout;       /* isthmus_channels */

  int32_t policy;           /* isthmus_policy */
  const char *checkpoints;  /* names for ISTHMUS_COLLECTION; null: what is marked */
  int64_t budget_bytes;     /* the arena must not exceed it; -1: see budget_share */
  double budget_share;      /* of the peak without recomputation; 0: the least that is found */
  int64_t memory_limit_bytes; /* of parameters, inputs and arena together; -1: none */
  double max_added; /* the most that the plan may add, as a share of the step's cost; -1: no limit, and
                       for the least that is found 1 */

  uint32_t allow;           /* of ISTHMUS_RECOMPUTE and the others */
  double max_inverse_error; /* a tensor whose inverse has a larger error, as a share of its largest
                               element on the first step, is not inverted */
  uint64_t iterations;      /* of fixed points of sums marked #contraction; 0: they are not inverted */
  int64_t host_memory;      /* bytes for ISTHMUS_FETCH; -1: as much as needed */
  double link;              /* bytes a second to the host's memory; 0: the target's own */
  const char *costs;        /* isthmus.costs/1, measured times as `isthmus profile -o` writes them; null:
                               the target's estimates */

  const char *const *chunks; /* regions to run in chunks, each as "%logits:axis=0,chunks=8" */
  size_t num_chunks;
  int64_t micro_batches; /* parts of the batch in which the whole step runs; 0: it runs whole */

  double effort; /* as that of isthmus_plan_options, as are the five below */
  uint64_t seed; /* of the search, and of inputs that are drawn */
  isthmus_progress progress;
  void *user;
  double progress_seconds;
  const volatile int32_t *cancelled;

  /* A step over several devices (docs/stages.md), for which micro_batches is the number of its micro-batches; 0: four for
   * each stage, as far as there are examples. Without any of these it runs on the devices that the nodes name. */
  uint32_t stages;        /* 0: one for each of those devices */
  const char *schedule;   /* "gpipe", "1f1b", "interleaved", "zero-bubble"; null or "auto": the fastest */
  const char *checkpoint; /* "always", "except_last", "never"; null or "auto": as the budget has it */
  const char *devices;    /* where the stages run: "cpu:0,cpu:1"; null: cpu:0, cpu:1, ... */
  const char *balance;    /* shares of the cost, "2,1,1", or the values behind which stages end, "%h1,%h2";
                             null: equal shares */
  const char *batch_norm; /* "micro": of each of the micro_batches; null or "whole": of the whole batch */

  int64_t smallest_checkpoint; /* for ISTHMUS_MEMORY: bottlenecks of fewer elements are not kept; 1024 */

  const char *const *batch; /* the axes of inputs on which the examples are, each as "%x:axis=1", or "%mask:whole" for an input
                               without examples; null: as the command line has it */
  size_t num_batch;
} isthmus_compile_options;
/* All defaults: the graph's own loss by all parameters, no policy, recomputation alone, classes on
 * axis 1, errors of inverses up to 1e-3. `size` is sizeof(isthmus_compile_options). */
ISTHMUS_API void isthmus_compile_options_init(isthmus_compile_options *options, size_t size);

typedef struct isthmus_compiled isthmus_compiled;

/* Differentiates a forward graph, suits it to the target, plans, rewrites and places it. A graph
 * that was planned before is planned anew from its original, unless the policy is ISTHMUS_AS_IS.
 * `target` may be null: a common machine without workspaces. With ISTHMUS_CANNOT_BE_MET, `*compiled`
 * has figures and no graph. If the search is cancelled after a plan within the budget was found,
 * `*compiled` is the best plan until then, with ISTHMUS_OK. */
ISTHMUS_API isthmus_status isthmus_compile(const isthmus_graph *graph,
                                           const isthmus_compile_options *options,
                                           const isthmus_target *target,
                                           isthmus_compiled **compiled, isthmus_error **error);
ISTHMUS_API void isthmus_compiled_free(isthmus_compiled *compiled);

/* The graph, which is ready to run and to be saved. Its notes tell the choices of the compiler. */
ISTHMUS_API isthmus_status isthmus_compiled_graph(const isthmus_compiled *compiled,
                                                  isthmus_graph **graph, isthmus_error **error);

/* -1 and NaN: not known, as what a plan would promise if none was found. */
typedef struct {
  size_t size; /* set before the call */
  int64_t baseline_peak_bytes, predicted_peak_bytes, arena_bytes;
  int64_t persistent_bytes; /* of parameters and inputs, which lie outside of the arena */
  int64_t output_bytes;     /* of results and gradients, in the peak */
  int64_t host_bytes;
  int64_t lower_bound_bytes, smallest_budget_bytes;
  double recompute_overhead, lower_bound_overhead;
  uint64_t nodes, clones, transfers, inversions, encodings; /* 0 without a plan */
  uint64_t chunks; /* nodes that run a part of a region or put parts together */
} isthmus_compiled_figures;
ISTHMUS_API isthmus_status isthmus_compiled_get_figures(const isthmus_compiled *compiled,
                                                        isthmus_compiled_figures *figures,
                                                        isthmus_error **error);
/* Those of a device, of a step over several. */
typedef struct {
  const char *device;
  int64_t baseline_peak_bytes, predicted_peak_bytes, arena_bytes, persistent_bytes;
  double busy_seconds, wait_seconds; /* in a step, by simulation */
  uint64_t nodes;
} isthmus_device_figures;
/* The handle owns them; null for a step of one device. */
ISTHMUS_API const isthmus_device_figures *isthmus_compiled_devices(const isthmus_compiled *compiled,
                                                                   size_t *count);
/* The figures and more as JSON, as --report writes it (isthmus.report/1). */
ISTHMUS_API isthmus_status isthmus_compiled_report(const isthmus_compiled *compiled,
                                                   isthmus_text **text, isthmus_error **error);

/* The bytes in the arena while each node of the graph runs, in order; null without a graph, and for a step over several
 * devices, each of which has an arena of its own. */
ISTHMUS_API const int64_t *isthmus_compiled_live_bytes(const isthmus_compiled *compiled,
                                                       size_t *num_nodes);

/* Where the values that a node makes lie, and its workspace. */
typedef struct {
  const char *name; /* of the value, or of the node that has the workspace */
  uint32_t node;    /* counts the graph's nodes from 0 */
  int32_t is_workspace;
  int32_t is_on_host; /* the offset is one in host memory */
  int64_t bytes, offset; /* a view has the offset of what it views; -1: in an input's memory */
} isthmus_placed;
/* In the order of nodes. The handle owns them; null where isthmus_compiled_live_bytes is. */
ISTHMUS_API const isthmus_placed *isthmus_compiled_layout(const isthmus_compiled *compiled,
                                                          size_t *count);

/* --- Chunks: which part of a framework's graph may run chunk by chunk along an axis, so that its
 * inner values never exist whole; and in how many chunks. The framework tells how its ops may be
 * cut, and it rewrites and plans its graph itself. */

typedef struct isthmus_region_graph isthmus_region_graph;
ISTHMUS_API isthmus_status isthmus_region_graph_new(isthmus_region_graph **graph,
                                                    isthmus_error **error);
ISTHMUS_API void isthmus_region_graph_free(isthmus_region_graph *graph);

/* Flags of a value. */
#define ISTHMUS_IS_FLOAT 1 /* sums of it can be added up */
#define ISTHMUS_IS_KEPT 2  /* it has to exist whole: an output */
#define ISTHMUS_IS_LATE 4  /* a gradient of an output, or what follows from one */

/* Adds a value. Values are numbered from 0 on. `bytes` is what it takes: 0 for a view. */
ISTHMUS_API isthmus_status isthmus_region_graph_add_value(isthmus_region_graph *graph,
                                                          const int64_t *dims, size_t rank,
                                                          int64_t bytes, uint32_t flags,
                                                          isthmus_error **error);

/* Flags of an op. */
#define ISTHMUS_IS_WHOLE 1   /* it cannot be cut: it has an effect, or draws numbers */
#define ISTHMUS_IS_RESHAPE 2 /* its operand and its result have the same elements in one order */
#define ISTHMUS_IS_ADDITION 4 /* of two operands of the result's dims and type */

/* An axis of an operand or a result has a factor of its op, in the notation of einsum: where one is
 * cut, all axes with its factor are. Results without it are then sums over the chunks, and operands
 * without it are read whole. */
typedef struct {
  int32_t place; /* operand `place`, or result -1 - `place` */
  uint32_t axis;
  uint32_t factor;
  int64_t block; /* the elements for each unit of the factor, between which it may be cut */
} isthmus_factor;

/* Adds an op, after the ops whose results it reads. Ops are numbered from 0 on. */
ISTHMUS_API isthmus_status isthmus_region_graph_add_op(
    isthmus_region_graph *graph, const uint32_t *operands, size_t num_operands,
    const uint32_t *results, size_t num_results, const isthmus_factor *factors, size_t num_factors,
    uint32_t flags, isthmus_error **error);

/* A value is cut along an axis of [outer, inner] elements, in the inner ones. */
typedef struct {
  uint32_t value, axis;
  int64_t outer;
} isthmus_cut;
/* The cuts of a value from which a region may grow: along each of its axes, and within the parts of
 * it that are an axis of a neighbour. Writes up to `room` of them, and sets `*count` to all. */
ISTHMUS_API isthmus_status isthmus_region_graph_cuts(const isthmus_region_graph *graph,
                                                     uint32_t value, isthmus_cut *cuts, size_t room,
                                                     size_t *count, isthmus_error **error);

/* Sums over the chunks that are only added to each other, and the results of the ops that add
 * them: with the total of all, the result of the last of these ops. */
typedef struct {
  uint32_t sum, total;
} isthmus_total;

/* What grows from such a cut of a value, a result of an op. */
typedef struct isthmus_region isthmus_region;
ISTHMUS_API isthmus_status isthmus_region_grow(const isthmus_region_graph *graph, isthmus_cut cut,
                                               isthmus_region **region, isthmus_error **error);
ISTHMUS_API void isthmus_region_free(isthmus_region *region);

typedef struct {
  size_t size; /* set before the call */
  /* The most chunks: each is one or more of so many equal shares of all cut axes. 0: the value has
   * to exist whole, and the ops are those to which the region grew. */
  int64_t units;
  size_t num_ops, num_stops, num_cuts, num_totals;
  const uint32_t *ops;   /* in order */
  const uint32_t *stops; /* the ops that could not be cut, at which the region ends */
  /* How each value is cut that the ops read or make in chunks. Values that they read and that are
   * not here are read whole; results that are not here are sums over the chunks. */
  const isthmus_cut *cuts;
  const isthmus_total *totals;
} isthmus_region_parts;
/* Its parts, which the handle owns. */
ISTHMUS_API isthmus_status isthmus_region_get_parts(const isthmus_region *region,
                                                    isthmus_region_parts *parts,
                                                    isthmus_error **error);

/* What a plan of a graph, with or without chunks, is worth. */
typedef struct {
  int32_t is_within;   /* the plan is within the budget */
  int32_t is_too_dear; /* it adds more to the step's time than is allowed */
  double cost;         /* microseconds */
  int64_t bytes;       /* the peak; above a budget, the least that was found */
} isthmus_chunk_score;

typedef struct {
  int32_t is_smallest;   /* the fewest bytes are wanted; else the least cost within the budget */
  double bytes_for_time; /* with 0.1, one percent fewer bytes may cost ten percent; 0: anything */
} isthmus_chunk_goal;

/* 1 if `a` is better than `b` by so much that it is worth other chunks. */
ISTHMUS_API int32_t isthmus_chunk_score_is_better(const isthmus_chunk_goal *goal,
                                                  const isthmus_chunk_score *a,
                                                  const isthmus_chunk_score *b);

/* The search for the regions, and their numbers of chunks, with which a plan is best. `whole` is
 * of the plan without chunks. */
typedef struct isthmus_chunk_search isthmus_chunk_search;
ISTHMUS_API isthmus_status isthmus_chunk_search_new(const isthmus_chunk_goal *goal,
                                                    const isthmus_chunk_score *whole,
                                                    isthmus_chunk_search **search,
                                                    isthmus_error **error);
ISTHMUS_API void isthmus_chunk_search_free(isthmus_chunk_search *search);
/* Begins a round, with the regions that grow in the best graph so far; `most`: of each, the most
 * chunks. `*begins` is 0 if the search has ended: the round before found nothing better. */
ISTHMUS_API isthmus_status isthmus_chunk_search_begin(isthmus_chunk_search *search,
                                                      const int64_t *most, size_t num_regions,
                                                      int32_t *begins, isthmus_error **error);
/* The next trial of the round: a region and a number of chunks. That is 0 after the last trial. */
ISTHMUS_API isthmus_status isthmus_chunk_search_next(isthmus_chunk_search *search, size_t *region,
                                                     int64_t *chunks, isthmus_error **error);
/* What the plan of this trial is worth; null if there is no such graph. `*is_best` is 1 if no plan
 * so far is better. */
ISTHMUS_API isthmus_status isthmus_chunk_search_tell(isthmus_chunk_search *search,
                                                     const isthmus_chunk_score *score,
                                                     int32_t *is_best, isthmus_error **error);

#ifdef __cplusplus
}
#endif

#endif
