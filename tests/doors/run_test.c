/* Tests the library that runs graphs from a C program. */

#define LIBRARY isthmus_run

#include "tests/doors/expect.h"
#include "tools/c/run/isthmus_run.h"

static const char kText[] = "isthmus 2\n"
                            "graph @small {\n"
                            "  input %x : f32[2, 3]\n"
                            "  param %w : f32[3] = [1.0, 10.0, 100.0]\n"
                            "  input %labels : i64[2]\n"
                            "  %y = mul(%x, %w)\n"
                            "  %p = gather(%w, %labels) {axis = 0}\n"
                            "  output %y\n"
                            "  output %p\n"
                            "}\n";

static void testRun(void) {
  isthmus_run_session *session = NULL;
  isthmus_run_error *error = NULL;
  isthmus_run_options options;
  isthmus_run_report report;
  const isthmus_run_tensor *inputs, *outputs;
  const int64_t xSizes[2] = {2, 3}, wSizes[1] = {3}, labelSizes[1] = {2};
  const float x[6] = {1, 2, 3, 4, 5, 6}, w[3] = {2, 2, 2};
  const int64_t labels[2] = {2, 0}, wrong[2] = {0, 3};
  float y[6], p[2];
  size_t count = 0;

  isthmus_run_options_init(&options, sizeof options);
  options.threads = 1;
  EXPECT(isthmus_run_open_text(kText, sizeof kText - 1, &options, &session, &error) ==
         ISTHMUS_RUN_OK);
  inputs = isthmus_run_inputs(session, &count);
  EXPECT(count == 3);
  EXPECT(strcmp(inputs[0].name, "x") == 0 && inputs[0].kind == ISTHMUS_RUN_INPUT);
  EXPECT(inputs[0].rank == 2 && inputs[0].sizes[0] == 2 && inputs[0].sizes[1] == 3);
  EXPECT(inputs[1].kind == ISTHMUS_RUN_PARAM && inputs[1].bytes == 12);
  EXPECT(inputs[2].dtype == ISTHMUS_RUN_I64);
  outputs = isthmus_run_outputs(session, &count);
  EXPECT(count == 2 && strcmp(outputs[0].name, "y") == 0);
  EXPECT(outputs[0].kind == ISTHMUS_RUN_OUTPUT && outputs[0].dtype == ISTHMUS_RUN_F32);

  EXPECT_ERROR(isthmus_run_get(session, "y", y, sizeof y, &error), ISTHMUS_RUN_BAD_CALL,
               "no step has run");
  report.size = sizeof report;
  EXPECT_ERROR(isthmus_run_figures(session, &report, &error), ISTHMUS_RUN_BAD_CALL,
               "no step has run");
  EXPECT(isthmus_run_set(session, "x", ISTHMUS_RUN_F32, 2, xSizes, x, &error) == ISTHMUS_RUN_OK);
  EXPECT(isthmus_run_set(session, "labels", ISTHMUS_RUN_I64, 1, labelSizes, labels, &error) ==
         ISTHMUS_RUN_OK);
  EXPECT(isthmus_run_step(session, 0, &error) == ISTHMUS_RUN_OK);
  EXPECT(isthmus_run_get(session, "y", y, sizeof y, &error) == ISTHMUS_RUN_OK);
  EXPECT(y[0] == 1 && y[1] == 20 && y[2] == 300 && y[5] == 600);
  EXPECT(isthmus_run_get(session, "p", p, sizeof p, &error) == ISTHMUS_RUN_OK);
  EXPECT(p[0] == 100 && p[1] == 1);
  EXPECT(isthmus_run_figures(session, &report, &error) == ISTHMUS_RUN_OK);
  EXPECT(report.measured_peak_bytes == report.predicted_peak_bytes);
  EXPECT(report.measured_peak_bytes > 0 && report.arena_bytes >= report.measured_peak_bytes);
  EXPECT(report.persistent_bytes >= 24 + 12 + 16 && report.step_seconds > 0);

  /* An input that is given anew while there is memory for it; the others stay. */
  EXPECT(isthmus_run_set(session, "w", ISTHMUS_RUN_F32, 1, wSizes, w, &error) == ISTHMUS_RUN_OK);
  EXPECT(isthmus_run_step(session, 1, &error) == ISTHMUS_RUN_OK);
  EXPECT(isthmus_run_get(session, "y", y, sizeof y, &error) == ISTHMUS_RUN_OK);
  EXPECT(y[0] == 2 && y[5] == 12);

  EXPECT_ERROR(isthmus_run_set(session, "z", ISTHMUS_RUN_F32, 1, wSizes, w, &error),
               ISTHMUS_RUN_BAD_INPUT, "'z' names no input of the graph");
  EXPECT_ERROR(isthmus_run_set(session, "w", ISTHMUS_RUN_F32, 1, labelSizes, w, &error),
               ISTHMUS_RUN_BAD_INPUT,
               "input '%w' is of type f32[3], and what is given is of type f32[2]");
  EXPECT_ERROR(isthmus_run_set(session, "w", 77, 1, wSizes, w, &error), ISTHMUS_RUN_BAD_INPUT,
               "none of isthmus_run_dtype");
  EXPECT_ERROR(isthmus_run_set(session, "w", ISTHMUS_RUN_F32, -1, wSizes, w, &error),
               ISTHMUS_RUN_BAD_INPUT, "'rank'");
  EXPECT_ERROR(isthmus_run_set(session, "w", ISTHMUS_RUN_F32, 1, wSizes, NULL, &error),
               ISTHMUS_RUN_BAD_CALL, "'data' is null");
  EXPECT_ERROR(isthmus_run_set(session, "labels", ISTHMUS_RUN_I64, 1, labelSizes, wrong, &error),
               ISTHMUS_RUN_BAD_INPUT, "element 1 is 3");
  EXPECT_ERROR(isthmus_run_get(session, "q", y, sizeof y, &error), ISTHMUS_RUN_BAD_INPUT,
               "'q' names no output of the graph");
  EXPECT_ERROR(isthmus_run_get(session, "y", y, 4, &error), ISTHMUS_RUN_BAD_CALL, "24 bytes");
  isthmus_run_close(session);
}

