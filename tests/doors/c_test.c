/* Tests the C library from a C program. */

#define LIBRARY isthmus

#include "tests/doors/expect.h"
#include "tests/doors/problems.h"
#include "tools/c/isthmus.h"
#include <math.h>
#include <stddef.h>

/* x -> a -> b -> c, each of 100 bytes, and backward ops d of c and b, e of d and a. */
enum { kOps = 6 };
static const double kCost[kOps] = {0, 2, 3, 5, 4, 4};
static const uint8_t kPhase[kOps] = {0, 0, 0, 0, 1, 1};
static const uint8_t kFlags[kOps] = {ISTHMUS_PINNED, 0, 0, 0, 0, 0};
static const size_t kOutputBegin[kOps + 1] = {0, 1, 2, 3, 4, 5, 6};
static const int64_t kOutputBytes[kOps] = {100, 100, 100, 100, 100, 10};
static const size_t kInputBegin[kOps + 1] = {0, 0, 1, 2, 3, 5, 7};
static const uint32_t kInputOp[7] = {0, 1, 2, 3, 2, 4, 1};
static const uint32_t kOutputOp[1] = {5};

static isthmus_arrays smallArrays(void) {
  isthmus_arrays a =
      problemOf(kOps, kCost, kOutputBegin, kOutputBytes, kInputBegin, kInputOp, kOutputOp);
  a.phase = kPhase;
  a.flags = kFlags;
  return a;
}

static void expectPart(isthmus_text *text, const char *part) {
  if (!strstr(isthmus_text_data(text, NULL), part)) {
    printf("expected '%s' in '%s'\n", part, isthmus_text_data(text, NULL));
    ++failures;
  }
  isthmus_text_free(text);
}

static void expectReport(const isthmus_problem *problem, const isthmus_plan *plan,
                         const char *part) {
  isthmus_text *text = NULL;
  EXPECT(isthmus_plan_report(problem, plan, &text, NULL) == ISTHMUS_OK);
  expectPart(text, part);
}

static void expectPrinted(const isthmus_problem *problem, int32_t form, const char *part) {
  isthmus_text *text = NULL;
  EXPECT(isthmus_problem_print(problem, form, &text, NULL) == ISTHMUS_OK);
  expectPart(text, part);
}

static int32_t never(void *user, double share, double cost) {
  (void)share;
  (void)cost;
  ++*(int *)user;
  return 0;
}

/* The plan of the problem above within 300 bytes. */
static void testReport(const isthmus_problem *problem, isthmus_plan *plan) {
  const isthmus_block *blocks = NULL;
  size_t count = 0;
  int64_t arena = 0;
  char expected[64];

  expectReport(problem, plan, "\"schema\": \"isthmus.report/1\"");
  expectReport(problem, plan, "\"arena_bytes\": null");
  expectReport(problem, plan, "\"baseline_peak_bytes\": 400");
  expectReport(problem, plan, "\"persistent_bytes\": 100");
  expectReport(problem, plan, "\"policy_used\": \"budget\"");
  EXPECT(isthmus_plan_layout(problem, plan, &blocks, &count, &arena, NULL) == ISTHMUS_OK);
  EXPECT(count >= kOps - 1 && arena >= 300);
  sprintf(expected, "\"arena_bytes\": %ld", (long)arena);
  expectReport(problem, plan, expected);
}

