/* Tests wrong calls of the C library: nulls, sizes that no struct has, handles that do not belong
 * together, input that ends too early, searches that are cancelled. Each call gives an error with a
 * reason, and leaves nothing in memory. Input lies in blocks of its exact size, so that a memory
 * checker sees a read beyond its end. */

#define LIBRARY isthmus

#include "tests/doors/expect.h"
#include "tests/doors/problems.h"
#include "tools/c/isthmus.h"
#include <math.h>
#include <stddef.h>
#include <stdint.h>

/* A step of three layers: 0 is an input, 1 to 3 are forward, 4 to 6 backward. */
static const char kJson[] =
    "{\"format\": \"joint-graph/2\", \"name\": \"layers\", \"nodes\": ["
    "{\"id\": 0, \"op\": \"input\", \"phase\": \"forward\", \"inputs\": [], \"bytes\": 64,"
    " \"cost\": 0, \"persistent\": true}, "
    "{\"id\": 1, \"op\": \"f\", \"phase\": \"forward\", \"inputs\": [0], \"bytes\": 640,"
    " \"cost\": 2}, "
    "{\"id\": 2, \"op\": \"f\", \"phase\": \"forward\", \"inputs\": [1], \"bytes\": 640,"
    " \"cost\": 2}, "
    "{\"id\": 3, \"op\": \"f\", \"phase\": \"forward\", \"inputs\": [2], \"bytes\": 640,"
    " \"cost\": 2, \"name\": \"\\u00e9\"}, "
    "{\"id\": 4, \"op\": \"g\", \"phase\": \"backward\", \"inputs\": [3, 2], \"bytes\": 640,"
    " \"cost\": 4}, "
    "{\"id\": 5, \"op\": \"g\", \"phase\": \"backward\", \"inputs\": [4, 1], \"bytes\": 640,"
    " \"cost\": 4}, "
    "{\"id\": 6, \"op\": \"g\", \"phase\": \"backward\", \"inputs\": [5, 0], \"bytes\": 64,"
    " \"cost\": 4}], \"outputs\": [6]}";
enum { kOps = 7 };

static const char kText[] = "isthmus 2\n"
                            "graph @net {\n"
                            "  input %x : f32[8, 16]\n"
                            "  param %w : f32[16, 16] = normal {std = 0.05, seed = 1}\n"
                            "  %a = matmul(%x, %w)\n"
                            "  %b = gelu(%a)\n"
                            "  output %b\n"
                            "}\n";

static isthmus_problem *layers(void) {
  isthmus_problem *problem = NULL;
  EXPECT(isthmus_problem_from_json(kJson, sizeof kJson - 1, &problem, NULL) == ISTHMUS_OK);
  return problem;
}

static isthmus_graph *net(void) {
  isthmus_graph *graph = NULL;
  EXPECT(isthmus_graph_from_text(kText, sizeof kText - 1, &graph, NULL) == ISTHMUS_OK);
  return graph;
}

static isthmus_plan *planned(const isthmus_problem *problem, double share) {
  isthmus_plan *plan = NULL;
  isthmus_plan_options options;
  isthmus_plan_options_init(&options, sizeof options);
  options.budget_share = share;
  options.effort = 0.01;
  EXPECT(isthmus_plan_make(problem, &options, &plan, NULL) == ISTHMUS_OK);
  return plan;
}

/* A copy that nothing follows, not even a zero. */
static void *copied(const void *data, size_t length) {
  void *const copy = malloc(length ? length : 1);
  memcpy(copy, data, length);
  return copy;
}

#define EXPECT_NULL(call, name) EXPECT_ERROR(call, ISTHMUS_BAD_CALL, "'" name "' is null")

static void testNullsOfProblems(void) {
  isthmus_problem *problem = NULL;
  isthmus_text *text = NULL;
  isthmus_arrays arrays;
  memset(&arrays, 0, sizeof arrays);
  arrays.size = sizeof arrays;
  EXPECT_NULL(isthmus_problem_from_arrays(NULL, &problem, &error), "arrays");
  EXPECT_NULL(isthmus_problem_from_arrays(&arrays, NULL, &error), "problem");
  EXPECT_NULL(isthmus_problem_from_json(NULL, 8, &problem, &error), "json");
  EXPECT_NULL(isthmus_problem_from_json(kJson, sizeof kJson - 1, NULL, &error), "problem");
  EXPECT_NULL(isthmus_problem_print(NULL, ISTHMUS_OPS, &text, &error), "problem");
  EXPECT_NULL(isthmus_problem_live_bytes(NULL, NULL, 0, NULL, &error), "problem");
  EXPECT(!problem);
}

