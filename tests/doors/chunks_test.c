/* Tests regions of a framework's own graph, and the search for their chunks, through the C library.
 */

#define LIBRARY isthmus

#include "tests/doors/expect.h"
#include "tools/c/isthmus.h"

/* The values of y = gelu(x v) w, and of the sum of y over its rows. */
enum { kX, kV, kProduct, kHidden, kW, kY, kTotal, kValues };

static const isthmus_factor kMatmul[] = {{0, 0, 0, 1},  {-1, 0, 0, 1}, {1, 1, 1, 1},
                                         {-1, 1, 1, 1}, {0, 1, 2, 1},  {1, 0, 2, 1}};
static const isthmus_factor kEach[] = {{0, 0, 0, 1}, {-1, 0, 0, 1}, {0, 1, 1, 1}, {-1, 1, 1, 1}};
static const isthmus_factor kOverRows[] = {{0, 0, 0, 1}, {0, 1, 1, 1}, {-1, 1, 1, 1}};

static void addOp(isthmus_region_graph *graph, uint32_t a, uint32_t b, uint32_t result,
                  const isthmus_factor *factors, size_t count) {
  uint32_t operands[2];
  operands[0] = a;
  operands[1] = b;
  EXPECT(isthmus_region_graph_add_op(graph, operands, b == kValues ? 1 : 2, &result, 1, factors,
                                     count, 0, NULL) == ISTHMUS_OK);
}

static isthmus_region_graph *layers(void) {
  static const int64_t dims[kValues][2] = {{8, 4},  {4, 64}, {8, 64}, {8, 64},
                                           {64, 2}, {8, 2},  {1, 2}};
  isthmus_region_graph *graph = NULL;
  uint32_t v;
  EXPECT(isthmus_region_graph_new(&graph, NULL) == ISTHMUS_OK);
  for (v = 0; v < kValues; ++v)
    EXPECT(isthmus_region_graph_add_value(
               graph, dims[v], 2, 4 * dims[v][0] * dims[v][1],
               ISTHMUS_IS_FLOAT | (v == kTotal ? ISTHMUS_IS_KEPT : 0), NULL) == ISTHMUS_OK);
  addOp(graph, kX, kV, kProduct, kMatmul, 6);
  addOp(graph, kProduct, kValues, kHidden, kEach, 4);
  addOp(graph, kHidden, kW, kY, kMatmul, 6);
  addOp(graph, kY, kValues, kTotal, kOverRows, 3);
  return graph;
}

static isthmus_region_parts grown(const isthmus_region_graph *graph, uint32_t axis,
                                  isthmus_region **region) {
  isthmus_cut cut = {kHidden, 0, 1};
  isthmus_region_parts parts;
  cut.axis = axis;
  parts.size = sizeof parts;
  EXPECT(isthmus_region_grow(graph, cut, region, NULL) == ISTHMUS_OK);
  EXPECT(isthmus_region_get_parts(*region, &parts, NULL) == ISTHMUS_OK);
  return parts;
}

/* Along the rows of the hidden value its ops run in eight chunks; y is small, and put together.
 * Along its columns y is a sum over the chunks, and w is cut. */
static void testRegions(void) {
  isthmus_region_graph *const graph = layers();
  isthmus_cut cuts[2];
  isthmus_region *region = NULL;
  isthmus_region_parts parts;
  size_t count = 0, i;
  EXPECT(isthmus_region_graph_cuts(graph, kHidden, cuts, 2, &count, NULL) == ISTHMUS_OK);
  EXPECT(count == 2 && cuts[0].axis == 0 && cuts[1].axis == 1 && cuts[1].outer == 1);
  parts = grown(graph, 0, &region);
  EXPECT(parts.units == 8 && parts.num_ops == 3 && parts.num_stops == 0 && parts.num_totals == 0);
  EXPECT(parts.num_cuts == 4 && parts.cuts[0].value == kX && parts.cuts[3].value == kY);
  isthmus_region_free(region);
  parts = grown(graph, 1, &region);
  EXPECT(parts.units == 64 && parts.num_ops == 3 && parts.num_cuts == 4);
  for (i = 0; i < parts.num_cuts; ++i)
    EXPECT(parts.cuts[i].value != kY && parts.cuts[i].value != kX);
  isthmus_region_free(region);
  isthmus_region_graph_free(graph);
}

/* [T, B, 64] is merged to [T * B, 64], whose batch is the inner part of axis 0; what takes that
 * whole ends the region. */