/* A program that was compiled when structs were smaller passes smaller sizes. */
static void testSmallerStructs(void) {
  isthmus_arrays arrays = smallArrays();
  isthmus_problem *problem = NULL;
  isthmus_plan *plan = NULL;
  isthmus_plan_options options;
  const size_t before = offsetof(isthmus_plan_options, place);
  arrays.size = offsetof(isthmus_arrays, donation_begin);
  arrays.donation_begin = (const size_t *)8; /* not of the struct that the program knows */
  EXPECT(isthmus_problem_from_arrays(&arrays, &problem, NULL) == ISTHMUS_OK);
  options.place = 77;
  isthmus_plan_options_init(&options, before);
  EXPECT(options.place == 77 && options.size == before);
  options.budget_share = 1;
  EXPECT(isthmus_plan_make(problem, &options, &plan, NULL) == ISTHMUS_OK);
  isthmus_plan_free(plan);
  options.size = sizeof options + 8;
  EXPECT_ERROR(isthmus_plan_make(problem, &options, &plan, &error), ISTHMUS_BAD_CALL,
               "sizeof(isthmus_plan_options)");
  options.size = before - 8;
  EXPECT_ERROR(isthmus_plan_make(problem, &options, &plan, &error), ISTHMUS_BAD_CALL, "'size'");
  arrays.size = sizeof arrays + 8;
  isthmus_problem_free(problem);
  EXPECT_ERROR(isthmus_problem_from_arrays(&arrays, &problem, &error), ISTHMUS_BAD_CALL,
               "sizeof(isthmus_arrays)");
}

static void testProblem(void) {
  const isthmus_arrays arrays = smallArrays();
  isthmus_problem *problem = NULL;
  isthmus_plan *plan = NULL, *again = NULL;
  isthmus_error *error = NULL;
  isthmus_plan_options options;
  isthmus_figures figures;
  size_t steps = 0, i;
  const uint32_t *schedule;
  double cost = 0;

  EXPECT(isthmus_problem_from_arrays(&arrays, &problem, &error) == ISTHMUS_OK);
  EXPECT(!error);
  isthmus_plan_options_init(&options, sizeof options);
  options.budget_bytes = 300; /* 400 are live in the order given, at op 4 */
  options.effort = 0.01;
  EXPECT(isthmus_plan_make(problem, &options, &plan, &error) == ISTHMUS_OK);
  figures.size = sizeof figures;
  EXPECT(isthmus_plan_figures(plan, &figures, &error) == ISTHMUS_OK);
  EXPECT(figures.baseline_peak_bytes == 400);
  EXPECT(figures.peak_bytes <= 300);
  EXPECT(figures.recomputed >= 1);
  EXPECT(figures.baseline_cost == 18 && figures.cost > 18);
  EXPECT(figures.output_bytes == 10);
  schedule = isthmus_plan_schedule(plan, &steps);
  EXPECT(steps > kOps - 1);
  for (i = 0; i < steps; ++i)
    cost += kCost[schedule[i]];
  EXPECT(cost == figures.cost);

  /* The judge says the same of the schedule alone. */
  EXPECT(isthmus_plan_from_schedule(problem, schedule, steps, &again, &error) == ISTHMUS_OK);
  EXPECT(isthmus_plan_figures(again, &figures, NULL) == ISTHMUS_OK);
  EXPECT(figures.cost == cost && figures.peak_bytes <= 300);
  isthmus_plan_free(again);
  EXPECT_ERROR(isthmus_plan_from_schedule(problem, schedule, steps - 1, &again, &error),
               ISTHMUS_BAD_INPUT, "the schedule is not valid");
  EXPECT(!again);
  testReport(problem, plan);
  isthmus_plan_free(plan);

  options.budget_bytes = 250;
  EXPECT_ERROR(isthmus_plan_make(problem, &options, &plan, &error), ISTHMUS_CANNOT_BE_MET,
               "(250 bytes) cannot be met");
  EXPECT(plan && isthmus_plan_figures(plan, &figures, NULL) == ISTHMUS_OK);
  EXPECT(figures.smallest_peak_bytes > 250);
  EXPECT(figures.lower_bound_bytes > 0 && figures.lower_bound_bytes <= figures.smallest_peak_bytes);
  isthmus_plan_free(plan);

  isthmus_problem_free(problem);
}