static void testNullsOfPlans(const isthmus_problem *problem, isthmus_plan *plan) {
  isthmus_page_options page = {sizeof page};
  isthmus_plan *other = plan; /* which a call that fails makes null */
  isthmus_plan_options options;
  isthmus_figures figures;
  isthmus_text *text = NULL;
  const isthmus_block *blocks = NULL;
  const uint32_t order[kOps] = {0};
  size_t count = 7;
  int64_t bytes = 0;
  isthmus_plan_options_init(&options, sizeof options);
  isthmus_plan_options_init(NULL, sizeof options);
  figures.size = sizeof figures;
  EXPECT_NULL(isthmus_plan_make(NULL, &options, &other, &error), "problem");
  EXPECT(!other);
  EXPECT_NULL(isthmus_plan_make(problem, NULL, &other, &error), "options");
  EXPECT_NULL(isthmus_plan_make(problem, &options, NULL, &error), "plan");
  EXPECT_NULL(isthmus_plan_from_schedule(NULL, order, kOps, &other, &error), "problem");
  EXPECT_NULL(isthmus_plan_from_schedule(problem, NULL, kOps, &other, &error), "ops");
  EXPECT_NULL(isthmus_plan_from_schedule(problem, order, kOps, NULL, &error), "plan");
  EXPECT(!isthmus_plan_schedule(NULL, &count) && count == 0);
  EXPECT(isthmus_plan_schedule(plan, NULL));
  EXPECT_NULL(isthmus_plan_figures(NULL, &figures, &error), "plan");
  EXPECT_NULL(isthmus_plan_figures(plan, NULL, &error), "figures");
  EXPECT_NULL(isthmus_plan_report(NULL, plan, &text, &error), "problem");
  EXPECT_NULL(isthmus_plan_report(problem, NULL, &text, &error), "plan");
  EXPECT_NULL(isthmus_plan_report(problem, plan, NULL, &error), "text");
  EXPECT_NULL(isthmus_plan_page(NULL, plan, &page, &text, &error), "problem");
  EXPECT_NULL(isthmus_plan_page(problem, NULL, &page, &text, &error), "plan");
  EXPECT_NULL(isthmus_plan_page(problem, plan, NULL, &text, &error), "options");
  EXPECT_NULL(isthmus_plan_page(problem, plan, &page, NULL, &error), "page");
  EXPECT_NULL(isthmus_plan_layout(NULL, plan, &blocks, &count, &bytes, &error), "problem");
  EXPECT_NULL(isthmus_plan_layout(problem, NULL, &blocks, &count, &bytes, &error), "plan");
  EXPECT_NULL(isthmus_plan_layout(problem, plan, NULL, &count, &bytes, &error), "blocks");
  EXPECT_NULL(isthmus_plan_layout(problem, plan, &blocks, NULL, &bytes, &error), "num_blocks");
  EXPECT_NULL(isthmus_plan_layout(problem, plan, &blocks, &count, NULL, &error), "arena_bytes");
}

static void testNullsOfGraphs(void) {
  isthmus_graph *const graph = net();
  isthmus_graph *other = graph;
  isthmus_text *text = NULL;
  EXPECT_NULL(isthmus_graph_from_text(NULL, 8, &other, &error), "text");
  EXPECT(!other);
  EXPECT_NULL(isthmus_graph_from_text(kText, 8, NULL, &error), "graph");
  EXPECT_NULL(isthmus_graph_load(NULL, NULL, &other, &error), "path");
  EXPECT_NULL(isthmus_graph_load("g.isth", NULL, NULL, &error), "graph");
  EXPECT_NULL(isthmus_graph_save(NULL, "g.isth", &error), "graph");
  EXPECT_NULL(isthmus_graph_save(graph, NULL, &error), "path");
  EXPECT_NULL(isthmus_graph_differentiate(NULL, "mean", NULL, &other, &error), "graph");
  EXPECT_NULL(isthmus_graph_differentiate(graph, "mean", NULL, NULL, &error), "step");
  EXPECT_NULL(isthmus_graph_print(NULL, ISTHMUS_TEXT, &text, &error), "graph");
  EXPECT_NULL(isthmus_graph_print(graph, ISTHMUS_TEXT, NULL, &error), "text");
  isthmus_graph_free(graph);
}