static void testPartsOfAnAxis(void) {
  static const int64_t dims[][3] = {{6, 4, 64}, {6, 4, 64}, {24, 64, 0}, {24, 64, 0}, {24, 64, 0}};
  static const isthmus_factor each[] = {{0, 0, 0, 1}, {-1, 0, 0, 1}, {0, 1, 1, 1},
                                        {-1, 1, 1, 1}, {0, 2, 2, 1}, {-1, 2, 2, 1}};
  isthmus_region_graph *graph = NULL;
  isthmus_region *region = NULL;
  isthmus_region_parts parts;
  isthmus_cut cuts[8];
  size_t count = 0;
  uint32_t v;
  EXPECT(isthmus_region_graph_new(&graph, NULL) == ISTHMUS_OK);
  for (v = 0; v < 5; ++v)
    EXPECT(isthmus_region_graph_add_value(graph, dims[v], v < 2 ? 3 : 2, 6144, ISTHMUS_IS_FLOAT,
                                          NULL) == ISTHMUS_OK);
  for (v = 0; v < 4; ++v) {
    const uint32_t result = v + 1;
    EXPECT(isthmus_region_graph_add_op(graph, &v, 1, &result, 1, v == 1 ? NULL : each,
                                       v == 0 ? 6 : v == 2 ? 4 : 0,
                                       v == 1 ? ISTHMUS_IS_RESHAPE : v == 3 ? ISTHMUS_IS_WHOLE : 0,
                                       NULL) == ISTHMUS_OK);
  }
  EXPECT(isthmus_region_graph_cuts(graph, 2, cuts, 8, &count, NULL) == ISTHMUS_OK);
  EXPECT(count == 3 && cuts[2].value == 2 && cuts[2].axis == 0 && cuts[2].outer == 6);
  EXPECT(isthmus_region_grow(graph, cuts[2], &region, NULL) == ISTHMUS_OK);
  parts.size = sizeof parts;
  EXPECT(isthmus_region_get_parts(region, &parts, NULL) == ISTHMUS_OK);
  EXPECT(parts.units == 4 && parts.num_ops == 3 && parts.num_stops == 1 && parts.stops[0] == 3);
  EXPECT(parts.cuts[0].value == 0 && parts.cuts[0].axis == 1 && parts.cuts[0].outer == 1);
  EXPECT(parts.cuts[3].value == 3 && parts.cuts[3].axis == 0 && parts.cuts[3].outer == 6);
  isthmus_region_free(region);
  isthmus_region_graph_free(graph);
}

/* Four chunks of the second region are the best; a round that finds nothing better is the last. */
static void testSearch(void) {
  static const int64_t most[] = {16, 6};
  const isthmus_chunk_goal goal = {1, 0};
  isthmus_chunk_score score = {1, 0, 10, 1000};
  isthmus_chunk_search *search = NULL;
  size_t region = 0, trials = 0;
  int64_t chunks = 0, best = 0;
  int32_t begins = 0, isBest = 0;
  EXPECT(isthmus_chunk_search_new(&goal, &score, &search, NULL) == ISTHMUS_OK);
  EXPECT(isthmus_chunk_search_begin(search, most, 2, &begins, NULL) == ISTHMUS_OK && begins);
  while (isthmus_chunk_search_next(search, &region, &chunks, NULL) == ISTHMUS_OK && chunks) {
    score.bytes = region == 0 ? 2000 : 600 + 10 * (chunks > 4 ? chunks - 4 : 4 - chunks);
    EXPECT(isthmus_chunk_search_tell(search, region == 0 && chunks == 8 ? NULL : &score, &isBest,
                                     NULL) == ISTHMUS_OK);
    if (isBest)
      best = chunks;
    ++trials;
  }
  EXPECT(best == 4 && trials == 3 + 4); /* 2, 4, 8, and 2, 4, 6, 3 */
  EXPECT(isthmus_chunk_search_begin(search, most, 1, &begins, NULL) == ISTHMUS_OK && begins);
  while (isthmus_chunk_search_next(search, &region, &chunks, NULL) == ISTHMUS_OK && chunks)
    EXPECT(isthmus_chunk_search_tell(search, NULL, &isBest, NULL) == ISTHMUS_OK && !isBest);
  EXPECT(isthmus_chunk_search_begin(search, most, 2, &begins, NULL) == ISTHMUS_OK && !begins);
  isthmus_chunk_search_free(search);
}

static void testScores(void) {
  const isthmus_chunk_goal least = {1, 0.1}, fast = {0, 0};
  isthmus_chunk_score a = {1, 0, 10, 1000}, b = {1, 0, 10, 1000};
  a.bytes = 980;
  EXPECT(isthmus_chunk_score_is_better(&least, &a, &b));
  a.cost = 13; /* 30 percent for 2 */
  EXPECT(!isthmus_chunk_score_is_better(&least, &a, &b));
  EXPECT(isthmus_chunk_score_is_better(&fast, &b, &a));
  b.is_within = 0;
  EXPECT(isthmus_chunk_score_is_better(&least, &a, &b));
  b.is_within = a.is_too_dear = 1;
  EXPECT(!isthmus_chunk_score_is_better(&fast, &a, &b));
}