static void testPrints(void) {
  static const uint32_t kSteps[] = {1, 2, 3, 4, 5}, kWrong[] = {2, 1};
  isthmus_arrays arrays = smallArrays();
  isthmus_problem *problem = NULL;
  isthmus_text *text = NULL;
  int64_t live[5];
  arrays.name = "small \"one\"";
  EXPECT(isthmus_problem_from_arrays(&arrays, &problem, NULL) == ISTHMUS_OK);
  expectPrinted(problem, ISTHMUS_JOINT_GRAPH,
                "\"format\":\"joint-graph/2\",\"name\":\"small \\\"one\\\"\"");
  expectPrinted(problem, ISTHMUS_OPS, "\"name\":\"small \\\"one\\\"\"");
  EXPECT_ERROR(isthmus_problem_print(problem, 2, &text, &error), ISTHMUS_BAD_CALL,
               "'form' is 2, which is none of isthmus_problem_form");
  EXPECT(!text);
  EXPECT(isthmus_problem_live_bytes(problem, kSteps, 5, live, NULL) == ISTHMUS_OK);
  EXPECT(live[0] == 100 && live[3] == 400 && live[4] == 210);
  EXPECT_ERROR(isthmus_problem_live_bytes(problem, kWrong, 2, live, &error), ISTHMUS_BAD_INPUT,
               "the schedule is not valid");
  isthmus_problem_free(problem);
}

static void testWrongProblems(void) {
  isthmus_arrays a = smallArrays();
  isthmus_problem *problem = NULL;
  uint32_t later[7] = {0, 1, 3, 3, 2, 4, 1};
  double costs[kOps] = {0, 2, NAN, 5, 4, 4};
  int64_t bytes[kOps] = {100, 100, -1, 100, 100, 10};

  a.size = 8;
  EXPECT_ERROR(isthmus_problem_from_arrays(&a, &problem, &error), ISTHMUS_BAD_CALL, "'size'");
  a = smallArrays();
  a.input_op = later;
  EXPECT_ERROR(isthmus_problem_from_arrays(&a, &problem, &error), ISTHMUS_BAD_INPUT,
               "op 3: it reads op 3, which does not come before it");
  a = smallArrays();
  a.cost = costs;
  EXPECT_ERROR(isthmus_problem_from_arrays(&a, &problem, &error), ISTHMUS_BAD_INPUT, "cost");
  a = smallArrays();
  a.output_bytes = bytes;
  EXPECT_ERROR(isthmus_problem_from_arrays(&a, &problem, &error), ISTHMUS_BAD_INPUT, "-1 bytes");
  a = smallArrays();
  a.cost = NULL;
  EXPECT_ERROR(isthmus_problem_from_arrays(&a, &problem, &error), ISTHMUS_BAD_INPUT, "null");
  EXPECT_ERROR(isthmus_problem_from_arrays(NULL, &problem, &error), ISTHMUS_BAD_CALL,
               "'arrays' is null");
  EXPECT(isthmus_problem_from_arrays(&a, &problem, NULL) ==
         ISTHMUS_BAD_INPUT); /* nobody asks why */
  EXPECT_ERROR(isthmus_problem_from_json("[1, 2", 5, &problem, &error), ISTHMUS_BAD_INPUT,
               "the problem");
  EXPECT(!problem);
}

static const char kMlp[] = "isthmus 2\n"
                           "graph @mlp {\n"
                           "  input %x : f32[64, 256]\n"
                           "  param %w : f32[256, 256] = normal {std = 0.05, seed = 1}\n"
                           "  %a = matmul(%x, %w)\n"
                           "  %b = gelu(%a)\n"
                           "  %c = matmul(%b, %w)\n"
                           "  %d = gelu(%c)\n"
                           "  %e = matmul(%d, %w)\n"
                           "  %f = gelu(%e)\n"
                           "  output %f\n"
                           "}\n";

static int32_t always(void *user, double share, double cost) {
  return never(user, share, cost) + 1;
}

/* The search asks thousands of times. */
static void testProgressPause(const isthmus_problem *problem) {
  isthmus_plan *plan = NULL;
  isthmus_plan_options options;
  int asked = 0, askedOften = 0;
  isthmus_plan_options_init(&options, sizeof options);
  options.effort = 0.5;
  options.progress = always;
  options.user = &askedOften;
  EXPECT(isthmus_plan_make(problem, &options, &plan, NULL) == ISTHMUS_OK && askedOften > 1);
  isthmus_plan_free(plan);
  options.user = &asked;
  options.progress_seconds = 1e300;
  EXPECT(isthmus_plan_make(problem, &options, &plan, NULL) == ISTHMUS_OK && asked == 1);
  isthmus_plan_free(plan);
  options.progress_seconds = -1;
  EXPECT_ERROR(isthmus_plan_make(problem, &options, &plan, &error), ISTHMUS_BAD_CALL,
               "'progress_seconds'");
}

