/* Running graphs of the text form on this machine's CPU, in one arena. This is a library of its
 * own, since it holds the kernels: it needs OpenMP's and oneDNN's libraries (libgomp.so.1,
 * libdnnl.so.2).
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
 * The conventions are those of isthmus.h: every function that can fail returns a status, and if
 * it is not ISTHMUS_RUN_OK and `error` is not null, `*error` receives an error that the caller
 * frees. Strings are UTF-8. The library prints nothing and ends no process. Different threads
 * may use different sessions at once. A process forked after a step of several threads can only
 * run steps of one thread, because OpenMP's threads do not exist in it. */
#ifndef ISTHMUS_RUN_H
#define ISTHMUS_RUN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ISTHMUS_RUN_API __attribute__((visibility("default")))

/* See ISTHMUS_ABI_VERSION. */
#define ISTHMUS_RUN_ABI_VERSION 3
ISTHMUS_RUN_API int32_t isthmus_run_abi_version(void);
ISTHMUS_RUN_API const char *isthmus_run_version(void);

/* Numbered as isthmus_status. */
typedef enum {
  ISTHMUS_RUN_OK = 0,
  ISTHMUS_RUN_BAD_INPUT = 1,   /* the input is wrong or unreadable */
  ISTHMUS_RUN_BAD_CALL = 2,    /* the call is wrong: a null pointer, a wrong size */
  ISTHMUS_RUN_UNSUPPORTED = 4, /* the input is valid, but not supported */
  ISTHMUS_RUN_INTERNAL = 5,    /* a bug of the library */
  ISTHMUS_RUN_OUT_OF_MEMORY = 7
} isthmus_run_status;

typedef struct isthmus_error isthmus_run_error;
ISTHMUS_RUN_API const char *isthmus_run_error_message(const isthmus_run_error *error);
ISTHMUS_RUN_API void isthmus_run_error_free(isthmus_run_error *error);

/* --- Sessions: a graph, the contents of its inputs, and the memory in which it runs */

typedef struct isthmus_run_session isthmus_run_session;

typedef struct {
  size_t size;
  const char *device; /* "cpu" */
  int32_t threads;    /* 0: one for each core that this process may use */
  int32_t lowers;     /* not 0: an original (a graph that was not planned) may be computed in the
                         fastest way on this machine, with another rounding, as the command line does */
  uint64_t seed;      /* of random ops, and of inputs that were not set */
} isthmus_run_options;
/* All defaults: the CPU, all cores, the graph as it is written, seed 0. */
ISTHMUS_RUN_API void isthmus_run_options_init(isthmus_run_options *options, size_t size);

/* Opens a file .isth, with its weights, or a text that names no weights file. The first step
 * allocates the memory. */
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
  ISTHMUS_RUN_STATE = 2, /* carried from step to step by the caller: see next_of */
  ISTHMUS_RUN_CONST = 3,
  ISTHMUS_RUN_OUTPUT = 4
} isthmus_run_kind;

typedef struct {
  const char *name;
  int32_t kind, dtype, rank;
  const int64_t *sizes; /* `rank` of them */
  int64_t bytes;
  const char *next_of; /* of an output: the param or state whose value for the next step it is, or
                          null */
} isthmus_run_tensor;

/* Listed in the graph's order. The session owns them, and may not be null. */
ISTHMUS_RUN_API const isthmus_run_tensor *isthmus_run_inputs(const isthmus_run_session *session,
                                                             size_t *count);
ISTHMUS_RUN_API const isthmus_run_tensor *isthmus_run_outputs(const isthmus_run_session *session,
                                                              size_t *count);

/* Sets the contents of an input for this and later steps; the data is read before the call
 * returns. An input that was never set holds what the graph says, or else values drawn by the
 * seed and its name. Inputs of any float type accept f32. */
ISTHMUS_RUN_API isthmus_run_status isthmus_run_set(isthmus_run_session *session, const char *name,
                                                   int32_t dtype, int32_t rank,
                                                   const int64_t *sizes, const void *data,
                                                   isthmus_run_error **error);
/* Runs the graph. Random ops draw by the seed and `number`: equal numbers give equal draws. */
ISTHMUS_RUN_API isthmus_run_status isthmus_run_step(isthmus_run_session *session, uint64_t number,
                                                    isthmus_run_error **error);
/* Copies an output of the last step; `bytes` must be its exact size. */
ISTHMUS_RUN_API isthmus_run_status isthmus_run_get(const isthmus_run_session *session,
                                                   const char *name, void *to, size_t bytes,
                                                   isthmus_run_error **error);

typedef struct {
  size_t size;                                       /* set before the call */
  int64_t predicted_peak_bytes, measured_peak_bytes; /* without parameters and inputs */
  int64_t arena_bytes, persistent_bytes;
  double step_seconds; /* of the last step */
} isthmus_run_report;
/* Fails before the first step. */
ISTHMUS_RUN_API isthmus_run_status isthmus_run_figures(const isthmus_run_session *session,
                                                       isthmus_run_report *report,
                                                       isthmus_run_error **error);

/* --- The machine that graphs run on, for isthmus_compile (isthmus.h) */

struct isthmus_target;
/* Makes the target of a session with these options: its workspaces are those of the kernels here,
 * and its first step runs in a session. The caller frees it, after the last use. */
ISTHMUS_RUN_API isthmus_run_status isthmus_run_target(const isthmus_run_options *options,
                                                      struct isthmus_target **target,
                                                      isthmus_run_error **error);
ISTHMUS_RUN_API void isthmus_run_target_free(struct isthmus_target *target);

#ifdef __cplusplus
}
#endif

#endif