static void testNullsOfCompiled(void) {
  isthmus_graph *const graph = net(), *step = graph;
  isthmus_compiled *compiled = NULL;
  isthmus_compile_options options;
  isthmus_compiled_figures figures;
  isthmus_text *text = NULL;
  isthmus_load_options load;
  size_t count = 7;
  int64_t bytes = 0;
  double share = 0;
  isthmus_compile_options_init(NULL, sizeof options);
  isthmus_compile_options_init(&options, sizeof options);
  options.loss = "mean";
  EXPECT_NULL(isthmus_compile(NULL, &options, NULL, &compiled, &error), "graph");
  EXPECT_NULL(isthmus_compile(graph, NULL, NULL, &compiled, &error), "options");
  EXPECT_NULL(isthmus_compile(graph, &options, NULL, NULL, &error), "compiled");
  EXPECT(!compiled);
  EXPECT(isthmus_compile(graph, &options, NULL, &compiled, NULL) == ISTHMUS_OK);
  EXPECT_NULL(isthmus_compiled_graph(NULL, &step, &error), "compiled");
  EXPECT(!step);
  EXPECT_NULL(isthmus_compiled_graph(compiled, NULL, &error), "graph");
  figures.size = sizeof figures;
  EXPECT_NULL(isthmus_compiled_get_figures(NULL, &figures, &error), "compiled");
  EXPECT_NULL(isthmus_compiled_get_figures(compiled, NULL, &error), "figures");
  EXPECT_NULL(isthmus_compiled_report(NULL, &text, &error), "compiled");
  EXPECT_NULL(isthmus_compiled_report(compiled, NULL, &error), "text");
  EXPECT(!isthmus_compiled_live_bytes(NULL, &count) && count == 0);
  EXPECT(isthmus_compiled_live_bytes(compiled, NULL));
  count = 7;
  EXPECT(!isthmus_compiled_layout(NULL, &count) && count == 0);
  EXPECT(isthmus_compiled_layout(compiled, NULL));
  isthmus_load_options_init(&load, sizeof load);
  load.num_dims = 1;
  EXPECT_NULL(isthmus_graph_load("g.onnx", &load, &step, &error), "o.dims");
  load.num_dims = 0;
  load.num_ties = 1;
  EXPECT_NULL(isthmus_graph_load("g.onnx", &load, &step, &error), "o.ties");
  EXPECT_NULL(isthmus_budget_parse(NULL, &bytes, &share, &error), "text");
  EXPECT_NULL(isthmus_budget_parse("min", NULL, &share, &error), "bytes");
  EXPECT_NULL(isthmus_budget_parse("min", &bytes, NULL, &error), "share");
  isthmus_compiled_free(compiled);
  isthmus_graph_free(graph);
}

/* Texts of a step over several devices that say nothing, or not together. */
static void testStagesThatAreNone(void) {
  isthmus_graph *const graph = net();
  isthmus_compiled *compiled = NULL;
  isthmus_compile_options options;
  size_t i;
  for (i = 0; i < 8; ++i) {
    static const char *const named[] = {"schedule expects one of gpipe",
                                        "checkpoint expects one of always",
                                        "a list of values to keep goes with checkpoints",
                                        "devices expects different devices",
                                        "balance expects shares",
                                        "balance gives 3 shares, for stages=2",
                                        "schedule=interleaved needs more stages",
                                        "batch_norm expects one of micro"};
    isthmus_compile_options_init(&options, sizeof options);
    options.loss = "mean";
    options.stages = 2;
    switch (i) {
    case 0:
      options.schedule = "gpip";
      break;
    case 1:
      options.checkpoint = "last";
      break;
    case 2:
      options.checkpoint = "%a,%b";
      break;
    case 3:
      options.devices = "cpu:0,cpu:0";
      break;
    case 4:
      options.balance = "1,%a";
      break;
    case 5:
      options.balance = "1,1,1";
      break;
    case 6:
      options.schedule = "interleaved";
      break;
    default:
      options.batch_norm = "none";
    }
    EXPECT_ERROR(isthmus_compile(graph, &options, NULL, &compiled, &error), ISTHMUS_BAD_INPUT,
                 named[i]);
    EXPECT(!compiled);
  }
  isthmus_compile_options_init(&options, sizeof options);
  options.batch_norm = "micro";
  EXPECT_ERROR(isthmus_compile(graph, &options, NULL, &compiled, &error), ISTHMUS_BAD_INPUT,
               "goes with a number of micro-batches");
  isthmus_graph_free(graph);
}