/* The search would take days. */
static void testCancelled(const isthmus_problem *problem) {
  isthmus_plan *plan = NULL;
  isthmus_plan_options options;
  int asked = 0;
  isthmus_status got;
  isthmus_plan_options_init(&options, sizeof options);
  options.budget_share = 0.9;
  options.effort = 1e6;
  options.progress = never;
  options.user = &asked;
  got = isthmus_plan_make(problem, &options, &plan, NULL);
  EXPECT(asked == 1);
  EXPECT(got == (plan ? ISTHMUS_OK : ISTHMUS_CANCELLED));
  isthmus_plan_free(plan);
}

/* Saved and loaded, in both formats, a graph is the same: it prints the same. */
static void testFiles(const isthmus_graph *graph) {
  const char *const folder = getenv("TEST_TMPDIR");
  const char *const names[] = {"graph.isth", "graph.onnx"};
  isthmus_graph *loaded = NULL;
  isthmus_text *before = NULL, *after = NULL;
  isthmus_load_options options;
  const isthmus_dim wrong = {"batch", 0};
  char path[4096];
  size_t i;
  EXPECT(isthmus_graph_print(graph, ISTHMUS_TEXT, &before, NULL) == ISTHMUS_OK);
  for (i = 0; i < 2; ++i) {
    snprintf(path, sizeof path, "%s/%s", folder ? folder : ".", names[i]);
    EXPECT(isthmus_graph_save(graph, path, NULL) == ISTHMUS_OK);
    EXPECT(isthmus_graph_load(path, NULL, &loaded, NULL) == ISTHMUS_OK);
    EXPECT(isthmus_graph_print(loaded, ISTHMUS_TEXT, &after, NULL) == ISTHMUS_OK);
    /* A model holds drawn weights as data: from the first node on the text is the same. */
    EXPECT(strcmp(strstr(isthmus_text_data(before, NULL), "%a = "),
                  strstr(isthmus_text_data(after, NULL), "%a = ")) == 0);
    isthmus_text_free(after);
    isthmus_graph_free(loaded);
    remove(path);
  }
  isthmus_text_free(before);
  EXPECT_ERROR(isthmus_graph_save(graph, "graph.txt", &error), ISTHMUS_BAD_INPUT,
               "neither an .onnx nor an .isth");
  EXPECT_ERROR(isthmus_graph_save(graph, "-", &error), ISTHMUS_BAD_INPUT, "neither");
  EXPECT_ERROR(isthmus_graph_save(graph, "/no/such/folder/g.isth", &error), ISTHMUS_BAD_INPUT,
               "/no/such/folder");
  EXPECT_ERROR(isthmus_graph_load("-", NULL, &loaded, &error), ISTHMUS_BAD_INPUT, "neither");
  EXPECT_ERROR(isthmus_graph_load("/no/such.onnx", NULL, &loaded, &error), ISTHMUS_BAD_INPUT,
               "/no/such.onnx");
  isthmus_load_options_init(&options, sizeof options);
  options.num_dims = 1;
  options.dims = &wrong;
  EXPECT_ERROR(isthmus_graph_load("/no/such.onnx", &options, &loaded, &error), ISTHMUS_BAD_INPUT,
               "from 1 on");
  EXPECT_ERROR(isthmus_graph_load("/no/such.isth", &options, &loaded, &error), ISTHMUS_BAD_CALL,
               "constant");
  EXPECT(!loaded);
}