static void testWrongCalls(void) {
  static const int64_t dims[] = {8, -4};
  static const isthmus_factor wrong[][2] = {{{2, 0, 0, 1}, {0, 0, 0, 1}},
                                            {{-2, 0, 0, 1}, {0, 0, 0, 1}},
                                            {{0, 2, 0, 1}, {0, 0, 0, 1}},
                                            {{0, 0, 0, 3}, {0, 0, 0, 1}},
                                            {{0, 0, 0, 1}, {0, 1, 0, 1}},
                                            {{0, 0, 0, 1}, {0, 0, 1, 1}}};
  static const char *const named[] = {"operand 2, of 1", "result 1, of 1", "axis 2",
                                      "blocks of 3",     "two factors",    "two factors"};
  isthmus_region_graph *const graph = layers();
  isthmus_region *region = NULL;
  isthmus_region_parts parts;
  isthmus_chunk_search *search = NULL;
  const isthmus_chunk_goal goal = {1, -1}, least = {1, 0};
  const isthmus_chunk_score score = {1, 0, 10, 1000};
  isthmus_cut cut = {kHidden, 2, 1};
  const uint32_t y = kY, x = kX, none = kValues;
  uint32_t made = kValues;
  size_t i, count;
  int32_t is = 0;
  EXPECT_ERROR(isthmus_region_graph_new(NULL, &error), ISTHMUS_BAD_CALL, "graph");
  EXPECT_ERROR(isthmus_region_graph_add_value(graph, dims, 2, 4, 0, &error), ISTHMUS_BAD_CALL,
               "got -4");
  EXPECT_ERROR(isthmus_region_graph_add_value(graph, dims, 1, 4, 8, &error), ISTHMUS_BAD_CALL,
               "flags");
  EXPECT_ERROR(isthmus_region_graph_add_value(graph, dims, 1000, 4, 0, &error), ISTHMUS_BAD_CALL,
               "rank");
  EXPECT_ERROR(isthmus_region_graph_add_op(graph, &none, 1, &x, 1, NULL, 0, 0, &error),
               ISTHMUS_BAD_CALL, "operand 7");
  EXPECT_ERROR(isthmus_region_graph_add_op(graph, &x, 1, &y, 1, NULL, 0, 0, &error),
               ISTHMUS_BAD_CALL, "value 5 was made or read");
  EXPECT(isthmus_region_graph_add_value(graph, dims, 1, 32, 0, NULL) == ISTHMUS_OK);
  for (i = 0; i < sizeof named / sizeof *named; ++i)
    EXPECT_ERROR(isthmus_region_graph_add_op(graph, &x, 1, &made, 1, wrong[i], 2, 0, &error),
                 ISTHMUS_BAD_CALL, named[i]);
  EXPECT_ERROR(isthmus_region_graph_add_op(graph, &x, 1, &made, 1, NULL, 0, ISTHMUS_IS_RESHAPE,
                                           &error),
               ISTHMUS_BAD_CALL, "a reshape");
  EXPECT_ERROR(isthmus_region_graph_add_op(graph, &x, 1, &made, 1, NULL, 0, ISTHMUS_IS_ADDITION,
                                           &error),
               ISTHMUS_BAD_CALL, "an addition");
  EXPECT_ERROR(isthmus_region_graph_cuts(graph, 99, NULL, 0, &count, &error), ISTHMUS_BAD_CALL,
               "value 99");
  EXPECT_ERROR(isthmus_region_grow(graph, cut, &region, &error), ISTHMUS_BAD_CALL, "no axis 2");
  cut.axis = 0;
  cut.outer = 3;
  EXPECT_ERROR(isthmus_region_grow(graph, cut, &region, &error), ISTHMUS_BAD_CALL, "3 parts");
  cut.outer = 1;
  EXPECT(isthmus_region_grow(graph, cut, &region, NULL) == ISTHMUS_OK);
  parts.size = 8;
  EXPECT_ERROR(isthmus_region_get_parts(region, &parts, &error), ISTHMUS_BAD_CALL,
               "sizeof(isthmus_region_parts)");
  EXPECT_ERROR(isthmus_chunk_search_new(&goal, &score, &search, &error), ISTHMUS_BAD_CALL,
               "bytes_for_time");
  EXPECT(isthmus_chunk_search_new(&least, &score, &search, NULL) == ISTHMUS_OK);
  EXPECT_ERROR(isthmus_chunk_search_tell(search, &score, &is, &error), ISTHMUS_BAD_CALL,
               "no trial");
  isthmus_chunk_search_free(search);
  isthmus_region_free(region);
  isthmus_region_free(NULL);
  isthmus_region_graph_free(graph);
}

static void allTests(void) {
  testRegions();
  testPartsOfAnAxis();
  testSearch();
  testScores();
  testWrongCalls();
}

int main(int argc, char **argv) { return runTests(argc, argv, allTests); }