/* A program that was compiled against a smaller struct has none of these options. */
static void testSmallerOptions(void) {
  isthmus_graph *const graph = net();
  isthmus_compiled *compiled = NULL;
  isthmus_compile_options options;
  size_t count = 7;
  isthmus_compile_options_init(&options, sizeof options);
  options.loss = "mean";
  options.size = offsetof(isthmus_compile_options, stages);
  options.stages = 2;
  EXPECT(isthmus_compile(graph, &options, NULL, &compiled, NULL) == ISTHMUS_OK);
  EXPECT(!isthmus_compiled_devices(compiled, &count) && count == 0);
  isthmus_compiled_free(compiled);
  isthmus_graph_free(graph);
}

/* Options that are none of their enumerations, and numbers that are none. */
static void testOptionsThatAreNone(void) {
  isthmus_graph *const graph = net();
  isthmus_compiled *compiled = NULL;
  isthmus_compile_options options;
  size_t i;
  for (i = 0; i < 9; ++i) {
    static const char *const named[] = {"mode", "precision", "layout", "policy", "allow",
                                        "iterations", "budget_share", "link", "effort"};
    isthmus_compile_options_init(&options, sizeof options);
    switch (i) {
    case 0: options.mode = 3; break;
    case 1: options.precision = 9; break;
    case 2: options.layout = -1; break;
    case 3: options.policy = 77; break;
    case 4: options.allow = 0; break;
    case 5: options.iterations = 1; break;
    case 6: options.budget_share = NAN; break;
    case 7: options.link = -1; break;
    default: options.effort = INFINITY;
    }
    EXPECT_ERROR(isthmus_compile(graph, &options, NULL, &compiled, &error), ISTHMUS_BAD_CALL,
                 named[i]);
    EXPECT(!compiled);
  }
  isthmus_graph_free(graph);
}

static void testNullsOfTexts(void) {
  size_t length = 7;
  EXPECT(strcmp(isthmus_error_message(NULL), "") == 0);
  EXPECT(strcmp(isthmus_text_data(NULL, &length), "") == 0 && length == 0);
}

static void testSizesOfNoStruct(const isthmus_problem *problem, const isthmus_plan *plan) {
  const size_t sizes[] = {0, 1, 4096, (size_t)-1};
  isthmus_graph *const graph = net();
  isthmus_problem *made = NULL;
  isthmus_plan *other = NULL;
  isthmus_plan_options options;
  isthmus_arrays arrays;
  isthmus_target target;
  isthmus_figures figures;
  isthmus_compile_options compile;
  isthmus_load_options load;
  isthmus_compiled *compiled = NULL;
  isthmus_graph *loaded = NULL;
  size_t i;
  isthmus_compile_options_init(&compile, sizeof compile);
  isthmus_load_options_init(&load, sizeof load);
  memset(&arrays, 0, sizeof arrays);
  memset(&target, 0, sizeof target);
  isthmus_plan_options_init(&options, sizeof options);
  for (i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    arrays.size = target.size = figures.size = options.size = sizes[i];
    EXPECT_ERROR(isthmus_problem_from_arrays(&arrays, &made, &error), ISTHMUS_BAD_CALL,
                 "sizeof(isthmus_arrays)");
    EXPECT_ERROR(isthmus_compile(graph, &compile, &target, &compiled, &error), ISTHMUS_BAD_CALL,
                 "sizeof(isthmus_target)");
    compile.size = load.size = sizes[i];
    EXPECT_ERROR(isthmus_compile(graph, &compile, NULL, &compiled, &error), ISTHMUS_BAD_CALL,
                 "sizeof(isthmus_compile_options)");
    EXPECT_ERROR(isthmus_graph_load("g.onnx", &load, &loaded, &error), ISTHMUS_BAD_CALL,
                 "sizeof(isthmus_load_options)");
    compile.size = sizeof compile;
    EXPECT_ERROR(isthmus_plan_figures(plan, &figures, &error), ISTHMUS_BAD_CALL,
                 "sizeof(isthmus_figures)");
    EXPECT_ERROR(isthmus_plan_make(problem, &options, &other, &error), ISTHMUS_BAD_CALL,
                 "sizeof(isthmus_plan_options)");
  }
  /* Nor is anything written that is said to be smaller than its size. */
  options.size = 77;
  isthmus_plan_options_init(&options, 1);
  EXPECT(options.size == 77);
  EXPECT(!made && !other && !compiled && !loaded);
  isthmus_graph_free(graph);
}