/* A machine whose kernels need a workspace for every product. It counts the calls. */
static isthmus_status workspaceOf(void *user, const char *call, size_t length, int64_t *bytes,
                                  char *message, size_t capacity) {
  (void)message;
  (void)capacity;
  EXPECT(strlen(call) == length);
  ++*(int *)user;
  *bytes = strncmp(call, "matmul(", 7) == 0 ? 4096 : 0;
  return ISTHMUS_OK;
}

static isthmus_status noWorkspace(void *user, const char *call, size_t length, int64_t *bytes,
                                  char *message, size_t capacity) {
  (void)user;
  (void)call;
  (void)length;
  *bytes = 0;
  snprintf(message, capacity, "this machine has no kernels");
  return ISTHMUS_UNSUPPORTED;
}

static int64_t baselineOn(const isthmus_graph *graph, const isthmus_compile_options *options,
                          const isthmus_target *target) {
  isthmus_compiled *compiled = NULL;
  isthmus_compiled_figures figures;
  figures.size = sizeof figures;
  EXPECT(isthmus_compile(graph, options, target, &compiled, NULL) == ISTHMUS_OK);
  EXPECT(isthmus_compiled_get_figures(compiled, &figures, NULL) == ISTHMUS_OK);
  isthmus_compiled_free(compiled);
  return figures.baseline_peak_bytes;
}

static void testTargets(const isthmus_graph *forward) {
  isthmus_compile_options options;
  isthmus_compiled *compiled = NULL;
  isthmus_target target;
  int calls = 0;
  isthmus_compile_options_init(&options, sizeof options);
  options.loss = "mean";
  memset(&target, 0, sizeof target);
  target.size = sizeof target;
  EXPECT(baselineOn(forward, &options, NULL) == baselineOn(forward, &options, &target));
  target.workspace = workspaceOf;
  target.user = &calls;
  EXPECT(baselineOn(forward, &options, NULL) + 4096 == baselineOn(forward, &options, &target));
  EXPECT(calls > 2 && calls < 20); /* once for each kind of call */
  target.workspace = noWorkspace;
  EXPECT_ERROR(isthmus_compile(forward, &options, &target, &compiled, &error), ISTHMUS_UNSUPPORTED,
               "this machine has no kernels");
  target.workspace = NULL;
  target.json = "{\"schema\": \"isthmus.target/1\", \"name\": \"coarse\", \"alignment\": 65536}";
  EXPECT(baselineOn(forward, &options, NULL) < baselineOn(forward, &options, &target));
  target.json = "{\"schema\": \"isthmus.target/1\", \"name\": \"slow\", \"flops_per_second\": -1}";
  EXPECT_ERROR(isthmus_compile(forward, &options, &target, &compiled, &error), ISTHMUS_BAD_INPUT,
               "flops_per_second");
  target.json = "{}";
  EXPECT_ERROR(isthmus_compile(forward, &options, &target, &compiled, &error), ISTHMUS_BAD_INPUT,
               "isthmus.target/1");
  EXPECT(!compiled);
}

/* The figures, the live bytes and the layout of a compiled graph agree. */
static void testCompiled(const isthmus_compiled *compiled) {
  isthmus_compiled_figures figures;
  size_t nodes = 0, places = 0, i;
  const int64_t *const live = isthmus_compiled_live_bytes(compiled, &nodes);
  const isthmus_placed *const placed = isthmus_compiled_layout(compiled, &places);
  int64_t most = 0, end = 0;
  isthmus_text *report = NULL;
  char expected[64];
  figures.size = sizeof figures;
  EXPECT(isthmus_compiled_get_figures(compiled, &figures, NULL) == ISTHMUS_OK);
  EXPECT(figures.nodes == nodes && figures.clones > 0 && places >= nodes);
  for (i = 0; i < nodes; ++i)
    most = live[i] > most ? live[i] : most;
  EXPECT(most == figures.predicted_peak_bytes);
  EXPECT((double)most <= 0.9 * (double)figures.baseline_peak_bytes);
  for (i = 0; i < places; ++i) {
    EXPECT(placed[i].node < nodes && strlen(placed[i].name) > 0);
    if (placed[i].offset >= 0 && placed[i].offset + placed[i].bytes > end)
      end = placed[i].offset + placed[i].bytes;
  }
  EXPECT(end == figures.arena_bytes);
  EXPECT(isthmus_compiled_report(compiled, &report, NULL) == ISTHMUS_OK);
  sprintf(expected, "\"predicted_peak_bytes\": %ld", (long)most);
  EXPECT(strstr(isthmus_text_data(report, NULL), expected) != NULL);
  isthmus_text_free(report);
}

