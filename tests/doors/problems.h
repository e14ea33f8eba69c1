/* Problems that the C programs of these tests fill in as arrays. */
#ifndef ISTHMUS_TESTS_DOORS_PROBLEMS_H
#define ISTHMUS_TESTS_DOORS_PROBLEMS_H

#include "tests/doors/expect.h"
#include "tools/c/isthmus.h"

/* A problem whose only result is output 0 of the op that `output` points at. Each op that reads
 * another reads output 0 of it. All other facts are absent. */
static isthmus_arrays problemOf(size_t numOps, const double *cost, const size_t *outputBegin,
                                const int64_t *outputBytes, const size_t *inputBegin,
                                const uint32_t *inputOp, const uint32_t *output) {
  isthmus_arrays a = {.size = sizeof a};
  a.num_ops = numOps;
  a.cost = cost;
  a.output_begin = outputBegin;
  a.output_bytes = outputBytes;
  a.input_begin = inputBegin;
  a.input_op = inputOp;
  a.num_outputs = 1;
  a.output_op = output;
  return a;
}

/* A chain of 60 ops and their backward ops, each of which reads one of the chain: long enough for
 * a search to ask its caller many times. */
static isthmus_problem *longChain(void) {
  enum { kHalf = 60, kAll = 2 * kHalf };
  static double cost[kAll];
  static int64_t bytes[kAll];
  static uint8_t phase[kAll];
  static size_t outputs[kAll + 1], inputs[kAll + 1];
  static uint32_t reads[2 * kAll], last[1] = {kAll - 1};
  isthmus_problem *problem = NULL;
  isthmus_arrays a;
  uint32_t i;
  size_t next = 0;
  for (i = 0; i < kAll; ++i) {
    cost[i] = 1 + i % 5;
    bytes[i] = 100 + 10 * (i % 7);
    phase[i] = i >= kHalf;
    outputs[i] = i;
    inputs[i] = next;
    if (i > 0)
      reads[next++] = i - 1;
    if (i >= kHalf)
      reads[next++] = kAll - 1 - i;
  }
  outputs[kAll] = kAll;
  inputs[kAll] = next;
  a = problemOf(kAll, cost, outputs, bytes, inputs, reads, last);
  a.phase = phase;
  EXPECT(isthmus_problem_from_arrays(&a, &problem, NULL) == ISTHMUS_OK);
  return problem;
}

#endif