static void testNumbersThatAreNone(const isthmus_problem *problem) {
  const double wrong[] = {-1, NAN, INFINITY};
  isthmus_plan_options options;
  isthmus_plan *plan = NULL;
  size_t i;
  for (i = 0; i < 3; ++i) {
    isthmus_plan_options_init(&options, sizeof options);
    options.effort = wrong[i];
    EXPECT_ERROR(isthmus_plan_make(problem, &options, &plan, &error), ISTHMUS_BAD_CALL, "'effort'");
    isthmus_plan_options_init(&options, sizeof options);
    options.budget_share = wrong[i];
    EXPECT_ERROR(isthmus_plan_make(problem, &options, &plan, &error), ISTHMUS_BAD_CALL,
                 "'budget_share'");
  }
}

/* Each field by turns, of a problem of two ops. */
static void testWrongArrays(void) {
  enum { kFields = 9 };
  static const char *const kParts[kFields] = {"cost",
                                              "workspace",
                                              "phase",
                                              "flags",
                                              "its lists end before they begin",
                                              "bytes",
                                              "reads op",
                                              "view",
                                              "an output of the problem"};
  static const int64_t kBytes[] = {10, 20};
  static const uint32_t kReads[] = {0};
  int field;
  for (field = 0; field < kFields; ++field) {
    double cost[] = {1, 2};
    int64_t workspace[] = {0, 0};
    int64_t *const bytes = copied(kBytes, sizeof kBytes);
    uint8_t phase[] = {0, 1}, flags[] = {0, 0};
    size_t outputs[] = {0, 1, 2}, inputs[] = {0, 0, 1};
    uint32_t *const reads = copied(kReads, sizeof kReads);
    uint32_t last[] = {1};
    int32_t views[] = {-1, -1};
    isthmus_problem *problem = NULL;
    isthmus_arrays a = problemOf(2, cost, outputs, bytes, inputs, reads, last);
    a.workspace = workspace;
    a.phase = phase;
    a.flags = flags;
    a.view_of = views;
    a.alignment = 64;
    EXPECT(isthmus_problem_from_arrays(&a, &problem, NULL) == ISTHMUS_OK);
    isthmus_problem_free(problem);
    problem = NULL;
    cost[1] = field == 0 ? -1 : 2;
    workspace[1] = field == 1 ? -8 : 0;
    phase[1] = field == 2 ? 9 : 1;
    flags[1] = field == 3 ? 64 : 0;
    outputs[1] = field == 4 ? 3 : 1;
    bytes[1] = field == 5 ? INT64_MAX : 20;
    reads[0] = field == 6 ? 4000000000u : 0;
    views[1] = field == 7 ? 5 : -1;
    last[0] = field == 8 ? 4000000000u : 1;
    EXPECT_ERROR(isthmus_problem_from_arrays(&a, &problem, &error), ISTHMUS_BAD_INPUT,
                 kParts[field]);
    EXPECT(!problem);
    free(bytes);
    free(reads);
  }
}