static void testBudgetsNotMet(const isthmus_graph *forward) {
  isthmus_compile_options options;
  isthmus_compiled *compiled = NULL;
  isthmus_compiled_figures figures;
  isthmus_graph *graph = NULL;
  size_t count = 7;
  isthmus_compile_options_init(&options, sizeof options);
  options.loss = "mean";
  options.policy = ISTHMUS_BUDGET;
  options.budget_bytes = 1000;
  options.effort = 0.05;
  EXPECT_ERROR(isthmus_compile(forward, &options, NULL, &compiled, &error), ISTHMUS_CANNOT_BE_MET,
               "the smallest that was found is");
  figures.size = sizeof figures;
  EXPECT(isthmus_compiled_get_figures(compiled, &figures, NULL) == ISTHMUS_OK);
  EXPECT(figures.baseline_peak_bytes > 0 && figures.persistent_bytes > 0);
  EXPECT(figures.predicted_peak_bytes == -1 && figures.arena_bytes == -1); /* of no plan */
  EXPECT(figures.recompute_overhead != figures.recompute_overhead);
  EXPECT(figures.smallest_budget_bytes > 1000 &&
         figures.smallest_budget_bytes < figures.baseline_peak_bytes);
  EXPECT_ERROR(isthmus_compiled_graph(compiled, &graph, &error), ISTHMUS_BAD_CALL,
               "there is no graph");
  EXPECT(!isthmus_compiled_live_bytes(compiled, &count) && count == 0);
  isthmus_compiled_free(compiled);
  options.budget_bytes = figures.smallest_budget_bytes;
  EXPECT(isthmus_compile(forward, &options, NULL, &compiled, NULL) == ISTHMUS_OK);
  isthmus_compiled_free(compiled);
}

