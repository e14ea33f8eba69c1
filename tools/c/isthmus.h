/* Isthmus in C: a planner for problems that any framework can fill in, and the rewrite of graphs in
 * the text form or in ONNX. C99 and C++; nothing of C++ crosses it.
 *
 *   isthmus_graph *forward, *step, *small;
 *   isthmus_problem *problem;
 *   isthmus_plan *plan;
 *   isthmus_plan_options options;
 *   isthmus_graph_load("model.onnx", "batch=32", &forward, &error);
 *   isthmus_graph_differentiate(forward, "cross_entropy", NULL, &step, &error);
 *   isthmus_problem_of_graph(step, NULL, &problem, &error);
 *   isthmus_plan_options_init(&options, sizeof options);
 *   options.budget_share = 0.5;
 *   isthmus_plan_make(problem, &options, &plan, &error);
 *   isthmus_graph_rematerialize(problem, plan, &small, &error);
 *   isthmus_graph_save(small, "small.onnx", &error);
 *
 * Every function that can fail returns a status; with one that is not ISTHMUS_OK, `*error`, where
 * `error` is not null, is an error to be freed, and what was to be made is null unless its function
 * says otherwise. Handles are owned by the caller, who frees each with the function of its kind
 * (null is allowed); what they point to lives as long as they do. Handles do not refer to one
 * another, and different threads may use different handles at once.
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
 * size, so that they can grow without one: what a program's smaller struct does not have is null, 0
 * or the default. */
#define ISTHMUS_ABI_VERSION 2
ISTHMUS_API int32_t isthmus_abi_version(void);
ISTHMUS_API const char *isthmus_version(void); /* "0.1.0" */

typedef enum {
  ISTHMUS_OK = 0,
  ISTHMUS_BAD_INPUT = 1,     /* what was given is wrong or unreadable */
  ISTHMUS_BAD_CALL = 2,      /* the call is wrong: null, a wrong size, handles that do not fit */
  ISTHMUS_CANNOT_BE_MET = 3, /* no plan within the budget was found */
  ISTHMUS_UNSUPPORTED = 4,   /* right, but not supported */
  ISTHMUS_INTERNAL = 5,      /* a bug of the library, or no memory is left */
  ISTHMUS_CANCELLED = 6      /* the progress function said so before a plan was found */
} isthmus_status;

typedef struct isthmus_error isthmus_error;
ISTHMUS_API const char *isthmus_error_message(const isthmus_error *error);
ISTHMUS_API void isthmus_error_free(isthmus_error *error);

/* Bytes that the library made. They are followed by a zero, which `length` does not count. */
typedef struct isthmus_text isthmus_text;
ISTHMUS_API const char *isthmus_text_data(const isthmus_text *text, size_t *length);
ISTHMUS_API void isthmus_text_free(isthmus_text *text);

/* --- Problems: ops with costs, the bytes they make, who reads them */

typedef struct isthmus_problem isthmus_problem;

typedef enum { ISTHMUS_FORWARD = 0, ISTHMUS_BACKWARD = 1, ISTHMUS_UPDATE = 2 } isthmus_phase;

/* Flags of an op. */
#define ISTHMUS_PINNED 1    /* always live and never run: parameters, inputs; not charged */
#define ISTHMUS_RUNS_ONCE 2 /* must not run again */

/* Which orders of first runs are allowed: any; only ops of the forward phase until the forward
 * outputs (outputs of that phase, and `forward_outputs`) are there; the order given. */
typedef enum { ISTHMUS_ANY_ORDER = 0, ISTHMUS_BY_PHASES = 1, ISTHMUS_AS_GIVEN = 2 } isthmus_order;

/* What an op does. A host copy is two pairs of ops: an offload, which goes to the host, and a
 * prefetch, which comes back, each with a start, which takes time on the link alone, and a wait,
 * whose first input is output 0 of the start. */
typedef enum {
  ISTHMUS_COMPUTES = 0,
  ISTHMUS_STARTS_OFFLOAD = 1,  /* reads outputs of one op, which stay live until the wait */
  ISTHMUS_WAITS_OFFLOAD = 2,   /* what it makes is on the host; starts of prefetches may read it */
  ISTHMUS_STARTS_PREFETCH = 3, /* reads such a wait; its outputs have the bytes of what returns */
  ISTHMUS_WAITS_PREFETCH = 4   /* makes them instances of what it is `of` */
} isthmus_kind;