static void testOpen(void) {
  isthmus_run_session *session = NULL;
  isthmus_run_options options;
  isthmus_run_options_init(&options, sizeof options);
  EXPECT_ERROR(isthmus_run_open("/no/such.isth", &options, &session, &error), ISTHMUS_RUN_BAD_INPUT,
               "/no/such.isth");
  EXPECT_ERROR(isthmus_run_open_text("isthmus 2\n", 10, &options, &session, &error),
               ISTHMUS_RUN_BAD_INPUT, "graph");
  EXPECT_ERROR(isthmus_run_open(NULL, &options, &session, &error), ISTHMUS_RUN_BAD_CALL,
               "'path' is null");
  options.device = "tpu";
  EXPECT_ERROR(isthmus_run_open("/no/such.isth", &options, &session, &error), ISTHMUS_RUN_BAD_CALL,
               "'device' is to be \"cpu\", got \"tpu\"");
  isthmus_run_options_init(&options, sizeof options);
  options.threads = -1;
  EXPECT_ERROR(isthmus_run_open("/no/such.isth", &options, &session, &error), ISTHMUS_RUN_BAD_CALL,
               "'threads'");
  options.size = 3;
  EXPECT_ERROR(isthmus_run_open("/no/such.isth", &options, &session, &error), ISTHMUS_RUN_BAD_CALL,
               "'size'");
  EXPECT(!session);
}

static void tests(void) {
  EXPECT(isthmus_run_abi_version() == ISTHMUS_RUN_ABI_VERSION);
  EXPECT(strchr(isthmus_run_version(), '.') != NULL);
  testRun();
  testOpen();
  isthmus_run_close(NULL);
  isthmus_run_error_free(NULL);
}

int main(int argc, char **argv) { return runTests(argc, argv, tests); }