static void testGraph(void) {
  isthmus_graph *forward = NULL, *step = NULL, *small = NULL, *again = NULL, *parsed = NULL;
  isthmus_compiled *compiled = NULL;
  isthmus_text *text = NULL, *dot = NULL;
  isthmus_error *error = NULL;
  isthmus_compile_options options;
  size_t length = 0;

  EXPECT(isthmus_graph_from_text(kMlp, sizeof kMlp - 1, &forward, &error) == ISTHMUS_OK);
  isthmus_compile_options_init(&options, sizeof options);
  options.loss = "mean";
  options.policy = ISTHMUS_BUDGET;
  options.budget_share = 0.9;
  options.effort = 0.05;
  EXPECT(isthmus_compile(forward, &options, NULL, &compiled, &error) == ISTHMUS_OK);
  testCompiled(compiled);
  testTargets(forward);
  testBudgetsNotMet(forward);
  EXPECT(isthmus_compiled_graph(compiled, &small, &error) == ISTHMUS_OK);
  isthmus_compiled_free(compiled); /* handles do not refer to one another */
  EXPECT(isthmus_graph_print(small, ISTHMUS_TEXT, &text, &error) == ISTHMUS_OK);
  EXPECT(isthmus_graph_print(small, ISTHMUS_DOT, &dot, &error) == ISTHMUS_OK);
  EXPECT(strstr(isthmus_text_data(text, &length), "clone(") != NULL);
  EXPECT(length == strlen(isthmus_text_data(text, NULL)));
  EXPECT(strncmp(isthmus_text_data(dot, NULL), "// mlp", 6) == 0);
  EXPECT(isthmus_graph_from_text(isthmus_text_data(text, NULL), length, &parsed, &error) ==
         ISTHMUS_OK);
  isthmus_text_free(text);

  testFiles(small);
  EXPECT_ERROR(isthmus_graph_print(small, 7, &text, &error), ISTHMUS_BAD_CALL, "'form' is 7");

  /* A graph that was planned is planned anew, or kept; it is not differentiated again. */
  EXPECT_ERROR(isthmus_compile(small, &options, NULL, &compiled, &error), ISTHMUS_BAD_INPUT,
               "differentiated already");
  options.loss = NULL;
  options.policy = ISTHMUS_AS_IS;
  EXPECT_ERROR(isthmus_compile(small, &options, NULL, &compiled, &error), ISTHMUS_BAD_CALL,
               "'budget_share' go with the policy ISTHMUS_BUDGET");
  options.budget_share = 0;
  EXPECT(isthmus_compile(small, &options, NULL, &compiled, &error) == ISTHMUS_OK);
  testCompiled(compiled);
  isthmus_compiled_free(compiled);
  options.policy = ISTHMUS_NO_CHOICE;
  EXPECT(isthmus_compile(small, &options, NULL, &compiled, &error) == ISTHMUS_OK);
  EXPECT(isthmus_compiled_graph(compiled, &again, &error) == ISTHMUS_OK);
  EXPECT(isthmus_graph_print(again, ISTHMUS_TEXT, &text, &error) == ISTHMUS_OK);
  EXPECT(strstr(isthmus_text_data(text, &length), "clone(") == NULL);
  isthmus_text_free(text);
  isthmus_compiled_free(compiled);

  EXPECT_ERROR(
      isthmus_graph_from_text("isthmus 2\ngraph @g {\n  %x = nosuch()\n}\n", 40, &step, &error),
      ISTHMUS_BAD_INPUT, "the text:3:8: error: ");
  EXPECT_ERROR(isthmus_graph_differentiate(forward, "entropy", NULL, &step, &error),
               ISTHMUS_BAD_INPUT, "entropy");
  EXPECT_ERROR(isthmus_graph_load("/no/such.isth", NULL, &step, &error), ISTHMUS_BAD_INPUT,
               "/no/such.isth");
  isthmus_text_free(dot);
  isthmus_graph_free(parsed);
  isthmus_graph_free(again);
  isthmus_graph_free(small);
  isthmus_graph_free(forward);
}

static void testSearches(void) {
  isthmus_problem *const problem = longChain();
  testCancelled(problem);
  testProgressPause(problem);
  isthmus_problem_free(problem);
}

static void testBudgets(void) {
  int64_t bytes = 0;
  double share = 0;
  EXPECT(isthmus_budget_parse("2GiB", &bytes, &share, NULL) == ISTHMUS_OK);
  EXPECT(bytes == (int64_t)2 << 30 && share == 0);
  EXPECT(isthmus_budget_parse("50%", &bytes, &share, NULL) == ISTHMUS_OK);
  EXPECT(bytes == -1 && share == 0.5);
  EXPECT(isthmus_budget_parse("min", &bytes, &share, NULL) == ISTHMUS_OK);
  EXPECT(bytes == -1 && share == 0);
  EXPECT(isthmus_budget_parse("0%", &bytes, &share, NULL) == ISTHMUS_OK);
  EXPECT(bytes == 0 && share == 0);
  EXPECT_ERROR(isthmus_budget_parse("much", &bytes, &share, &error), ISTHMUS_BAD_INPUT, "'much'");
}

static void tests(void) {
  EXPECT(isthmus_abi_version() == ISTHMUS_ABI_VERSION);
  EXPECT(strchr(isthmus_version(), '.') != NULL);
  testProblem();
  testSmallerStructs();
  testPrints();
  testWrongProblems();
  testGraph();
  testSearches();
  testBudgets();
  /* Null is allowed where handles are freed. */
  isthmus_error_free(NULL);
  isthmus_text_free(NULL);
  isthmus_plan_free(NULL);
  isthmus_problem_free(NULL);
  isthmus_graph_free(NULL);
  isthmus_compiled_free(NULL);
}

int main(int argc, char **argv) { return runTests(argc, argv, tests); }
