// Numbers in the library's texts have a point, although the host writes them with a comma.

#include "ir/diagnostics.h"
#include "tools/c/guarded.h"

#include "llvm/Support/ErrorHandling.h"
#include "gtest/gtest.h"
#include <locale.h>

namespace isthmus::c {
namespace {

std::string half() { return llvm::formatv("{0:F1}", 0.5).str(); }

struct Texts {
  std::string inside, inHost, after;
  bool isOwn = false, isHostsAgain = false;
};

Texts textsOf(locale_t hosts) {
  Texts t;
  const locale_t before = uselocale(hosts);
  EXPECT_EQ(guarded(nullptr,
                    [&] {
                      t.isOwn = uselocale(nullptr) != hosts;
                      t.inside = half();
                      callHost([&] {
                        t.isHostsAgain = uselocale(nullptr) == hosts;
                        t.inHost = half();
                      });
                      return ISTHMUS_OK;
                    }),
            ISTHMUS_OK);
  EXPECT_EQ(uselocale(nullptr), hosts);
  t.after = half();
  uselocale(before);
  return t;
}

TEST(Locale, IsTheLibrarysInACallAndTheHostsInAProgressFunction) {
  const Texts t = textsOf(LC_GLOBAL_LOCALE);
  EXPECT_TRUE(t.isOwn);
  EXPECT_TRUE(t.isHostsAgain);
  EXPECT_EQ(t.inside, "0.5");
}

// A small system has none of these.
TEST(Locale, WithAComma) {
  for (const char *name : {"de_DE.UTF-8", "fr_FR.UTF-8", "es_ES.UTF-8", "de_DE", "ru_RU.UTF-8"})
    if (const locale_t comma = newlocale(LC_ALL_MASK, name, nullptr)) {
      const Texts t = textsOf(comma);
      EXPECT_EQ(t.inside, "0.5");
      EXPECT_EQ(t.inHost, "0,5");
      EXPECT_EQ(t.after, "0,5");
      freelocale(comma);
    }
}

TEST(Locale, IsTheHostsAgainAfterABug) {
  EXPECT_EQ(guarded(nullptr,
                    [] {
                      llvm::report_fatal_error("made up");
                      return ISTHMUS_OK;
                    }),
            ISTHMUS_INTERNAL);
  EXPECT_EQ(uselocale(nullptr), LC_GLOBAL_LOCALE);
}

} // namespace
} // namespace isthmus::c