/* Counts that no array can have are errors before anything is read. */
static void testCountsWithoutEnd(const isthmus_problem *problem) {
  static const size_t kCounts[] = {SIZE_MAX, SIZE_MAX / 2 + 1, (size_t)1 << 40};
  const uint32_t ops[kOps] = {1, 2, 3, 4, 5, 6};
  const double cost[1] = {1};
  const int64_t bytes[1] = {64};
  size_t begin[2] = {0, 1}, none[2] = {0, 0};
  const uint32_t zero[1] = {0};
  size_t i;
  for (i = 0; i < sizeof kCounts / sizeof *kCounts; ++i) {
    const size_t count = kCounts[i];
    isthmus_problem *made = NULL;
    isthmus_plan *plan = NULL;
    isthmus_plan_options options;
    isthmus_arrays arrays = problemOf(1, cost, begin, bytes, none, zero, zero);
    EXPECT_ERROR(isthmus_plan_from_schedule(problem, ops, count, &plan, &error), ISTHMUS_BAD_CALL,
                 "'num_ops'");
    isthmus_plan_options_init(&options, count);
    EXPECT_ERROR(isthmus_plan_make(problem, &options, &plan, &error), ISTHMUS_BAD_CALL, "'size'");
    EXPECT(!plan);
    arrays.forward_outputs = zero;
    arrays.num_outputs = count;
    EXPECT_ERROR(isthmus_problem_from_arrays(&arrays, &made, &error), ISTHMUS_BAD_INPUT, "outputs");
    arrays.num_outputs = 1;
    arrays.num_forward_outputs = count;
    EXPECT_ERROR(isthmus_problem_from_arrays(&arrays, &made, &error), ISTHMUS_BAD_INPUT, "outputs");
    arrays.num_forward_outputs = 0;
    arrays.num_ops = count;
    EXPECT_ERROR(isthmus_problem_from_arrays(&arrays, &made, &error), ISTHMUS_BAD_INPUT, "ops");
    arrays.num_ops = 1;
    begin[1] = count + (count == (size_t)1 << 40);
    EXPECT_ERROR(isthmus_problem_from_arrays(&arrays, &made, &error), ISTHMUS_BAD_INPUT, "entries");
    begin[1] = 1;
    EXPECT(!made);
  }
  {
    isthmus_problem *made = NULL;
    isthmus_graph *graph = NULL;
    EXPECT_ERROR(isthmus_problem_from_json(kJson, SIZE_MAX, &made, &error), ISTHMUS_BAD_CALL,
                 "'length'");
    EXPECT_ERROR(isthmus_graph_from_text(kText, SIZE_MAX, &graph, &error), ISTHMUS_BAD_CALL,
                 "'length'");
  }
}

/* A flag cancels a search from elsewhere. */
static void testFlagThatCancels(const isthmus_problem *problem) {
  const volatile int32_t yes = 1, no = 0;
  isthmus_plan_options options;
  isthmus_plan *plan = NULL;
  isthmus_plan_options_init(&options, sizeof options);
  options.budget_share = 0.9;
  options.effort = 0.01;
  options.cancelled = &yes;
  EXPECT_ERROR(isthmus_plan_make(problem, &options, &plan, &error), ISTHMUS_CANCELLED, "cancelled");
  EXPECT(!plan);
  options.cancelled = &no;
  EXPECT(isthmus_plan_make(problem, &options, &plan, NULL) == ISTHMUS_OK);
  isthmus_plan_free(plan);
}

static void testJsonThatEndsTooEarly(void) {
  size_t length;
  for (length = 0; length < sizeof kJson - 1; ++length) {
    char *const part = copied(kJson, length);
    isthmus_problem *problem = NULL;
    EXPECT_ERROR(isthmus_problem_from_json(part, length, &problem, &error), ISTHMUS_BAD_INPUT,
                 "the problem");
    EXPECT(!problem);
    free(part);
  }
}

/* A graph that ends too early leaves nothing in memory. The last line break may be missing. */
static void testTextThatEndsTooEarly(void) {
  const size_t whole = sizeof kText - 1;
  size_t length;
  for (length = 0; length <= whole; ++length) {
    char *const part = copied(kText, length);
    isthmus_graph *graph = NULL;
    if (length + 1 < whole)
      EXPECT_ERROR(isthmus_graph_from_text(part, length, &graph, &error), ISTHMUS_BAD_INPUT,
                   "the text:");
    else
      EXPECT(isthmus_graph_from_text(part, length, &graph, NULL) == ISTHMUS_OK);
    EXPECT((graph != NULL) == (length + 1 >= whole));
    isthmus_graph_free(graph);
    free(part);
  }
}

/* Files of some lengths. What ends between two fields of the format is a shorter file, which
 * may be right. */
