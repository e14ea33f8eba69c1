/* Running graphs of the text form on this machine's CPU, in one arena. A library of its own, since
 * it brings kernels along: it needs OpenMP's and oneDNN's libraries (libgomp.so.1, libdnnl.so.2).
 *
 *   isthmus_run_session *session;
 *   isthmus_run_options options;
 *   float loss;
 *   isthmus_run_options_init(&options, sizeof options);
 *   isthmus_run_open("step.isth", &options, &session, &error);
 *   isthmus_run_set(session, "x", ISTHMUS_RUN_F32, 2, sizes, x, &error);
 *   isthmus_run_step(session, 0, &error);
 *   isthmus_run_get(session, "loss", &loss, sizeof loss, &error);
 *
 * The manners are those of isthmus.h: every function that can fail returns a status, and where
 * `error` is not null, `*error` is an error to be freed. Strings are UTF-8. Nothing is printed, and
 * no process ended. Different threads may use different sessions at once. A process that was forked
 * after a step of more than one thread can run steps of one thread alone: OpenMP's threads are not
 * in it. */
#ifndef ISTHMUS_RUN_H
#define ISTHMUS_RUN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ISTHMUS_RUN_API __attribute__((visibility("default")))

/* As ISTHMUS_ABI_VERSION. */
#define ISTHMUS_RUN_ABI_VERSION 1
ISTHMUS_RUN_API int32_t isthmus_run_abi_version(void);
ISTHMUS_RUN_API const char *isthmus_run_version(void);

/* Numbered as isthmus_status. */
typedef enum {
  ISTHMUS_RUN_OK = 0,
  ISTHMUS_RUN_BAD_INPUT = 1,   /* what was given is wrong or unreadable */
  ISTHMUS_RUN_BAD_CALL = 2,    /* the call is wrong: null, a wrong size, a name of nothing */
  ISTHMUS_RUN_UNSUPPORTED = 4, /* right, but not supported */
  ISTHMUS_RUN_INTERNAL = 5     /* a bug of the library, or no memory is left */
} isthmus_run_status;

typedef struct isthmus_error isthmus_run_error;
ISTHMUS_RUN_API const char *isthmus_run_error_message(const isthmus_run_error *error);
ISTHMUS_RUN_API void isthmus_run_error_free(isthmus_run_error *error);

/* --- Sessions: a graph, what its inputs hold, and the memory that it runs in */

typedef struct isthmus_run_session isthmus_run_session;

typedef struct {
  size_t size;
  const char *device; /* "cpu" */
  int32_t threads;    /* 0: one for each core that this process may use */
  int32_t lowers; /* not 0: an original (a graph that was not planned) may be computed in the way
                     that is fastest here, with another rounding, as the command line does */
  uint64_t seed;  /* of what random ops draw, and of inputs that nothing is given for */
} isthmus_run_options;
/* All defaults: the CPU, all cores, the graph as it is written, seed 0. */
ISTHMUS_RUN_API void isthmus_run_options_init(isthmus_run_options *options, size_t size);

/* Of a file .isth, with its weights; and of a text that names no weights file. Memory is allocated
 * by the first step. */
ISTHMUS_RUN_API isthmus_run_status isthmus_run_open(const char *path,
                                                    const isthmus_run_options *options,
                                                    isthmus_run_session **session,
                                                    isthmus_run_error **error);
ISTHMUS_RUN_API isthmus_run_status isthmus_run_open_text(const char *text, size_t length,
                                                         const isthmus_run_options *options,
                                                         isthmus_run_session **session,
                                                         isthmus_run_error **error);
ISTHMUS_RUN_API void isthmus_run_close(isthmus_run_session *session);

/* Elements lie dense and in row-major order. */
typedef enum {
  ISTHMUS_RUN_F32 = 0,
  ISTHMUS_RUN_F64 = 1,
  ISTHMUS_RUN_BF16 = 2,
  ISTHMUS_RUN_F16 = 3,
  ISTHMUS_RUN_I32 = 4,
  ISTHMUS_RUN_I64 = 5,
  ISTHMUS_RUN_U8 = 6,
  ISTHMUS_RUN_BOOL = 7 /* a byte each */
} isthmus_run_dtype;

typedef enum {
  ISTHMUS_RUN_INPUT = 0,
  ISTHMUS_RUN_PARAM = 1, /* learned */
  ISTHMUS_RUN_STATE = 2, /* carried from step to step by whoever runs them: output `state.NAME` */
  ISTHMUS_RUN_CONST = 3,
  ISTHMUS_RUN_OUTPUT = 4
} isthmus_run_kind;

typedef struct {
  const char *name;
  int32_t kind, dtype, rank;
  const int64_t *sizes; /* `rank` of them */
  int64_t bytes;
} isthmus_run_tensor;

/* In the graph's order. They belong to the session, which may not be null. */
ISTHMUS_RUN_API const isthmus_run_tensor *isthmus_run_inputs(const isthmus_run_session *session,
                                                             size_t *count);
ISTHMUS_RUN_API const isthmus_run_tensor *isthmus_run_outputs(const isthmus_run_session *session,
                                                              size_t *count);

/* What an input holds from now on; the data is read before the call returns. Inputs that nothing is
 * given for hold what the graph says, else what the seed and their name draw. Floats may be given
 * as f32 to an input of any type of floats. */
ISTHMUS_RUN_API isthmus_run_status isthmus_run_set(isthmus_run_session *session, const char *name,
                                                   int32_t dtype, int32_t rank,
                                                   const int64_t *sizes, const void *data,
                                                   isthmus_run_error **error);
/* Runs the graph. Random ops draw by the seed and `number`: the same numbers, the same draws. */
ISTHMUS_RUN_API isthmus_run_status isthmus_run_step(isthmus_run_session *session, uint64_t number,
                                                    isthmus_run_error **error);
/* An output of the last step, of just so many bytes. */
ISTHMUS_RUN_API isthmus_run_status isthmus_run_get(const isthmus_run_session *session,
                                                   const char *name, void *to, size_t bytes,
                                                   isthmus_run_error **error);

/* Bytes that this machine's kernels have while they run, beside what they read and make: of each
 * input (0) and then of each node of the graph, as it was given. `count` is the number of both. */
ISTHMUS_RUN_API isthmus_run_status isthmus_run_workspaces(const isthmus_run_session *session,
                                                          int64_t *bytes, size_t count,
                                                          isthmus_run_error **error);

typedef struct {
  size_t size;                                       /* set before the call */
  int64_t predicted_peak_bytes, measured_peak_bytes; /* parameters and inputs left out */
  int64_t arena_bytes, persistent_bytes;
  double step_seconds; /* of the last one */
} isthmus_run_report;
/* After a step. */
ISTHMUS_RUN_API isthmus_run_status isthmus_run_figures(const isthmus_run_session *session,
                                                       isthmus_run_report *report,
                                                       isthmus_run_error **error);

#ifdef __cplusplus
}
#endif

#endif
