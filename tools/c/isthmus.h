/* Isthmus in C: a planner for problems that any framework can fill in, and the rewrite of graphs in
 * the text form. C99 and C++; nothing of C++ crosses it.
 *
 *   isthmus_graph *forward, *step, *small;
 *   isthmus_problem *problem;
 *   isthmus_plan *plan;
 *   isthmus_plan_options options;
 *   isthmus_graph_load("model.isth", &forward, &error);
 *   isthmus_graph_differentiate(forward, "cross_entropy", NULL, &step, &error);
 *   isthmus_problem_of_graph(step, &problem, &error);
 *   isthmus_plan_options_init(&options, sizeof options);
 *   options.budget_share = 0.5;
 *   isthmus_plan_make(problem, &options, &plan, &error);
 *   isthmus_graph_rematerialize(problem, plan, &small, &error);
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
 * size, so that they can grow without one. */
#define ISTHMUS_ABI_VERSION 1
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

/* Ops are numbered in an order in which all that an op reads comes before it. Lists of lists are
 * one list, and where the entries of each op begin in it: op i has those from begin[i] to
 * begin[i + 1] - 1, so `begin` has num_ops + 1 entries. Pointers that may be null say so. */
typedef struct {
  size_t size; /* sizeof(isthmus_arrays) */
  size_t num_ops;
  const double *cost;         /* microseconds */
  const int64_t *workspace;   /* bytes live while the op runs; null: none */
  const uint8_t *phase;       /* of isthmus_phase; null: forward */
  const uint8_t *flags;       /* null: none */
  const char *const *names;   /* for messages; null: numbers */
  const size_t *output_begin; /* an op that is a view has one output, of 0 bytes */
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
  int64_t smallest_peak_bytes; /* the least found; -1: not looked for */
  double baseline_cost, cost;  /* microseconds */
  double
      lower_bound_cost; /* of schedules whose first runs are in this one's order; NaN: not known */
  uint64_t recomputed, transfers;
} isthmus_figures;
ISTHMUS_API isthmus_status isthmus_plan_figures(const isthmus_plan *plan, isthmus_figures *figures,
                                                isthmus_error **error);

/* --- Graphs in the text form (docs/language.md) */

typedef struct isthmus_graph isthmus_graph;

ISTHMUS_API isthmus_status isthmus_graph_from_text(const char *text, size_t length,
                                                   isthmus_graph **graph, isthmus_error **error);
ISTHMUS_API isthmus_status isthmus_graph_load(const char *path, isthmus_graph **graph,
                                              isthmus_error **error);
ISTHMUS_API void isthmus_graph_free(isthmus_graph *graph);

/* The training step: `loss` as the command line's --loss, or null for what the graph names; `wrt` a
 * list of names, or null for all parameters. */
ISTHMUS_API isthmus_status isthmus_graph_differentiate(const isthmus_graph *graph, const char *loss,
                                                       const char *wrt, isthmus_graph **step,
                                                       isthmus_error **error);
/* The problem of the graph's original, for a common machine: sizes rounded up to 64 bytes, costs by
 * a roofline, no workspaces. Its ops are the graph's inputs and then its nodes. */
ISTHMUS_API isthmus_status isthmus_problem_of_graph(const isthmus_graph *graph,
                                                    isthmus_problem **problem,
                                                    isthmus_error **error);
/* What the plan of a problem that was made of a graph makes of that graph. */
ISTHMUS_API isthmus_status isthmus_graph_rematerialize(const isthmus_problem *problem,
                                                       const isthmus_plan *plan,
                                                       isthmus_graph **graph,
                                                       isthmus_error **error);

typedef enum { ISTHMUS_TEXT = 0, ISTHMUS_DOT = 1 } isthmus_form;
ISTHMUS_API isthmus_status isthmus_graph_print(const isthmus_graph *graph, isthmus_form form,
                                               isthmus_text **text, isthmus_error **error);

#ifdef __cplusplus
}
#endif

#endif