#define ISTHMUS_NONE UINT32_MAX

/* Ops are numbered in an order in which all that an op reads comes before it. Lists of lists are
 * one list, and where the entries of each op begin in it: op i has those from begin[i] to
 * begin[i + 1] - 1, so `begin` has num_ops + 1 entries. Pointers that may be null say so.
 *
 * An op that makes no bytes of its own has one output, of 0 bytes: a view, the start of an offload,
 * a wait, and what makes nothing at all.
 *
 * Alternatives are ops that no schedule has to run, and that only alternatives may read: other
 * forms of an op, and host copies. One that is `of` another makes a new instance of all outputs of
 * that op, or of one, with the same bytes. They may come before what they read. */
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
  const int32_t *view_of; /* the input, counted within the op, whose bytes the op's result is; -1:
                             no view. Null: no op is a view. */
  size_t num_outputs;     /* of the problem: what must be there at the end */
  const uint32_t *output_op, *output_output; /* output_output null: output 0 of each */
  int32_t order;                             /* of isthmus_order */
  size_t num_forward_outputs;
  const uint32_t *forward_outputs;
  int64_t alignment; /* sizes are rounded up to it; 0: 1 */

  /* Donations: output donation_output[k] of the op takes over the bytes of its input
   * donation_input[k], both counted within the op, wherever that is its last reader and it is large
   * enough. They are tried in the order given. Null: none. */
  const size_t *donation_begin;
  const uint32_t *donation_output, *donation_input;

  const uint8_t *kind;   /* of isthmus_kind; null: all compute */
  const uint32_t *of_op; /* the op of which this is another form; ISTHMUS_NONE: of none. Null: no op
                            is one of another. */
  const uint32_t *of_output;   /* its output; ISTHMUS_NONE: all. Null: all, of each. */
  const double *transfer_time; /* of starts, microseconds; null: 0 */

  /* Inputs, each of something pinned, that the op overwrites, counted within the op: an output that
   * takes their place has 0 bytes. It runs once, after all that reads them or views of them. Null:
   * nothing is overwritten. */
  const size_t *overwrite_begin;
  const uint32_t *overwrite_input;
} isthmus_arrays;

ISTHMUS_API isthmus_status isthmus_problem_from_arrays(const isthmus_arrays *arrays,
                                                       isthmus_problem **problem,
                                                       isthmus_error **error);
/* Of the formats joint-graph/1 and joint-graph/2. */
ISTHMUS_API isthmus_status isthmus_problem_from_json(const char *json, size_t length,
                                                     isthmus_problem **problem,
                                                     isthmus_error **error);
ISTHMUS_API void isthmus_problem_free(isthmus_problem *problem);

/* --- Plans: schedules, lists of ops as they run; an op that comes again is a recomputation */

typedef struct isthmus_plan isthmus_plan;

/* False (0) cancels the search. Called on the thread that plans. */
typedef int32_t (*isthmus_progress)(void *user, double share, double best_cost);

typedef struct {
  size_t size;
  int64_t budget_bytes; /* what peak must not exceed; -1: see budget_share */
  double budget_share;  /* of the peak without recomputation; 0: the least that is found */
  double effort;        /* about seconds of one common core, the same plan on every machine; 0: by
                           the number of ops */
  uint64_t seed;
  isthmus_progress progress; /* null: none */
  void *user;                /* handed to it */
  int32_t place; /* not 0: the arena of isthmus_plan_layout stays within the budget, not only the
                    peak; for who places as that says. Searching takes longer. */
  double progress_seconds; /* so long at least between two calls of `progress`; 0: as they come */
} isthmus_plan_options;
/* All defaults: the least peak, effort by size, seed 0. `size` is sizeof(isthmus_plan_options). */
ISTHMUS_API void isthmus_plan_options_init(isthmus_plan_options *options, size_t size);

/* With ISTHMUS_CANNOT_BE_MET the plan is that of the least peak found. A search that was cancelled
 * once there was a plan within the budget gives the best until then, and ISTHMUS_OK. */
ISTHMUS_API isthmus_status isthmus_plan_make(const isthmus_problem *problem,
                                             const isthmus_plan_options *options,
                                             isthmus_plan **plan, isthmus_error **error);
/* Somebody else's schedule, judged. */
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
  double
      lower_bound_cost; /* of schedules whose first runs are in this one's order; NaN: not known */
  uint64_t recomputed, transfers;
} isthmus_figures;
ISTHMUS_API isthmus_status isthmus_plan_figures(const isthmus_plan *plan, isthmus_figures *figures,
                                                isthmus_error **error);