static void testModelsThatEndTooEarly(void) {
  const char *const folder = getenv("TEST_TMPDIR");
  isthmus_graph *const whole = net();
  char path[4096], data[65536];
  size_t size, length;
  int numWrong = 0;
  FILE *file;
  snprintf(path, sizeof path, "%s/part.onnx", folder ? folder : ".");
  EXPECT(isthmus_graph_save(whole, path, NULL) == ISTHMUS_OK);
  isthmus_graph_free(whole);
  file = fopen(path, "rb");
  size = fread(data, 1, sizeof data, file);
  fclose(file);
  EXPECT(size > 1024 && size < sizeof data);
  for (length = 0; length < size; length += 24) {
    isthmus_graph *graph = NULL;
    isthmus_error *error = NULL;
    isthmus_status status;
    file = fopen(path, "wb");
    EXPECT(fwrite(data, 1, length, file) == length);
    fclose(file);
    status = isthmus_graph_load(path, NULL, &graph, &error);
    EXPECT(status == ISTHMUS_OK || status == ISTHMUS_BAD_INPUT);
    EXPECT((status == ISTHMUS_OK) == (graph != NULL) && (status == ISTHMUS_OK) == (error == NULL));
    numWrong += status != ISTHMUS_OK;
    isthmus_error_free(error);
    isthmus_graph_free(graph);
  }
  EXPECT(numWrong > 50);
  remove(path);
}

static void testSchedulesThatAreNone(const isthmus_problem *problem) {
  static const uint32_t kUnknown[] = {1, 2, 3, 4, 5, 4000000000u}, kTooEarly[] = {2, 1},
                        kInput[] = {0, 1, 2, 3, 4, 5, 6};
  isthmus_plan *plan = NULL;
  EXPECT_ERROR(isthmus_plan_from_schedule(problem, kUnknown, 6, &plan, &error), ISTHMUS_BAD_INPUT,
               "the schedule is not valid");
  EXPECT_ERROR(isthmus_plan_from_schedule(problem, kTooEarly, 2, &plan, &error), ISTHMUS_BAD_INPUT,
               "the schedule is not valid");
  EXPECT_ERROR(isthmus_plan_from_schedule(problem, kInput, 7, &plan, &error), ISTHMUS_BAD_INPUT,
               "the schedule is not valid");
  EXPECT_ERROR(isthmus_plan_from_schedule(problem, NULL, 0, &plan, &error), ISTHMUS_BAD_INPUT,
               "the schedule is not valid");
  EXPECT(!plan);
}

/* A plan of one problem, with another; a step that is to be differentiated again. */
static void testHandlesThatDoNotFit(const isthmus_problem *problem, isthmus_plan *plan) {
  static const double cost[] = {0, 1};
  static const uint8_t flags[] = {ISTHMUS_PINNED, 0};
  static const size_t begin[] = {0, 1, 2}, reads[] = {0, 0, 1};
  static const int64_t made[] = {8, 8};
  static const uint32_t zero[] = {0}, one[] = {1};
  isthmus_graph *const graph = net();
  isthmus_graph *step = NULL, *small = NULL;
  isthmus_problem *other = NULL;
  isthmus_page_options page = {sizeof page};
  isthmus_plan *otherPlan;
  isthmus_text *text = NULL;
  const isthmus_block *blocks = NULL;
  size_t count = 0;
  int64_t bytes = 0;
  isthmus_arrays arrays = problemOf(2, cost, begin, made, reads, zero, one);
  arrays.flags = flags;
  EXPECT(isthmus_problem_from_arrays(&arrays, &other, NULL) == ISTHMUS_OK);
  otherPlan = planned(other, 1);
  EXPECT_ERROR(isthmus_plan_report(problem, otherPlan, &text, &error), ISTHMUS_BAD_CALL,
               "the plan is of another problem");
  EXPECT_ERROR(isthmus_plan_layout(other, plan, &blocks, &count, &bytes, &error), ISTHMUS_BAD_CALL,
               "the plan is of another problem");
  EXPECT_ERROR(isthmus_plan_page(problem, otherPlan, &page, &text, &error), ISTHMUS_BAD_CALL,
               "the plan is of another problem");
  page.beside = otherPlan;
  EXPECT_ERROR(isthmus_plan_page(problem, plan, &page, &text, &error), ISTHMUS_BAD_CALL,
               "the plan is of another problem");
  page.beside = NULL;
  page.snapshot = "no pickle";
  page.snapshot_length = 9;
  EXPECT_ERROR(isthmus_plan_page(problem, plan, &page, &text, &error), ISTHMUS_BAD_INPUT,
               "protocol 2 to 5");
  page.size = 1;
  EXPECT_ERROR(isthmus_plan_page(problem, plan, &page, &text, &error), ISTHMUS_BAD_CALL,
               "isthmus_page_options");
  EXPECT(isthmus_graph_differentiate(graph, "mean", NULL, &step, NULL) == ISTHMUS_OK);
  EXPECT_ERROR(isthmus_graph_differentiate(step, "mean", NULL, &small, &error), ISTHMUS_BAD_INPUT,
               "differentiated already");
  EXPECT(!small && !text && !blocks);
  isthmus_plan_free(otherPlan);
  isthmus_problem_free(other);
  isthmus_graph_free(step);
  isthmus_graph_free(graph);
}

