/* Checks for the C programs of these tests. LIBRARY is the prefix of the library's functions. */
#ifndef ISTHMUS_TESTS_DOORS_EXPECT_H
#define ISTHMUS_TESTS_DOORS_EXPECT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures = 0;

#define EXPECT(condition)                                                                          \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      printf("%s:%d: expected %s\n", __FILE__, __LINE__, #condition);                              \
      ++failures;                                                                                  \
    }                                                                                              \
  } while (0)

#define JOINED(a, b) a##b
#define OF(library, name) JOINED(library, name)

/* The call, which passes `&error` on, returns `want`, and its message contains `part`. */
#define EXPECT_ERROR(call, want, part)                                                             \
  do {                                                                                             \
    OF(LIBRARY, _error) *error = NULL;                                                             \
    const OF(LIBRARY, _status) got = (call);                                                       \
    if (got != (want) || !strstr(OF(LIBRARY, _error_message)(error), part)) {                      \
      printf("%s:%d: expected status %d and '%s', got %d and '%s'\n", __FILE__, __LINE__,          \
             (int)(want), part, (int)got, OF(LIBRARY, _error_message)(error));                     \
      ++failures;                                                                                  \
    }                                                                                              \
    OF(LIBRARY, _error_free)(error);                                                               \
  } while (0)

/* Runs a program's tests as often as its argument says, or once without an argument. The memory
 * that the library holds at the end must not grow with this number. */
static int runTests(int argc, char **argv, void (*tests)(void)) {
  int rounds = argc > 1 ? atoi(argv[1]) : 1;
  while (rounds-- > 0)
    tests();
  printf(failures ? "%d failed\n" : "all as expected\n", failures);
  return failures != 0;
}

#endif