/* The same and more as JSON, with the keys of the command line's --report (isthmus.report/1). What
 * is not known is null: `arena_bytes` as long as the plan has no layout. */
ISTHMUS_API isthmus_status isthmus_plan_report(const isthmus_problem *problem,
                                               const isthmus_plan *plan, isthmus_text **text,
                                               isthmus_error **error);

/* Where in the arena something lies, and in which steps of the schedule: from the first to the
 * last, both included. */
typedef struct {
  uint32_t op;     /* that the first step runs */
  uint32_t output; /* of the op, of which this is an instance; ISTHMUS_NONE: its workspace */
  uint32_t first_step, last_step;
  int64_t bytes, offset;
} isthmus_block;

/* Places all that the plan of this problem makes: an instance for each output of each step, in
 * order, and the workspace after those of its step. Views, starts of offloads and waits for
 * prefetches make no instances of their own; one of 0 bytes lies at 0. What is live at once does
 * not overlap, but for an instance whose bytes were donated: it lies where the one that it takes
 * over does, which ends at the step where it begins. The blocks belong to the plan; they are found
 * by the first call, which may take as long as the search. */
ISTHMUS_API isthmus_status isthmus_plan_layout(const isthmus_problem *problem, isthmus_plan *plan,
                                               const isthmus_block **blocks, size_t *num_blocks,
                                               int64_t *arena_bytes, isthmus_error **error);

/* --- Graphs, of the text form (docs/language.md) or of ONNX */

typedef struct isthmus_graph isthmus_graph;

ISTHMUS_API isthmus_status isthmus_graph_from_text(const char *text, size_t length,
                                                   isthmus_graph **graph, isthmus_error **error);
/* Of a file .isth or .onnx. `sizes` binds the sizes that an ONNX model leaves open, as
 * "batch=32,length=128"; null: none. */
ISTHMUS_API isthmus_status isthmus_graph_load(const char *path, const char *sizes,
                                              isthmus_graph **graph, isthmus_error **error);
/* As .isth or .onnx, by the end of the path, whole or not at all. Large weights go to a file beside
 * it, NAME.safetensors or NAME.onnx.data. */
ISTHMUS_API isthmus_status isthmus_graph_save(const isthmus_graph *graph, const char *path,
                                              isthmus_error **error);
ISTHMUS_API void isthmus_graph_free(isthmus_graph *graph);

/* The training step: `loss` as the command line's --loss, or null for what the graph names; `wrt` a
 * list of names, or null for all parameters. */
ISTHMUS_API isthmus_status isthmus_graph_differentiate(const isthmus_graph *graph, const char *loss,
                                                       const char *wrt, isthmus_graph **step,
                                                       isthmus_error **error);
/* What a machine needs beyond what the graph says. */
typedef struct {
  size_t size;
  size_t num_ops;           /* of the problem */
  const int64_t *workspace; /* of each, bytes that are live while it runs; isthmus_run_workspaces
                               tells those of the machine that runs graphs here. Null: none */
} isthmus_target;

/* The problem of the graph's original: sizes rounded up to 64 bytes, costs by a roofline of a
 * common machine. Its ops are the graph's inputs and then its nodes. `target` may be null: no
 * workspaces. */
ISTHMUS_API isthmus_status isthmus_problem_of_graph(const isthmus_graph *graph,
                                                    const isthmus_target *target,
                                                    isthmus_problem **problem,
                                                    isthmus_error **error);
/* What the plan of a problem that was made of a graph makes of that graph. */
ISTHMUS_API isthmus_status isthmus_graph_rematerialize(const isthmus_problem *problem,
                                                       const isthmus_plan *plan,
                                                       isthmus_graph **graph,
                                                       isthmus_error **error);

/* Notes are what a user should know of how isthmus_graph_load read an ONNX model, a line each; none
 * of a graph that was made in another way. */
typedef enum { ISTHMUS_TEXT = 0, ISTHMUS_DOT = 1, ISTHMUS_NOTES = 2 } isthmus_form;
/* `form` is of isthmus_form. */
ISTHMUS_API isthmus_status isthmus_graph_print(const isthmus_graph *graph, int32_t form,
                                               isthmus_text **text, isthmus_error **error);

#ifdef __cplusplus
}
#endif

#endif