typedef struct {
  int asked, after; /* the calls so far, and the number of the call that cancels */
} CancelAfter;

/* Calls the library, as a program may from here, also wrongly. */
static int32_t until(void *user, double share, double cost) {
  CancelAfter *const cancel = user;
  isthmus_problem *const problem = layers();
  isthmus_problem *other = problem;
  isthmus_plan_free(planned(problem, 1));
  isthmus_problem_free(problem);
  (void)share;
  (void)cost;
  EXPECT_NULL(isthmus_problem_from_json(NULL, 0, &other, &error), "json");
  EXPECT(!other);
  return ++cancel->asked < cancel->after;
}

/* At whatever question a search is cancelled, it ends there, and with a plan or without one. */
static void testCancelledSearches(void) {
  isthmus_problem *const problem = longChain();
  const int64_t budgets[] = {1, 2500, 1 << 20};
  size_t i;
  int after, numPlans = 0, numCancelled = 0;
  for (i = 0; i < 3; ++i)
    for (after = 1; after <= 9; after += 4) {
      CancelAfter cancel = {0, 0};
      isthmus_plan_options options;
      isthmus_plan *plan = NULL;
      isthmus_error *error = NULL;
      isthmus_status status;
      cancel.after = after;
      isthmus_plan_options_init(&options, sizeof options);
      options.budget_bytes = budgets[i];
      options.effort = 1e6; /* days */
      options.progress = until;
      options.user = &cancel;
      options.place = i == 1;
      status = isthmus_plan_make(problem, &options, &plan, &error);
      EXPECT(cancel.asked <= after);
      EXPECT((status == ISTHMUS_OK) == (plan != NULL) && (status == ISTHMUS_OK) == (error == NULL));
      if (status == ISTHMUS_CANCELLED)
        EXPECT(strstr(isthmus_error_message(error), "cancelled before a plan within"));
      numPlans += status == ISTHMUS_OK;
      numCancelled += status == ISTHMUS_CANCELLED;
      isthmus_error_free(error);
      isthmus_plan_free(plan);
    }
  EXPECT(numPlans + numCancelled == 9 && numPlans > 0 && numCancelled > 0);
  isthmus_problem_free(problem);
}

static void tests(void) {
  isthmus_problem *const problem = layers();
  isthmus_plan *const plan = planned(problem, 0.9);
  testNullsOfProblems();
  testNullsOfPlans(problem, plan);
  testNullsOfGraphs();
  testNullsOfCompiled();
  testOptionsThatAreNone();
  testStagesThatAreNone();
  testSmallerOptions();
  testNullsOfTexts();
  testSizesOfNoStruct(problem, plan);
  testNumbersThatAreNone(problem);
  testWrongArrays();
  testCountsWithoutEnd(problem);
  testFlagThatCancels(problem);
  testJsonThatEndsTooEarly();
  testTextThatEndsTooEarly();
  testModelsThatEndTooEarly();
  testSchedulesThatAreNone(problem);
  testHandlesThatDoNotFit(problem, plan);
  testCancelledSearches();
  isthmus_plan_free(plan);
  isthmus_problem_free(problem);
}

int main(int argc, char **argv) { return runTests(argc, argv, tests); }
