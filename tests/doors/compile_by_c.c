/* Compiles a graph for this machine by the C library, with the options of the command line, and
 * saves it. Usage: compile_by_c IN OUT LOSS BUDGET ALLOW THREADS EFFORT. LOSS may be empty, BUDGET
 * is a budget or the name of a policy, and ALLOW is a number as in isthmus.h. */

#include "tools/c/isthmus.h"
#include "tools/c/run/isthmus_run.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(int status, isthmus_error *error) {
  if (status == ISTHMUS_OK)
    return;
  fprintf(stderr, "%s\n", isthmus_error_message(error));
  exit(status);
}

static int32_t policyOf(const char *word) {
  static const char *const words[] = {"", "none", "speed", "memory", "collection"};
  int32_t i;
  for (i = 0; i < 5; ++i)
    if (strcmp(word, words[i]) == 0)
      return i;
  return ISTHMUS_BUDGET;
}

int main(int argc, char **argv) {
  isthmus_graph *forward = NULL, *step = NULL;
  isthmus_compiled *compiled = NULL;
  isthmus_error *error = NULL;
  isthmus_target *target = NULL;
  isthmus_run_options machine;
  isthmus_compile_options options;
  if (argc != 8)
    return 2;
  isthmus_run_options_init(&machine, sizeof machine);
  machine.threads = atoi(argv[6]);
  check(isthmus_run_target(&machine, &target, &error), error);
  isthmus_compile_options_init(&options, sizeof options);
  options.loss = *argv[3] ? argv[3] : NULL;
  options.policy = policyOf(argv[4]);
  if (options.policy == ISTHMUS_BUDGET)
    check(isthmus_budget_parse(argv[4], &options.budget_bytes, &options.budget_share, &error), error);
  options.allow = (uint32_t)atoi(argv[5]);
  options.effort = atof(argv[7]);
  check(isthmus_graph_load(argv[1], NULL, &forward, &error), error);
  check(isthmus_compile(forward, &options, target, &compiled, &error), error);
  check(isthmus_compiled_graph(compiled, &step, &error), error);
  check(isthmus_graph_save(step, argv[2], &error), error);
  isthmus_graph_free(step);
  isthmus_compiled_free(compiled);
  isthmus_graph_free(forward);
  isthmus_run_target_free(target);
  return 0;
}
